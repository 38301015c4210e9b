"""Read contents of Google's APIs, as in google-genai and in events of the Agent Development Kit.

A content is Google's name for a message with `parts`. Keys may be in snake_case or camelCase.
"""

from collections.abc import Mapping

from agentv.messages.shapes.fields import (
    excerpt,
    first,
    joined,
    optional_text,
    read_tool_call,
    reasoning_part,
    tool_message,
)
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue, listed_keys
from agentv.types.messages import DataPart, Message, Part, Role, TextPart, ToolCall

_ROLES = ("model", "user", "system", "function")
_THOUGHT_KEYS = frozenset({"thought", "thoughtSignature", "thought_signature"})
_KEYS_ABOUT_PART = _THOUGHT_KEYS | {"videoMetadata", "video_metadata", "mediaResolution", "media_resolution"}
_DATA_KEYS: Mapping[str, str] = {
    "inlineData": "inline_data",
    "fileData": "file_data",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
}

_PART_KEYS = frozenset(
    {
        *("function_call", "functionCall", "function_response", "functionResponse"),
        *_KEYS_ABOUT_PART,
        *_DATA_KEYS,
        *_DATA_KEYS.values(),
    }
)


def content_of(value: JsonObject) -> JsonObject | None:
    """Return the content of an event, or the value itself if it is a content; None for any other value.

    For an event without content, return one without parts; None if its content is no object.
    """
    content = value.get("content")
    if "author" in value and first(value, "invocation_id", "invocationId") is not None:
        content = {"parts": []} if content is None else content
        return content if isinstance(content, Mapping) else None
    parts = value.get("parts")
    if not isinstance(parts, list | tuple) or not parts or value.get("role") not in _ROLES:
        return None
    return value if all(map(_is_part, parts)) else None


def is_content(value: JsonValue) -> bool:
    """Return True for a content with a part that only Google's APIs have: a call, its result or data."""
    parts = value.get("parts") if isinstance(value, Mapping) and value.get("role") in _ROLES else None
    if not isinstance(parts, list | tuple) or not all(map(_is_part, parts)):
        return False
    return any(isinstance(part, Mapping) and not _PART_KEYS.isdisjoint(part) for part in parts)


def _is_part(part: JsonValue) -> bool:
    return isinstance(part, Mapping) and first(part, "type", "kind", "part_kind") is None


def read_content(value: JsonObject, content: JsonObject, at: str) -> tuple[Message, ...]:
    """Read an event or a content: a message for each tool result, then one for all other parts, if there are any.

    `content` is what `content_of` returned for `value`. A partial event gives no message, because a complete one
    follows. Raises MessageError for a part that cannot be read, and for an event that is an error without parts.
    """
    parts = content.get("parts") or ()
    failure = first(value, "error_code", "errorCode")
    if failure is not None and not parts:
        raise MessageError(at, f"is the error {failure}: {first(value, 'error_message', 'errorMessage')}")
    if value.get("partial") is True:
        return ()
    content_parts: list[Part] = []
    calls: list[ToolCall] = []
    tool_results: list[Message] = []
    if not isinstance(parts, list | tuple):
        raise MessageError(f"{at}.parts", f"must be a list of parts, but is {excerpt(parts)}")
    for index, part in enumerate(parts):
        place = f"{at}.parts[{index}]"
        if not isinstance(part, Mapping):
            raise MessageError(place, "is not a content part")
        call = first(part, "function_call", "functionCall")
        result = first(part, "function_response", "functionResponse")
        if isinstance(call, Mapping):
            called = {"tool": call.get("name"), "input": call.get("args"), "id": call.get("id")}
            calls.append(read_tool_call(called, place))
        elif isinstance(result, Mapping):
            tool, call_id = optional_text(result.get("name")), optional_text(result.get("id"))
            tool_results.append(tool_message(result.get("response"), call_id=call_id, tool=tool))
        else:
            content_parts.append(_part(part, place))
    if not content_parts and not calls:
        return tuple(tool_results)
    role = _role(content.get("role"), author=value.get("author"))
    return (*tool_results, Message(role, joined(content_parts), tool_calls=tuple(calls)))


def _role(written: JsonValue, *, author: JsonValue) -> Role:
    if written == "system":
        return "system"
    is_by_model = author != "user" if written is None else written == "model"
    return "assistant" if is_by_model else "user"


def _part(part: JsonObject, at: str) -> Part:
    text = part.get("text")
    if isinstance(text, str):
        return reasoning_part(text) if part.get("thought") else TextPart(text)
    given = {
        _DATA_KEYS.get(key, key): item for key, item in part.items() if item is not None and key not in _KEYS_ABOUT_PART
    }
    for kind in _DATA_KEYS.values():
        item = given.get(kind)
        if isinstance(item, Mapping):
            return DataPart(kind, item)
    raise MessageError(at, f"is not understood; its keys: {listed_keys(given)}")
