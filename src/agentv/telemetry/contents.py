"""The inputs and outputs of spans as messages: texts, lists of messages in any known shape, and messages with parts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import cast

import msgspec
from msgspec.structs import replace

from agentv.messages.logs.fields import decoded
from agentv.messages.logs.reading import PROMPT, RESPONSE, read_text_or_messages
from agentv.messages.shapes.google import content_of as google_content_of
from agentv.messages.shapes.reading import join_reasoning, read_messages
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role, ToolCall
from agentv.types.messages_json import compact_json, content_text

_CALLS = ("tool_call", "function", "tool-call", "server_tool_call")
_RESULTS = ("tool_call_response", "tool_result", "tool-result", "server_tool_call_response")
_MEDIA = ("image", "audio", "video")


def listed_messages(value: JsonValue, at: str) -> tuple[Message, ...] | None:
    """Return a list of messages, also from its JSON; None for a value that is no list of objects.

    Raises MessageError for a message that cannot be read.
    """
    given = decoded(value) if isinstance(value, str) else value
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | tuple) or not given or not all(isinstance(each, dict) for each in given):
        return None
    return read_rows(given, at)


def said(value: JsonValue, role: Role, at: str) -> tuple[Message, ...]:
    """Return an input (role `user`) or an output (`assistant`) as messages; () for a value that says nothing.

    A value of no known shape is one message with its JSON. Raises MessageError for a message that cannot be read.
    """
    value = unwrapped(value)
    if role == "assistant" and isinstance(value, Mapping):
        if len(value) == 1 and isinstance(value.get("output"), dict | list):  # LangSmith
            value = value["output"]
        elif value.get("generations") in ([], [[]]) or _is_blocked(value):  # a failed call of LangChain, or of Gemini
            return ()
    if value in (None, "", "null", [], {}):
        return ()
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # LangChain has a list of prompts
    if (
        isinstance(value, list | tuple)
        and value
        and all(isinstance(each, Mapping) and "role" in each for each in value)
    ):
        return read_rows(value, at)
    if converse_parts(value) is not None:
        return read_rows([{"role": role, "content": value}], at)
    found = read_text_or_messages(value, at, PROMPT if role == "user" else RESPONSE)
    if isinstance(found, tuple):
        return found
    return (Message(role, found if isinstance(found, str) else compact_json(value)),)


def _is_blocked(reply: JsonObject) -> bool:
    """Return True for a reply of Gemini to a prompt that it refuses."""
    return bool(reply.get("prompt_feedback") or reply.get("promptFeedback")) and not reply.get("candidates")


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

    Parts are under `parts`, or, in the messages of the AI SDK and of Amazon's Converse API, under `content`. What
    follows the result of a tool in one message, which the provider has called, is a message of its own.
    """
    made: list[JsonValue] = []
    for message in messages:
        parts = _parts_of(message)
        if parts is None or not isinstance(message, Mapping):
            is_of_google = isinstance(message, Mapping) and isinstance(message.get("parts"), list)
            made.append(message if is_of_google else _with_known_role(message))
            continue
        pieces = _pieces_of(parts)
        made += _with_parts(message, pieces[0])
        for piece in pieces[1:]:
            made += _with_parts({"role": message.get("role")}, piece)
    return made


def _pieces_of(parts: list[JsonValue]) -> list[list[JsonValue]]:
    """Return the parts up to the last result of a tool, and those after it, if there are both."""
    end = max((place for place, part in enumerate(parts, 1) if _type(part) in _RESULTS), default=0)
    return [piece for piece in (parts[:end], parts[end:]) if piece] or [parts]


def _with_parts(message: JsonObject, parts: Sequence[JsonValue]) -> Iterator[JsonObject]:
    calls = [call_of(part) for part in parts if _type(part) in _CALLS and isinstance(part, Mapping)]
    listed = message.get("tool_calls")
    calls += [call_of(call) for call in (listed if isinstance(listed, list) else ()) if isinstance(call, Mapping)]
    results = [part for part in parts if _type(part) in _RESULTS and isinstance(part, Mapping)]
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


def converse_parts(content: JsonValue) -> list[JsonValue] | None:
    """Return the parts of a message of Amazon's Converse API, also from their JSON; None for any other content."""
    parts = parsed(content) if isinstance(content, str) and content.startswith("[") else content
    if not isinstance(parts, list) or not parts:
        return None
    if not all(isinstance(part, Mapping) and len(part) == 1 and part.keys() <= _CONVERSE_KEYS for part in parts):
        return None
    return [made for part in parts if isinstance(part, Mapping) for made in _of_converse(part)]


def _of_converse(part: JsonObject) -> list[JsonValue]:
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
    reasoning = value.get("reasoningText")
    text = reasoning.get("text") if isinstance(reasoning, Mapping) else None
    return [{"type": "reasoning", "text": text}] if isinstance(text, str) else []


def _parts_of(message: JsonValue) -> list[JsonValue] | None:
    if not isinstance(message, dict):
        return None
    parts = message.get("parts")
    if isinstance(parts, list):
        return None if google_content_of(message) is not None else parts
    content = message.get("content")
    of_converse = converse_parts(content)
    if of_converse is not None:
        return of_converse
    is_ai_sdk = isinstance(content, list) and any(_type(part) in ("tool-call", "tool-result") for part in content)
    return content if is_ai_sdk and isinstance(content, list) else None


def _id_of(part: JsonObject) -> JsonValue:
    return part.get("id") or part.get("toolCallId")


_RESULT_KEYS = ("response", "result", "output", "content", "server_tool_call_response")
_ARGUMENT_KEYS = ("arguments", "input", "args", "server_tool_call")


def _result_of(part: JsonObject) -> str:
    result = next((part[key] for key in _RESULT_KEYS if part.get(key) is not None), None)
    if isinstance(result, Mapping) and result.keys() == {"type", "value"}:  # an output of the AI SDK
        result = result["value"]
    texts = _texts_in(result)
    if texts is not None:
        return "\n".join(texts)
    return result if isinstance(result, str) else compact_json(result)


def _texts_in(parts: JsonValue) -> list[str] | None:
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

    A call is matched by its id, else by its name, in order. A message of a result without a content counts as none.
    """
    if not any(message.tool_calls for message in messages):
        return tuple(messages)
    messages = _with_ids(messages)
    supplied = {tool.tool for tool in tools if tool.output is not None}
    known = {call.id for message in messages for call in message.tool_calls if call.tool in supplied}
    messages = [each for each in messages if each.role != "tool" or each.content or each.tool_call_id not in known]
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
                made.append(_result_message(found, call.id))
    return tuple(made)


def _result_message(tool: ToolCall, call_id: str | None) -> Message:
    text = tool.output if isinstance(tool.output, str) else compact_json(tool.output)
    return Message("tool", text, tool_call_id=call_id)


def _with_ids(messages: Sequence[Message]) -> list[Message]:
    """Return messages in which a result whose id names no call has the id of the call before it, in order."""
    called = {call.id for message in messages for call in message.tool_calls}
    results = {message.tool_call_id for message in messages if message.role == "tool"}
    made: list[Message] = []
    open_calls: list[tuple[int, int]] = []
    for message in messages:
        if message.tool_calls:
            calls = enumerate(message.tool_calls)
            open_calls = [(len(made), place) for place, call in calls if call.id is None or call.id not in results]
        elif message.role != "tool":
            open_calls = []
        elif open_calls and (message.tool_call_id is None or message.tool_call_id not in called):
            index, place = open_calls.pop(0)
            calls_of = list(made[index].tool_calls)
            call_id = calls_of[place].id or message.tool_call_id
            calls_of[place] = replace(calls_of[place], id=call_id)
            made[index] = replace(made[index], tool_calls=tuple(calls_of))
            message = replace(message, tool_call_id=call_id)  # noqa: PLW2901 - the message with its id
        made.append(message)
    return made


def with_calls(messages: Sequence[Message], tools: Sequence[ToolCall]) -> tuple[Message, ...]:
    """Return messages with calls of tools, which no message has, before the answer."""
    last = messages[-1] if messages else None
    if not tools or last is None or last.role != "assistant":
        return tuple(messages)
    made: list[Message] = []
    for tool in tools:
        made.append(Message("assistant", None, tool_calls=(replace(tool, output=None),)))
        if tool.output is not None:
            made.append(_result_message(tool, tool.id))
    return (*messages[:-1], *made, last)


def tool_call(name: JsonValue, call_id: JsonValue, arguments: JsonValue, result: JsonValue) -> ToolCall | None:
    """Return a tool's call with its result; None without a name."""
    if not isinstance(name, str) or not name:
        return None
    with suppress(MessageError):
        inner = _message_object(result)
        messages = () if inner is None else said(inner, "assistant", "$")
        if messages:
            result = messages[0].content if isinstance(messages[0].content, str) else result
    texts = _texts_in(parsed(result))
    output = _plain_text(result) if texts is None else "\n".join(texts)
    return ToolCall(name, parsed(arguments), output, id=call_id if isinstance(call_id, str) and call_id else None)


def _message_object(value: JsonValue) -> JsonObject | None:
    """Return the message in a result, by itself or in objects with the key `output`; None without one."""
    inner = parsed(value)
    while isinstance(inner, Mapping) and isinstance(inner.get("output"), Mapping):
        inner = inner["output"]
    is_message = isinstance(inner, Mapping) and ("lc" in inner or inner.get("type") == "tool" or "role" in inner)
    return inner if is_message and isinstance(inner, Mapping) else None


def _plain_text(value: JsonValue) -> JsonValue:
    if isinstance(value, str) and value.startswith('"'):
        with suppress(ValueError):
            return cast(JsonValue, json.loads(value))
    return value


def with_system(system: tuple[Message, ...], messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Return messages after the system instructions.

    If they begin with a system message already, it stays, or the instructions replace it if they have its text, too.
    """
    if not system or not messages:
        return messages
    if messages[0].role == "system":
        is_repeated = content_text(messages[0].content) in content_text(system[0].content)
        return (*system, *messages[1:]) if is_repeated else messages
    return (*system, *messages)


def system_of(value: JsonValue) -> tuple[Message, ...]:
    """Return system instructions, a text or a list of parts, as a message."""
    inner = parsed(value)
    content = content_of(inner) if isinstance(inner, list) else value
    if content in (None, "", []):
        return ()
    return (Message("system", content if isinstance(content, str) else compact_json(content)),)
