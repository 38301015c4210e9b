"""The Anthropic messages API."""

import re
from collections.abc import Iterator, Mapping, Sequence

from agentv.fake.api import (
    Api,
    Finish,
    Problem,
    Question,
    RefusedError,
    Reply,
    Role,
    Tool,
    Turn,
    as_count,
    as_list,
    as_object,
    as_text,
    event,
    joined_texts,
    objects,
    pieces,
    refused,
)
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json

_ROLES: Mapping[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}
_SYSTEM_BETA_PREFIX = "mid-conversation-"
"""The prefix of the beta names that allow system messages between other messages; Claude Code sends such messages."""

_REMINDER = re.compile(r"\s*<system-reminder>.*</system-reminder>\s*", re.DOTALL)
"""A text that Claude Code adds to the user's message."""

_FINISHES: Mapping[Finish, str] = {
    "stop": "end_turn",
    "tool": "tool_use",
    "length": "max_tokens",
    "filter": "refusal",
    "blocked": "refusal",
}
_ERROR_TYPES: Mapping[int, str] = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_FIRST_SERVER_ERROR = 500


def _read(body: JsonObject, model: str) -> Question:
    if as_count(body.get("max_tokens")) is None:
        raise refused("max_tokens: Field required")
    return _read_question(body, model)


def _read_question(body: JsonObject, model: str) -> Question:
    """Return the question in a body, in which `max_tokens` is optional, as it is for counting tokens."""
    if not as_list(body.get("messages")):
        raise refused("messages: at least one message is required")
    system = joined_texts(body.get("system"))
    turns = [turn for message in objects(body["messages"]) for turn in _turns(message)]
    return Question(
        model=model,
        turns=((Turn("system", system),) if system else ()) + tuple(turns),
        tools=tuple(_tool(index, as_object(tool)) for index, tool in enumerate(as_list(body.get("tools")))),
        must_call=_forced_tool(as_object(body.get("tool_choice"))),
        schema=_schema(body),
        max_tokens=as_count(body.get("max_tokens")),
        stream=body.get("stream") is True,
        thinks=_has_thinking(as_object(body.get("thinking")), as_count(body.get("max_tokens"))),
    )


def _check(body: JsonObject, headers: Mapping[str, str]) -> None:
    """Raise RefusedError for a system message, unless the request has a beta header that allows it."""
    roles = [message.get("role") for message in objects(body.get("messages"))]
    if "system" in roles and _SYSTEM_BETA_PREFIX not in headers.get("anthropic-beta", ""):
        raise _wrong_role("system")


def _wrong_role(role: JsonValue) -> RefusedError:
    return refused(f"messages: Unexpected role {role!r}. Allowed roles are 'user' or 'assistant'")


def _turns(message: JsonObject) -> list[Turn]:
    """Return a message as turns: its reminders as a system turn, then its text, then one turn per tool result.

    Tool results come last, because the reply to a request depends on its last turn. A message without any of these is
    one empty turn. Raises RefusedError for an unknown role.
    """
    content = message.get("content")
    role = _ROLES.get(as_text(message.get("role")))
    if role is None:
        raise _wrong_role(message.get("role"))
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else objects(content)
    reminders = [part for part in parts if _REMINDER.fullmatch(as_text(part.get("text")))]
    results = [part for part in parts if part.get("type") == "tool_result"]
    text = joined_texts([part for part in parts if part not in reminders])
    turns = [Turn("system", joined_texts(reminders))] if reminders else []
    turns += [Turn(role, text)] if text else []
    turns += [Turn("tool", joined_texts(part.get("content"))) for part in results]
    return turns or [Turn(role, "")]


def _tool(index: int, tool: JsonObject) -> Tool:
    name = as_text(tool.get("name"))
    if not name:
        raise refused(f"tools.{index}.name: Field required")
    return Tool(name, as_object(tool.get("input_schema")))


def _forced_tool(choice: JsonObject) -> str | None:
    """Return the tool that `tool_choice` requires: "" for any tool, None if no call is required."""
    if choice.get("type") == "any":
        return ""
    return as_text(choice.get("name")) or None


def _schema(body: JsonObject) -> JsonObject | None:
    output = as_object(as_object(body.get("output_config")).get("format")) or as_object(body.get("output_format"))
    return as_object(output.get("schema")) or None


def _has_thinking(thinking: JsonObject, max_tokens: int | None) -> bool:
    if thinking.get("type") != "enabled":
        return False
    budget = as_count(thinking.get("budget_tokens"))
    if budget is None:
        raise refused("thinking.enabled.budget_tokens: Field required")
    if max_tokens is not None and budget >= max_tokens:
        raise refused("`max_tokens` must be greater than `thinking.budget_tokens`.")
    return True


def _blocks(reply: Reply) -> list[JsonObject]:
    blocks: list[JsonObject] = []
    if reply.thinking:
        blocks.append({"type": "thinking", "thinking": reply.thinking, "signature": "ZmFrZQ=="})
    if reply.text or not reply.tool_uses:
        blocks.append({"type": "text", "text": reply.text})
    ids = [use.id.replace("call_", "toolu_") for use in reply.tool_uses]
    for identifier, use in zip(ids, reply.tool_uses, strict=True):
        blocks.append({"type": "tool_use", "id": identifier, "name": use.name, "input": use.arguments})
    return blocks


def _message(question: Question, finish: str | None, blocks: Sequence[JsonObject], output_tokens: int) -> JsonObject:
    usage = {"input_tokens": question.input_tokens, "output_tokens": output_tokens}
    cache = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    return {
        "id": f"msg_{question.digest}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "content": list(blocks),
        "stop_reason": finish,
        "stop_sequence": None,
        "usage": {**usage, **cache},
    }


def _write(question: Question, reply: Reply) -> JsonObject:
    return _message(question, _FINISHES[reply.finish], _blocks(reply), reply.output_tokens)


def _stream(question: Question, reply: Reply) -> Iterator[str]:
    yield _event({"type": "message_start", "message": _message(question, None, (), 0)})
    yield _event({"type": "ping"})
    for index, block in enumerate(_blocks(reply)):
        empty, deltas = _empty_and_deltas(block)
        yield _event({"type": "content_block_start", "index": index, "content_block": empty})
        for delta in deltas:
            yield _event({"type": "content_block_delta", "index": index, "delta": delta})
        yield _event({"type": "content_block_stop", "index": index})
    ended = {"stop_reason": _FINISHES[reply.finish], "stop_sequence": None}
    yield _event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": reply.output_tokens}})
    yield _event({"type": "message_stop"})


def _empty_and_deltas(block: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return what a stream sends of a block: first the block without its content, then the content as deltas."""
    kind = as_text(block["type"])
    if kind == "tool_use":
        parts = pieces(compact_json(block["input"]))
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": part} for part in parts]
    deltas: list[JsonObject] = [{"type": f"{kind}_delta", kind: piece} for piece in pieces(as_text(block[kind]))]
    if kind == "thinking":
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    return {**block, kind: ""}, deltas


def _event(data: Mapping[str, JsonValue]) -> str:
    return event(data, as_text(data["type"]))


def _refuse(problem: Problem) -> JsonObject:
    default = "api_error" if problem.status >= _FIRST_SERVER_ERROR else "invalid_request_error"
    error = {"type": _ERROR_TYPES.get(problem.status, default), "message": problem.message}
    return {"type": "error", "error": error, "request_id": "req_fake"}


def _report(problem: Problem) -> str:
    return event(_refuse(problem), "error")


def _count(question: Question, _: Reply) -> JsonObject:
    return {"input_tokens": question.input_tokens}


_VERSION = ("anthropic-version",)
ANTHROPIC = Api(
    name="anthropic-messages",
    read=_read,
    write=_write,
    refuse=_refuse,
    stream=_stream,
    report=_report,
    needed_headers=_VERSION,
    check=_check,
)
ANTHROPIC_COUNT = Api(
    "anthropic-count",
    _read_question,
    _count,
    _refuse,
    has_reply=False,
    billed=False,
    needed_headers=_VERSION,
    check=_check,
)
