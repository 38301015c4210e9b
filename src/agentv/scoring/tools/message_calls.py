"""The tool calls that messages record, in `tool_calls` and in content parts, and the results of tools."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from agentv.scoring.tools.tool_calls import json_equal
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.fields import first, is_call_part, is_result_part, tool_call_from_json
from agentv.types.messages import DataPart, Message, ToolCall, tool_calls_of
from agentv.types.messages_json import content_text

_IDS = ("toolCallId", "tool_call_id", "tool_use_id", "call_id", "id")
_NAMES = ("toolName", "tool_name", "tool", "name")
_FAILED_OUTPUTS = frozenset({"error-text", "error-json", "execution-denied"})
_WRAPPED_OUTPUTS = _FAILED_OUTPUTS | {"text", "json", "content"}
_OUTPUTS = ("result", "output", "content", "error")


class ToolResult(Struct, frozen=True):
    """The result of a tool, separate from its call. `failed` when the record marks it as an error."""

    output: JsonValue
    id: str | None = None
    tool: str | None = None
    failed: bool = False


def calls_in(messages: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return every tool call of the messages, in order; one that is also in content parts counts once."""
    if not any(isinstance(message.content, tuple) for message in messages):
        return tool_calls_of(messages)
    return tuple(call for message in messages for call in calls_of(message))


def calls_of(message: Message) -> tuple[ToolCall, ...]:
    """Return the tool calls of one message: its `tool_calls`, then those that are only in an assistant's parts."""
    if not isinstance(message.content, tuple) or message.role != "assistant":
        return message.tool_calls
    added = [call for call in _part_calls(message.content) if not _is_known(call, message.tool_calls)]
    return (*message.tool_calls, *added)


def results_of(message: Message) -> Iterator[ToolResult]:
    """Yield the results in a message: the content of a tool's message, and `tool_result` content parts."""
    parts = message.content if isinstance(message.content, tuple) else ()
    results = [part for part in parts if isinstance(part, DataPart) and is_result_part(part.type)]
    if message.role == "tool" and message.content is not None and not results:
        content = message.content
        said = content_text(content) if isinstance(content, tuple) else content
        yield ToolResult(said, message.tool_call_id, message.name)
    for part in results:
        fields = part.value
        output, output_type = _unwrapped(first(fields, *_OUTPUTS))
        is_error = fields.get("is_error") is True or fields.get("isError") is True
        failed = is_error or part.type == "tool-error" or output_type in _FAILED_OUTPUTS
        yield ToolResult(output, _text(fields, _IDS), _text(fields, _NAMES), failed)


def _unwrapped(output: JsonValue) -> tuple[JsonValue, str | None]:
    """Return the output inside the AI SDK's `{type, value}`, with that type; any other output as it is."""
    given = output.get("type") if isinstance(output, Mapping) else None
    type_ = given if isinstance(given, str) else None
    if isinstance(output, Mapping) and type_ in _WRAPPED_OUTPUTS and not output.keys().isdisjoint(("value", "reason")):
        return first(output, "value", "reason"), type_
    return output, None


def _part_calls(parts: tuple[object, ...]) -> Iterator[ToolCall]:
    for part in parts:
        if isinstance(part, DataPart) and is_call_part(part.type):
            call = tool_call_from_json(part.value)
            if call is not None:
                yield call


def _is_known(call: ToolCall, known: tuple[ToolCall, ...]) -> bool:
    """Return True if a content part repeats a call that its message lists already."""
    return any(
        call.tool == other.tool
        and (call.id == other.id if call.id and other.id else json_equal(call.input, other.input))
        for other in known
    )


def _text(fields: JsonObject, names: tuple[str, ...]) -> str | None:
    found = first(fields, *names)
    return found if isinstance(found, str) else None
