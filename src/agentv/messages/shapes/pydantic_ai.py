"""Messages of pydantic-ai: a ModelRequest or ModelResponse with `parts`, as objects or as `all_messages_json`."""

from collections.abc import Callable, Mapping

from agentv.messages.shapes.fields import (
    joined,
    optional_text,
    read_content,
    read_part,
    read_tool_call,
    reasoning_part,
    tool_message,
)
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject
from agentv.types.messages import DataPart, Message, Part, ToolCall

KINDS = ("request", "response")
_RETURNS = frozenset({"tool-return", "builtin-tool-return"})
_CALLS = frozenset({"tool-call", "builtin-tool-call"})
_RETRIES = frozenset({"retry-prompt", "retry-feedback"})


def read_pydantic_ai(value: JsonObject, at: str) -> tuple[Message, ...]:
    """Read a request as at most one message per part, or a response as one message and the results of built-in tools.

    Raises MessageError.
    """
    parts = value.get("parts")
    if not isinstance(parts, list | tuple) or not all(isinstance(part, Mapping) for part in parts):
        raise MessageError(f"{at}.parts", "must be a list of message parts")
    places = [(f"{at}.parts[{index}]", part) for index, part in enumerate(parts) if isinstance(part, Mapping)]
    if value["kind"] == "response":
        return _response(places, timestamp=optional_text(value.get("timestamp")))
    read = [_request_part(part, place) for place, part in places]
    return tuple(message for message in read if message is not None)


def _request_part(part: JsonObject, at: str) -> Message | None:
    """Return the message of a part; None for a part that only changes tools or settings of the request."""
    kind, content = str(part.get("part_kind")), part.get("content")
    timestamp = optional_text(part.get("timestamp"))
    if kind == "user-prompt":
        return Message("user", read_content(content, f"{at}.content"), timestamp=timestamp)
    if kind == "system-prompt" or kind.startswith("instruction"):
        return Message("system", optional_text(content) or "", timestamp=timestamp)
    if kind in _RETURNS:
        return _return(part)
    if kind in _RETRIES:
        if part.get("tool_name") is not None:
            return _return({**part, "outcome": "retried"})
        return Message("user", optional_text(content), timestamp=timestamp)
    if kind.endswith("-delta"):
        return None
    raise _unknown(part, at)


def _return(part: JsonObject) -> Message:
    return tool_message(
        part.get("content"),
        call_id=optional_text(part.get("tool_call_id")),
        tool=optional_text(part.get("tool_name")),
        failed=part.get("outcome", "success") != "success",
        timestamp=optional_text(part.get("timestamp")),
    )


def _response(places: list[tuple[str, JsonObject]], timestamp: str | None) -> tuple[Message, ...]:
    """Return the message of a response, followed by the results of tools that the model's provider called."""
    content_parts: list[Part] = []
    calls: list[ToolCall] = []
    returned: list[Message] = []
    for at, part in places:
        kind = str(part.get("part_kind"))
        if kind in _CALLS:
            calls.append(read_tool_call(part, at))
        elif kind in _RETURNS:
            returned.append(_return(part))
        elif kind in _PART_READERS:
            content_parts.append(_PART_READERS[kind](part, at))
        else:
            raise _unknown(part, at)
    return (Message("assistant", joined(content_parts), tool_calls=tuple(calls), timestamp=timestamp), *returned)


def _thought(part: JsonObject, _at: str) -> Part:
    return reasoning_part(optional_text(part.get("content")) or "")


def _text(part: JsonObject, at: str) -> Part:
    return read_part({"type": "text", "text": part.get("content")}, at)


def _other(part: JsonObject, _at: str) -> Part:
    return DataPart(str(part["part_kind"]), {key: item for key, item in part.items() if key != "part_kind"})


_PART_READERS: Mapping[str, Callable[[JsonObject, str], Part]] = {
    "text": _text,
    "thinking": _thought,
    "file": _other,
    "compaction": _other,
}


def _unknown(part: JsonObject, at: str) -> MessageError:
    return MessageError(at, f"has the unknown part_kind {part.get('part_kind')!r}")
