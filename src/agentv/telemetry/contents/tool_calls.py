"""Calls of tools from their own spans: read, and added to the messages that lack them or their results."""

import ast
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import cast

from msgspec.structs import replace

from agentv.messages.shapes.objects import plain_json
from agentv.telemetry.contents.contents import said, unwrapped
from agentv.telemetry.contents.parts import parsed, texts_in
from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json


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
            before = open_calls if made and made[-1].tool_calls else []  # calls at once in a message each
            opened = [(len(made), place) for place, call in calls if call.id is None or call.id not in results]
            open_calls = [*before, *opened]
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
    """Return messages with calls of tools, which no message has, before the answer.

    Results that messages have without the calls are those of the same tools, and messages that say nothing the calls.
    """
    last = messages[-1] if messages else None
    if not tools or last is None or last.role != "assistant":
        return tuple(messages)
    results = [_result_message(tool, None).content for tool in tools if tool.output is not None]
    recorded = [each for each in messages if each.role == "tool" and each.content in results]
    if recorded:
        silent = [each for each in messages[:-1] if each.role == "assistant" and not each.content]
        messages = [each for each in messages[:-1] if each not in recorded and each not in silent] + [last]
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
    inner = parsed(result)
    if isinstance(inner, Mapping) and "raw_output" in inner and isinstance(inner.get("tool_name"), str):
        name, inner = str(inner["tool_name"]), inner["raw_output"]  # the output of a tool of LlamaIndex
        result = inner
    if isinstance(inner, list) and len(inner) > 1 and isinstance(inner[0], bool) and _message_object(inner[-1]):
        result = inner[-1]  # AG2 has a pair of the success and the message
    with suppress(MessageError):
        inner = _message_object(result)
        messages = () if inner is None else said(inner, "assistant", "$")
        if messages:
            result = messages[0].content if isinstance(messages[0].content, str) else result
    texts = texts_in(parsed(result))
    output = _plain_text(result) if texts is None else "\n".join(texts)
    return ToolCall(name, _arguments(arguments), output, id=call_id if isinstance(call_id, str) and call_id else None)


def _arguments(value: JsonValue) -> JsonValue:
    """Return the arguments of a tool, which LangChain's callbacks have in Python's form."""
    if isinstance(value, str) and value.startswith("{'"):
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return cast(JsonValue, plain_json(ast.literal_eval(value)))
    return parsed(value)


_MESSAGE_REPR = re.compile(
    r"""content=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*") (?:additional_kwargs|name|id|tool_call_id)="""
)


def _message_object(value: JsonValue) -> JsonObject | None:
    """Return the message in a result, by itself or in objects with the key `output`; None without one."""
    inner = parsed(value)
    while isinstance(inner, Mapping) and isinstance(inner.get("output"), Mapping):
        inner = inner["output"]
    is_message = isinstance(inner, Mapping) and ("lc" in inner or inner.get("type") == "tool" or "role" in inner)
    return inner if is_message and isinstance(inner, Mapping) else None


def _plain_text(value: JsonValue) -> JsonValue:
    text = unwrapped(value) if isinstance(value, str) and value.startswith('"') else value
    found = _MESSAGE_REPR.match(text) if isinstance(text, str) and text.startswith("content=") else None
    if found is not None:  # Python's form of a message of LangChain
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return cast(JsonValue, ast.literal_eval(found.group(1)))
    return text
