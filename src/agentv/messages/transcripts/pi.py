"""Messages of pi: those that the program prints, and the entries of its session files, a tree by `parentId`."""

import re
from collections.abc import Iterable, Iterator

from agentv.messages.transcripts.steps import (
    Called,
    Failed,
    Returned,
    Said,
    SessionInfo,
    Step,
    Used,
    parts_text,
    text_of,
    time_of_ms,
)
from agentv.messages.transcripts.tree import path_to_last
from agentv.messages.transcripts.turns import (
    ATTACHED,
    Asked,
    Conversation,
    Event,
    Interrupted,
    Record,
    Unread,
    make_turns,
)
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import Usage, read_cost, read_count

_FILTER_MARK = "content_filter"
"""The text in an error message of pi that means a content filter."""

_STATUS_AT_START = re.compile(r"([45][0-9]{2})\b")
"""The HTTP status with which an error message of pi may begin."""


def read_pi_message(message: JsonObject, moment: str) -> Iterator[Step]:
    """Convert a message of the agent into steps."""
    usage = object_of(message.get("usage"))
    yield SessionInfo(model=text_of(message.get("model")), finish_reason=text_of(message.get("stopReason")))
    yield Used(_usage(usage), read_cost(object_of(usage.get("cost")).get("total")) or None)
    for part in objects_of(message.get("content")):
        text = text_of(part.get("text"))
        if part.get("type") == "text" and text:
            yield Said(text, moment)
        elif part.get("type") == "toolCall":
            yield Called(str(part.get("id", "")), str(part.get("name", "")), part.get("arguments"), moment)
    if message.get("stopReason") in ("error", "aborted"):
        error = text_of(message.get("errorMessage")) or "no details"
        status = _STATUS_AT_START.match(error)
        yield Failed(error, int(status[1]) if status else None, "content_filter" if _FILTER_MARK in error else None)


def _usage(usage: JsonObject) -> Usage:
    """Return the usage of one model call; tokens read from or written to the cache count as input."""
    cached = read_count(usage.get("cacheRead"))
    input_tokens = read_count(usage.get("input")) + cached + read_count(usage.get("cacheWrite"))
    output_tokens = read_count(usage.get("output"))
    reasoning = read_count(usage.get("reasoning"))
    return Usage(
        input=input_tokens,
        output=output_tokens,
        cached_input=cached,
        reasoning=reasoning,
        total=input_tokens + output_tokens,
        requests=1,
    )


_KNOWN_TYPES = tuple(
    "branch_summary compaction custom custom_message label message model_change session session_info "  # noqa: SIM905 - a list of words
    "thinking_level_change".split()
)
_KNOWN_ROLES = tuple(
    "assistant bashExecution branchSummary compactionSummary custom hookMessage toolResult user".split()  # noqa: SIM905 - a list of words
)


def is_pi(value: JsonObject) -> bool:
    """Return True for the header of a session file."""
    return value.get("type") == "session" and {"id", "timestamp", "cwd"} <= value.keys()


def read_pi_session(records: Iterable[Record]) -> Conversation:
    """Return the conversation that ends with the last entry; prompts on other branches are abandoned."""
    header, *entries = list(records) or [Record(0, {})]
    path, others = path_to_last(entries, id_of=lambda each: each.get("id"), parent_of=lambda each: each.get("parentId"))
    known = {"version": header.value.get("version"), "cwd": header.value.get("cwd")}
    return Conversation(
        program="pi",
        session=text_of(header.value.get("id")) or "",
        turns=make_turns(event for record in path for event in _events_of(record)),
        metadata={name: value for name, value in known.items() if value is not None},
        abandoned=tuple(each.line for each in others if _role(each.value) == "user"),
        unread=tuple(filter(None, map(_unread, entries))),
    )


def _role(entry: JsonObject) -> JsonValue:
    return object_of(entry.get("message")).get("role")


def _unread(record: Record) -> Unread | None:
    kind = record.value.get("type")
    if kind not in _KNOWN_TYPES:
        return Unread(record.line, f"entry of unknown type {kind!r}")
    if kind == "message" and (role := _role(record.value)) not in _KNOWN_ROLES:
        return Unread(record.line, f"message of unknown role {role!r}")
    return None


def _events_of(record: Record) -> Iterator[Event]:
    entry = record.value
    message = object_of(entry.get("message"))
    moment = time_of_ms(message.get("timestamp")) or text_of(entry.get("timestamp"))
    match message.get("role") if entry.get("type") == "message" else entry.get("type"):
        case "user":
            content = parts_text(message.get("content"))
            text = content if isinstance(content, str) else _texts(message)
            # The id has 8 digits and is unique in its session only; copies in forked sessions have the same time.
            number = f"{entry['id']}-{entry.get('timestamp')}" if entry.get("id") else ""
            yield Asked(number, record.line, text, moment)
        case "assistant":
            is_aborted = message.get("stopReason") == "aborted"  # by the user, with Esc
            steps = read_pi_message(message, moment or "")
            yield from (Interrupted() if is_aborted and isinstance(step, Failed) else step for step in steps)
        case "toolResult":
            output = parts_text(message.get("content"))
            failed = message.get("isError") is True
            yield Returned(str(message.get("toolCallId", "")), {"error": output} if failed else output, moment)
        case "model_change":
            yield SessionInfo(model=text_of(entry.get("modelId")))


def _texts(message: JsonObject) -> str:
    """Return the texts of a message that also has images."""
    parts = objects_of(message.get("content"))
    return "\n".join(str(part["text"]) for part in parts if text_of(part.get("text"))) or ATTACHED
