"""Messages whose content is in parts: texts, media, calls of tools and their results, in the form of any API."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from agentv.messages.logs.fields import decoded
from agentv.messages.shapes.fields import REASONING_PARTS, is_call_part, is_result_part
from agentv.messages.shapes.google import is_content
from agentv.messages.shapes.reading import join_reasoning, read_messages
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.messages_json import compact_json


def conversation(messages: Sequence[JsonValue]) -> list[JsonValue]:
    """Return messages with parts (texts, calls and results) as messages of OpenAI's API.

    Parts are under `parts`, or, in the messages of the AI SDK, of Anthropic and of Amazon's Converse API, under
    `content`. What follows the result of a tool in one message, which the provider has called, is a message of its own.
    """
    made: list[JsonValue] = []
    for message in itertools.chain.from_iterable(map(_single_messages, messages)):
        parts = _parts_of(message)
        if parts is None or not isinstance(message, Mapping):
            made.append(message if is_content(message) else _with_known_role(message))
            continue
        pieces = _pieces_of(parts)
        made += _with_parts(message, pieces[0])
        for piece in pieces[1:]:
            made += _with_parts({"role": message.get("role")}, piece)
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
    calls = [call_of(part) for part in parts if _is_call(part) and isinstance(part, Mapping)]
    listed = message.get("tool_calls")
    calls += [call_of(call) for call in (listed if isinstance(listed, list) else ()) if isinstance(call, Mapping)]
    results = [part for part in parts if _is_result(part) and isinstance(part, Mapping)]
    content = content_of(parts)
    if content or calls or not results:
        kept = {key: message[key] for key in ("name", "tool_call_id") if message.get(key)}
        called = {"tool_calls": calls} if calls else {}
        yield {"role": role_of(message.get("role")), "content": content, **kept, **called}
    yield from ({"role": "tool", "tool_call_id": _id_of(part), "content": _result_of(part)} for part in results)


_encode, _decode = msgspec.msgpack.encode, msgspec.msgpack.decode
_LONGEST_KNOWN_BYTES = 4096


def _read_row(encoded: bytes) -> tuple[Message, ...]:
    return read_messages(conversation([_decode(encoded)]), "")


_known_row = lru_cache(maxsize=2_000)(_read_row)


def read_rows(rows: Sequence[JsonValue], at: str) -> tuple[Message, ...]:
    """Read messages with or without parts. Raises MessageError for a message that cannot be read.

    Short messages are remembered, because each call of a model repeats those before it (bench/traces.py).
    """
    messages: list[Message] = []
    try:
        for row in rows:
            encoded = _encode(row)
            messages += (_known_row if len(encoded) <= _LONGEST_KNOWN_BYTES else _read_row)(encoded)
    except (MessageError, ValueError, OverflowError, RecursionError):  # with its place, or not to be encoded
        return read_messages(conversation(rows), at)
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


def keyed_parts(content: JsonValue) -> list[JsonValue] | None:
    """Return the parts of a message of Amazon's Converse API or of Haystack; None for any other content.

    They may be JSON. Each is an object with its type as the only key.
    """
    parts = parsed(content) if isinstance(content, str) and content.startswith("[") else content
    if not isinstance(parts, list) or not parts:
        return None
    parts = [_without_type(part) for part in parts]
    keys = {key for part in parts if isinstance(part, Mapping) for key in part}
    is_known = keys <= _CONVERSE_KEYS or keys <= _HAYSTACK_KEYS
    if not is_known or not all(isinstance(part, Mapping) and len(part) == 1 for part in parts):
        return None
    return [made for part in parts if isinstance(part, Mapping) for made in _keyed_part(part)]


def _without_type(part: JsonValue) -> JsonValue:
    """Return a part with its type as its key; Strands Agents for JavaScript has it beside the other values."""
    type_ = part.get("type") if isinstance(part, Mapping) else None
    return {type_: part} if type_ in ("toolUse", "toolResult") else part


def _keyed_part(part: JsonObject) -> list[JsonValue]:
    (key,) = part
    value = part[key]
    if key == "text":
        return [{"type": "text", "content": value}]
    if not isinstance(value, Mapping):
        return []
    if key in _CONVERSE_MEDIA:
        return [{**value, "type": "blob", "modality": key}]
    if key == "toolUse":
        called = {"name": value.get("name"), "arguments": value.get("input")}
        return [{"type": "tool_call", "id": value.get("toolUseId"), **called}]
    if key == "toolResult":
        listed = value.get("content")
        return [{"type": "tool_call_response", "id": value.get("toolUseId"), "response": listed}]
    if key == "tool_call":
        called = {"name": value.get("tool_name"), "arguments": value.get("arguments")}
        return [{"type": "tool_call", "id": value.get("id"), **called}]
    if key == "tool_call_result":
        origin = value.get("origin")
        call_id = origin.get("id") if isinstance(origin, Mapping) else None
        return [{"type": "tool_call_response", "id": call_id, "response": value.get("result")}]
    if key == "reasoning":
        return [{"type": "reasoning", "text": value.get("reasoning_text")}]
    reasoning = value.get("reasoningText")
    text = reasoning.get("text") if isinstance(reasoning, Mapping) else None
    return [{"type": "reasoning", "text": text}] if isinstance(text, str) else []


def _parts_of(message: JsonValue) -> list[JsonValue] | None:
    if not isinstance(message, dict):
        return None
    parts = message.get("parts")
    if isinstance(parts, list):
        return None if is_content(message) else parts
    content = message.get("content")
    keyed = keyed_parts(content)
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
