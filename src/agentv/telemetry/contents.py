"""The inputs and outputs of spans as messages: texts, lists of messages in any known shape, and messages with parts."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import cast

import msgspec

from agentv.messages.logs.fields import decoded
from agentv.messages.logs.reading import PROMPT, RESPONSE, read_text_or_messages
from agentv.messages.shapes.reading import join_reasoning, read_messages
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role, ToolCall
from agentv.types.messages_json import compact_json

_CALLS = ("tool_call", "function", "tool-call")
_RESULTS = ("tool_call_response", "tool_result", "tool-result")
_LONGEST_REMEMBERED = 8192
_MEDIA = ("image", "audio", "video")


def listed_messages(value: JsonValue, at: str) -> tuple[Message, ...] | None:
    """Return a list of messages, also from its JSON; None for a value that is no list of objects.

    Raises MessageError for a message that cannot be read.
    """
    given = decoded(value) if isinstance(value, str) else value
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | tuple) or not given or not all(isinstance(each, Mapping) for each in given):
        return None
    return _read_all(given, at)


def said(value: JsonValue, role: Role, at: str) -> tuple[Message, ...]:
    """Return an input (role `user`) or an output (`assistant`) as messages; () for a value that says nothing.

    A value of no known shape is one message with its JSON. Raises MessageError for a message that cannot be read.
    """
    value = unwrapped(value)
    if value in (None, "", [], {}):
        return ()
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # LangChain has a list of prompts
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(each, Mapping) and "role" in each for each in value)
    ):
        return _read_all(value, at)
    found = read_text_or_messages(value, at, PROMPT if role == "user" else RESPONSE)
    if isinstance(found, tuple):
        return found
    return (Message(role, found if isinstance(found, str) else compact_json(value)),)


def _read_all(messages: Sequence[JsonValue], at: str) -> tuple[Message, ...]:
    """Return a list as messages. Each call of a model repeats those before it, which are read once."""
    try:
        return join_reasoning(each for message in messages for each in _read_one(message))
    except MessageError:  # read again for the place of the message
        return read_messages(conversation(messages), at)


def _read_one(message: JsonValue) -> tuple[Message, ...]:
    try:
        packed = msgspec.msgpack.encode(message)
    except (ValueError, OverflowError, RecursionError):  # a lone surrogate, or a large number
        packed = b""
    if 0 < len(packed) <= _LONGEST_REMEMBERED:
        return _read_packed(packed)
    return read_messages(conversation([message]), "$")


@lru_cache(maxsize=1024)
def _read_packed(packed: bytes) -> tuple[Message, ...]:
    return read_messages(conversation([msgspec.msgpack.decode(packed)]), "$")


def unwrapped(value: JsonValue) -> JsonValue:
    """Return a value parsed from its JSON, without the objects `inputs`, `outputs`, `args` that decorators add."""
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            return cast(JsonValue, json.loads(value))
    inner = decoded(value) if isinstance(value, str) else value
    while isinstance(inner, Mapping):
        key = next((key for key in ("inputs", "outputs", "kwargs", "args") if inner.get(key)), None)
        if key is None:
            break
        inner = inner[key]
    if isinstance(inner, list) and len(inner) == 1 and isinstance(inner[0], str):
        return inner[0]
    return value if inner is None else inner


def conversation(messages: Sequence[JsonValue]) -> list[JsonValue]:
    """Return messages with parts (texts, calls and results) as messages of OpenAI's API.

    Parts are under `parts`, or, in the model messages of the AI SDK, under `content`.
    """
    made: list[JsonValue] = []
    for message in messages:
        parts = _parts_of(message)
        if parts is None or not isinstance(message, Mapping):
            made.append(message)
            continue
        role = str(message.get("role") or "assistant")
        calls = [call_of(part) for part in parts if _type(part) in _CALLS and isinstance(part, Mapping)]
        results = [part for part in parts if _type(part) in _RESULTS and isinstance(part, Mapping)]
        content = content_of(parts)
        if content or calls or not results:
            made.append({"role": role, "content": content, **({"tool_calls": calls} if calls else {})})
        made += ({"role": "tool", "tool_call_id": _id_of(part), "content": _result_of(part)} for part in results)
    return made


def _parts_of(message: JsonValue) -> list[JsonValue] | None:
    if not isinstance(message, Mapping):
        return None
    parts = message.get("parts")
    if isinstance(parts, list):
        return parts
    content = message.get("content")
    is_ai_sdk = isinstance(content, list) and any(_type(part) in ("tool-call", "tool-result") for part in content)
    return content if is_ai_sdk and isinstance(content, list) else None


def _id_of(part: JsonObject) -> JsonValue:
    return part.get("id") or part.get("toolCallId")


_RESULT_KEYS = ("response", "result", "output", "content")


def _result_of(part: JsonObject) -> str:
    result = next((part[key] for key in _RESULT_KEYS if part.get(key) is not None), None)
    if isinstance(result, Mapping) and result.keys() == {"type", "value"}:  # an output of the AI SDK
        result = result["value"]
    return result if isinstance(result, str) else compact_json(result)


def call_of(part: JsonObject) -> JsonObject:
    """Return a tool call, of the API or a part, in our own form."""
    inner = part.get("function")
    source = inner if isinstance(inner, Mapping) else part
    arguments = next((source[key] for key in ("arguments", "input", "args") if source.get(key) is not None), None)
    return {"id": _id_of(part), "tool": source.get("name") or part.get("toolName"), "input": parsed(arguments)}


def parsed(value: JsonValue) -> JsonValue:
    """Return the JSON object or list that a text holds; any other value as it is."""
    inner = decoded(value) if isinstance(value, str) else None
    return value if inner is None else inner


def _type(part: JsonValue) -> str:
    return str(part.get("type", "text")) if isinstance(part, Mapping) else "text"


def content_of(parts: Sequence[JsonValue]) -> JsonValue:
    """Return parts without calls and their results, as one text if all are texts."""
    content = [_part(part) for part in parts if _type(part) not in (*_CALLS, *_RESULTS)]
    texts = [text for part in content if (text := _text_of(part)) is not None]
    return "\n".join(texts) if len(texts) == len(content) else content


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
    return part if type_ in ("text", "reasoning") else {**part, "type": f"data-{type_}"}


def with_results(messages: Sequence[Message], tools: Sequence[ToolCall]) -> tuple[Message, ...]:
    """Return messages in which each call without a message of its result has one, from the tool that was called.

    A call is matched by its id, else by its name, in order.
    """
    answered = {message.tool_call_id for message in messages if message.role == "tool"}
    left = [tool for tool in tools if tool.output is not None and (tool.id is None or tool.id not in answered)]
    made: list[Message] = []
    for message in messages:
        made.append(message)
        for call in message.tool_calls:
            if call.id in answered or call.output is not None:
                continue
            found = next((tool for tool in left if tool.id == call.id and call.id is not None), None)
            found = found or next((tool for tool in left if tool.id is None and tool.tool == call.tool), None)
            if found is not None:
                left.remove(found)
                text = found.output if isinstance(found.output, str) else compact_json(found.output)
                made.append(Message("tool", text, tool_call_id=call.id))
    return tuple(made)


def tool_call(name: JsonValue, call_id: JsonValue, arguments: JsonValue, result: JsonValue) -> ToolCall | None:
    """Return a tool's call with its result; None without a name."""
    if not isinstance(name, str) or not name:
        return None
    with suppress(MessageError):
        messages = said(result, "assistant", "$") if _is_message_object(result) else ()
        if messages:
            result = messages[0].content if isinstance(messages[0].content, str) else result
    output = _plain_text(result)
    return ToolCall(name, parsed(arguments), output, id=call_id if isinstance(call_id, str) and call_id else None)


def _is_message_object(value: JsonValue) -> bool:
    inner = parsed(value)
    while isinstance(inner, Mapping) and isinstance(inner.get("output"), Mapping):
        inner = inner["output"]
    return isinstance(inner, Mapping) and ("lc" in inner or inner.get("type") == "tool" or "role" in inner)


def _plain_text(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            return cast(JsonValue, json.loads(value))
    return value


def with_system(system: tuple[Message, ...], messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages after the system instructions, unless they begin with a system message already."""
    if not system or not messages or messages[0].role == "system":
        return messages
    return (*system, *messages)


def system_of(value: JsonValue) -> tuple[Message, ...]:
    """Return system instructions, a text or a list of parts, as a message."""
    inner = parsed(value)
    content = content_of(inner) if isinstance(inner, list) else value
    if content in (None, "", []):
        return ()
    return (Message("system", content if isinstance(content, str) else compact_json(content)),)
