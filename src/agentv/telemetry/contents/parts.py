"""Messages whose content is in parts: texts, media, calls of tools and their results, in the form of any API."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache

import msgspec

from agentv.messages.logs.fields import decoded
from agentv.messages.shapes.fields import REASONING_PARTS, excerpt, is_call_part, is_result_part
from agentv.messages.shapes.google import is_content
from agentv.messages.shapes.reading import join_reasoning, read_message
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.messages_json import compact_json


def without_parts(message: JsonValue, at: str) -> list[JsonValue]:
    """Return a message with parts (texts, calls and results) as messages of OpenAI's API; any other as it is.

    Parts are under `parts`, or, in the messages of the AI SDK, of Anthropic and of Amazon's Converse API, under
    `content`. What follows the result of a tool in one message, which the provider has called, is a message of its own.
    Raises MessageError for a part that is not understood; any other is reported when the messages are read.
    """
    made: list[JsonValue] = []
    for single in _single_messages(message):
        parts = _parts_of(single, at)
        if parts is None or not isinstance(single, Mapping):
            made.append(single if is_content(single) else _with_known_role(single))
            continue
        pieces = _pieces_of(parts)
        made += _with_parts(single, pieces[0])
        for piece in pieces[1:]:
            made += _with_parts({"role": single.get("role")}, piece)
    return made


def _single_messages(message: JsonValue) -> Sequence[JsonValue]:
    """Return the message in a choice of OpenAI's API, and each result in AG2's message of several."""
    if not isinstance(message, Mapping):
        return [message]
    inner, results = message.get("message"), message.get("tool_responses")
    if "role" not in message and isinstance(inner, Mapping) and "role" in inner:
        return [inner]
    return results if isinstance(results, list) and results else [message]


def _pieces_of(parts: list[JsonValue]) -> list[list[JsonValue]]:
    """Return the parts up to the last result of a tool, and those after it, if there are both."""
    end = max((place for place, part in enumerate(parts, 1) if _is_result(part)), default=0)
    return [piece for piece in (parts[:end], parts[end:]) if piece] or [parts]


def _with_parts(message: JsonObject, parts: Sequence[JsonValue]) -> Iterator[JsonObject]:
    called = [call_of(part) for part in parts if _is_call(part) and isinstance(part, Mapping)]
    calls = _all_calls(called, parsed(message.get("tool_calls")))
    results = [part for part in parts if _is_result(part) and isinstance(part, Mapping)]
    content = content_of(parts)
    if content or calls or not results:
        kept = {key: message[key] for key in ("name", "tool_call_id") if message.get(key)}
        with_calls = {"tool_calls": calls} if calls else {}
        yield {"role": role_of(message.get("role")), "content": content, **kept, **with_calls}
    yield from ({"role": "tool", "tool_call_id": _id_of(part), "content": _result_of(part)} for part in results)


def _all_calls(calls: Sequence[JsonObject], listed: JsonValue) -> JsonValue:
    """Return the calls in parts and those beside them, as they are if they are no list, which the reader reports."""
    if not isinstance(listed, list):
        return listed or [*calls]
    return [*calls, *(call_of(call) if isinstance(call, Mapping) else call for call in listed)]


_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode
_LONGEST_KNOWN_BYTES = 4096


def _read_row(row: JsonValue, at: str) -> Iterator[Message]:
    for message in without_parts(row, at):
        yield from read_message(message, at)


def _read_encoded(row: bytes) -> tuple[Message, ...]:
    return tuple(_read_row(_decode(row), ""))


_read_known = lru_cache(maxsize=2_000)(_read_encoded)


def read_rows(rows: Sequence[JsonValue], at: str) -> tuple[Message, ...]:
    """Read messages with or without parts. Raises MessageError for a message that cannot be read.

    Short messages are remembered, because each call of a model repeats those before it (bench/traces.py).
    """
    messages: list[Message] = []
    try:
        for row in rows:
            encoded = _encode(row)
            messages += (_read_known if len(encoded) <= _LONGEST_KNOWN_BYTES else _read_encoded)(encoded)
    except (MessageError, ValueError, OverflowError, RecursionError):  # with its place, or not to be encoded
        messages = [each for index, row in enumerate(rows) for each in _read_row(row, f"{at}[{index}]")]
    return join_reasoning(messages)


_OTHER_ROLES: Mapping[str, Role] = {"model": "assistant", "tool-call": "assistant", "tool-response": "tool"}


def role_of(value: JsonValue) -> str:
    """Return a role in our spelling; the assistant's if there is none. Some programs write `MessageRole.TOOL_CALL`."""
    role = str(value or "assistant")
    if role not in _OTHER_ROLES and not role.islower():
        role = role.rpartition(".")[2].lower().replace("_", "-")
    return _OTHER_ROLES.get(role, role)


def _with_known_role(message: JsonValue) -> JsonValue:
    role = message.get("role") if isinstance(message, Mapping) else None
    if isinstance(message, Mapping) and isinstance(role, str) and (role in _OTHER_ROLES or not role.islower()):
        return {**message, "role": role_of(role)}
    return message


_CONVERSE_MEDIA = ("image", "video", "document")
_CONVERSE_KEYS = frozenset({"text", "toolUse", "toolResult", "reasoningContent", "cachePoint", *_CONVERSE_MEDIA})
_HAYSTACK_KEYS = frozenset({"text", "tool_call", "tool_call_result", "reasoning"})


def keyed_parts(content: JsonValue, at: str) -> list[JsonValue] | None:
    """Return the parts of a message of Amazon's Converse API or of Haystack; None for any other content.

    They may be JSON. Each is an object with its type as the only key. Raises MessageError for one whose value is not
    understood.
    """
    parts = parsed(content) if isinstance(content, str) and content.startswith("[") else content
    if not isinstance(parts, list) or not parts:
        return None
    objects = [_without_type(part) for part in parts if isinstance(part, Mapping) and part]
    keys = {key for part in objects for key in part}
    is_known = keys <= _CONVERSE_KEYS or keys <= _HAYSTACK_KEYS
    if not is_known or len(objects) < len(parts) or any(len(part) > 1 for part in objects):
        return None
    keyed = [(f"{at}[{index}].{key}", key, value) for index, part in enumerate(objects) for key, value in part.items()]
    return [_keyed_part(key, value, place) for place, key, value in keyed if key != "cachePoint"]


def has_keyed_parts(value: JsonValue) -> bool:
    """Return True for a value of which `keyed_parts` understands each part, not for one that only has the same keys."""
    with suppress(MessageError):
        return keyed_parts(value, "") is not None
    return False


def _without_type(part: JsonObject) -> JsonObject:
    """Return a part with its type as its key; Strands Agents for JavaScript has it beside the other values."""
    type_ = part.get("type")
    return {str(type_): part} if type_ in ("toolUse", "toolResult") else part


def _keyed_part(key: str, value: JsonValue, at: str) -> JsonObject:
    if key == "text":
        return {"type": "text", "content": value}
    if not isinstance(value, Mapping):
        raise MessageError(at, f"must be an object, but is {excerpt(value)}")
    if key in _CONVERSE_MEDIA:
        return {**value, "type": "blob", "modality": key}
    if key == "toolUse":
        called = {"name": value.get("name"), "arguments": value.get("input")}
        return {"type": "tool_call", "id": value.get("toolUseId"), **called}
    if key == "toolResult":
        return {"type": "tool_call_response", "id": value.get("toolUseId"), "response": value.get("content")}
    if key == "tool_call":
        called = {"name": value.get("tool_name"), "arguments": value.get("arguments")}
        return {"type": "tool_call", "id": value.get("id"), **called}
    if key == "tool_call_result":
        origin = value.get("origin")
        call_id = origin.get("id") if isinstance(origin, Mapping) else None
        return {"type": "tool_call_response", "id": call_id, "response": value.get("result")}
    return _reasoning_part(value, at)


def _reasoning_part(value: JsonObject, at: str) -> JsonObject:
    if "redactedContent" in value:
        return {"type": "redacted_thinking", **value}
    inner = value.get("reasoningText")
    text = inner.get("text") if isinstance(inner, Mapping) else value.get("reasoning_text")
    if not isinstance(text, str):
        raise MessageError(at, f"has no text: {excerpt(value)}")
    return {"type": "reasoning", "text": text}


def _parts_of(message: JsonValue, at: str) -> list[JsonValue] | None:
    if not isinstance(message, dict):
        return None
    parts, content = message.get("parts"), message.get("content")
    if isinstance(parts, list) and (parts or not content):
        return None if is_content(message) else parts
    is_text = isinstance(content, str) and not has_keyed_parts(content)
    keyed = None if is_text else keyed_parts(content, f"{at}.content")
    if keyed is not None:
        return keyed
    has_calls = isinstance(content, list) and any(_is_call(part) or _is_result(part) for part in content)
    return content if has_calls and isinstance(content, list) else None


def _id_of(part: JsonObject) -> JsonValue:
    return part.get("id") or part.get("toolCallId") or part.get("tool_use_id")


_RESULT_KEYS = ("response", "result", "output", "content", "server_tool_call_response")
_ARGUMENT_KEYS = ("arguments", "input", "args", "server_tool_call")


def _result_of(part: JsonObject) -> str:
    result = next((part[key] for key in _RESULT_KEYS if part.get(key) is not None), None)
    if isinstance(result, Mapping) and result.keys() == {"type", "value"}:  # an output of the AI SDK
        result = result["value"]
    texts = texts_in(result)
    if texts is not None:
        return "\n".join(texts)
    return result if isinstance(result, str) else compact_json(result)


def texts_in(parts: JsonValue) -> list[str] | None:
    """Return the texts of parts that are all texts, as in MCP and the Converse API; None for any other value."""
    listed = parts if isinstance(parts, list) else []
    texts = [part["text"] for part in listed if isinstance(part, Mapping) and isinstance(part.get("text"), str)]
    is_text = all(isinstance(part, Mapping) and part.keys() <= {"type", "text", "annotations"} for part in listed)
    return [str(text) for text in texts] if listed and is_text and len(texts) == len(listed) else None


def call_of(part: JsonObject) -> JsonObject:
    """Return a tool call, of the API, a part or already in our own form, in our own form."""
    inner = part.get("function")
    source = inner if isinstance(inner, Mapping) else part
    name = source.get("name") or part.get("toolName") or part.get("tool")
    arguments = next((source[key] for key in _ARGUMENT_KEYS if source.get(key) is not None), None)
    return {"id": _id_of(part), "tool": name, "input": parsed(arguments)}


def parsed(value: JsonValue) -> JsonValue:
    """Return the JSON object or list that a text holds; any other value as it is."""
    inner = decoded(value) if isinstance(value, str) else None
    return value if inner is None else inner


def _type(part: JsonValue) -> str:
    return str(part.get("type", "text")) if isinstance(part, dict) else "text"


def _is_call(part: JsonValue) -> bool:
    type_ = _type(part)
    return type_ == "function" or is_call_part(type_)


def _is_result(part: JsonValue) -> bool:
    type_ = _type(part)
    return type_.endswith("tool_call_response") or is_result_part(type_)


def content_of(parts: Sequence[JsonValue]) -> JsonValue:
    """Return parts without calls and their results, as one text if all are texts."""
    content = [_part(part) for part in parts if not _is_call(part) and not _is_result(part)]
    texts = [text for part in content if (text := _text_of(part)) is not None]
    return "\n".join(texts) if len(texts) == len(content) else content


_MEDIA = ("image", "audio", "video")


def _text_of(part: JsonValue) -> str | None:
    """Return the text of a text part, None for any other part."""
    text = part
    if isinstance(part, Mapping) and _type(part) == "text":
        text = part.get("content", part.get("text"))
    return text if isinstance(text, str) else None


def _part(part: JsonValue) -> JsonValue:
    """Return a part with a known type: media by their modality, unknown types as `data-TYPE`."""
    if not isinstance(part, Mapping):
        return part
    type_ = _type(part)
    if type_ in ("uri", "blob", "file"):
        modality = part.get("modality")
        return {**part, "type": modality if modality in _MEDIA else "file"}
    if type_ == "text" and "text" not in part:
        return {**part, "text": part.get("content")}
    return part if type_ == "text" or type_ in REASONING_PARTS else {**part, "type": f"data-{type_}"}
