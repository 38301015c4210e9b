"""Events of GitHub Copilot: those that the program prints, and those of its session files (`events.jsonl`)."""

from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from agentv.messages.transcripts.steps import (
    Called,
    Concluded,
    Failed,
    Noted,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    status_of,
    text_of,
)
from agentv.messages.transcripts.turns import Asked, Conversation, Event, Interrupted, Record, Unread, make_turns
from agentv.types.json_value import JsonObject, object_of, objects_of
from agentv.types.usage import Usage, read_count

_PREFIXES = (
    *("abort", "assistant.", "auto_", "canvas.", "capabilities.", "command", "elicitation.", "exit_plan_mode."),
    *("extensions.", "external_tool.", "hook.", "human_", "mcp", "model.", "pending_messages.", "permission", "result"),
    *("sampling.", "session.", "skill.", "subagent.", "system.", "tool", "user.", "user_input.", "workflow"),
)
"""How the types of known events begin."""


def is_copilot(value: JsonObject) -> bool:
    """Return True for an event of a session file."""
    kind = value.get("type")
    is_event = isinstance(value.get("data"), Mapping) and {"id", "timestamp", "parentId"} <= value.keys()
    return is_event and isinstance(kind, str) and kind.startswith(("session.", "user.message", "assistant.", "system."))


def read_copilot_session(records: Iterable[Record]) -> Conversation:
    """Return the conversation of a session file; events that a rewind removed are left out."""
    listed = list(records)
    unread = tuple(
        Unread(line, f"event of unknown type {value.get('type')!r}")
        for line, value in ((each.line, each.value) for each in listed)
        if not str(value.get("type")).startswith(_PREFIXES)
    )
    start = next(
        (object_of(each.value.get("data")) for each in listed if each.value.get("type") == "session.start"), {}
    )
    kept, removed = _without_rewound(listed)
    return Conversation(
        program="copilot",
        session=text_of(start.get("sessionId")) or "",
        turns=make_turns(event for record in kept for event in _events_of(record)),
        metadata=_metadata(start),
        abandoned=tuple(each.line for each in removed if _is_prompt(each.value)),
        unread=unread,
    )


def _metadata(start: JsonObject) -> JsonObject:
    known = {"version": start.get("copilotVersion"), "cwd": object_of(start.get("context")).get("cwd")}
    return {name: value for name, value in known.items() if value is not None}


def _without_rewound(records: list[Record]) -> tuple[list[Record], list[Record]]:
    """Return the events that are left, and those that the user removed."""
    kept: list[Record] = []
    removed: list[Record] = []
    for record in records:
        if record.value.get("type") != "session.snapshot_rewind":
            kept.append(record)
            continue
        data = object_of(record.value.get("data"))
        ids, first = data.get("eventIds"), data.get("upToEventId")
        named = set(map(str, ids)) if isinstance(ids, list) else None
        place = next((at for at, each in enumerate(kept) if each.value.get("id") == first), len(kept))
        later, kept = kept[place:], kept[:place]
        for each in later:
            is_gone = named is None or str(each.value.get("id")) in named
            (removed if is_gone else kept).append(each)
    return kept, removed


def _is_prompt(event: JsonObject) -> bool:
    data = object_of(event.get("data"))
    by_user = data.get("source") in (None, "", "user") and data.get("isAutopilotContinuation") is not True
    return event.get("type") == "user.message" and by_user and "agentId" not in event


def _events_of(record: Record) -> Iterator[Event]:
    event = record.value
    data, moment = object_of(event.get("data")), text_of(event.get("timestamp")) or ""
    match event.get("type"):
        case "user.message":
            if _is_prompt(event):
                yield Asked(str(event.get("id", "")), record.line, str(data.get("content") or ""), moment or None)
        case "session.start":
            yield SessionInfo(model=text_of(data.get("selectedModel")))
        case "session.usage_record":
            yield Used(replace(_tokens_of(object_of(data.get("usage"))), requests=1))
        case "session.task_complete":
            if text := text_of(data.get("summary")):
                yield Concluded(text)
        case "abort":
            yield Interrupted()
        case _:
            yield from read_copilot(event, moment)


def read_copilot(event: JsonObject, received_at: str) -> Iterator[Step]:
    """Convert one event of `--output-format json` into steps; `received_at` replaces a missing timestamp."""
    data = object_of(event.get("data"))
    moment = text_of(event.get("timestamp")) or received_at
    match event.get("type"):
        case "assistant.message":
            yield from _read_message(data, moment)
        case "tool.execution_start":
            yield Called(str(data.get("toolCallId", "")), str(data.get("toolName", "")), data.get("arguments"), moment)
        case "tool.execution_complete":
            yield from _read_result(data, moment)
        case "session.error":
            status = status_of(data.get("statusCode"))
            is_auth_error = data.get("errorType") == "authentication"
            yield Failed(text_of(data.get("message")) or "no details", status, "auth" if is_auth_error else None)
        case "session.warning" | "session.info":
            yield Noted(text_of(data.get("message")) or "no details")
        case "result":
            yield SessionInfo(session=text_of(event.get("sessionId")))


def _read_message(data: JsonObject, moment: str) -> Iterator[Step]:
    parent = text_of(data.get("parentToolCallId"))
    yield SessionInfo(model=text_of(data.get("model")))
    text = text_of(data.get("content"))
    if text:
        yield Said(text, moment, parent)
    for call in objects_of(data.get("toolRequests")):
        yield Called(
            id=str(call.get("toolCallId", "")),
            tool=str(call.get("name", "")),
            input=call.get("arguments"),
            at=moment,
            parent=parent,
        )


def _read_result(data: JsonObject, moment: str) -> Iterator[Step]:
    output = object_of(data.get("result")).get("content")
    exit_code = object_of(data.get("shellExecution")).get("exitCode")
    if data.get("success") is False:
        error = object_of(data.get("error")).get("message", data.get("error"))
        output = {"error": error if error is not None else output}
    elif exit_code not in (0, None):
        output = {"error": output, "exit_code": exit_code}
    yield Returned(str(data.get("toolCallId", "")), output, moment)


def usage_of_model(metrics: JsonObject) -> Usage:
    """Return the usage of one model in the summary of a session."""
    requests = read_count(object_of(metrics.get("requests")).get("count"))
    return replace(_tokens_of(object_of(metrics.get("usage"))), requests=requests)


def _tokens_of(used: JsonObject) -> Usage:
    input_tokens, output_tokens = read_count(used.get("inputTokens")), read_count(used.get("outputTokens"))
    return Usage(
        input=input_tokens,
        output=output_tokens,
        cached_input=read_count(used.get("cacheReadTokens")),
        reasoning=read_count(used.get("reasoningTokens")),
        total=input_tokens + output_tokens,
    )
