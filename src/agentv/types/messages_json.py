"""Messages, tool calls and traces ↔ JSON: snake_case out; snake_case, camelCase and the OpenAI shape in."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import (
    ROLES,
    TRACE_EVENT_TYPES,
    Content,
    DataPart,
    FilePart,
    Message,
    Part,
    Role,
    TextPart,
    ToolCall,
    TraceEvent,
    TraceEventType,
    TraceSummary,
)


def compact_json(value: JsonValue) -> str:
    """Return `value` as JSON on one line, with the fewest escapes."""
    return _COMPACT.encode(value)


def pretty_json(value: JsonValue) -> str:
    """Return `value` as JSON indented by two blanks, the form shown to people and models."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")


# Made once: `json.dumps` would make an encoder for every value with these settings.
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def content_text(content: Content | None) -> str:
    """Return the text of a message's content: all text parts joined by newline, an object as two-space JSON."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return pretty_json(content)
    texts = [part.text for part in content if isinstance(part, TextPart | FilePart) and part.text is not None]
    return "\n".join(texts)


def part_to_json(part: Part) -> dict[str, JsonValue]:
    """Return a content part as JSON; a file part has its path and text."""
    match part:
        case TextPart(text):
            return {"type": "text", "value": text}
        case FilePart(path=path, text=text):
            return _without_none({"type": "file", "path": path, "text": text})
        case DataPart(type_, value):
            return {"type": type_, **value}


def content_to_json(content: Content | None) -> JsonValue:
    """Return a message's content as JSON."""
    return [part_to_json(part) for part in content] if isinstance(content, tuple) else content


def _without_none(fields: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    return {key: value for key, value in fields.items() if value is not None}


def tool_call_to_json(call: ToolCall) -> dict[str, JsonValue]:
    """Return a tool call as JSON: `tool`, and `input`, `output`, `id`, `timestamp` when known."""
    known = {"input": call.input, "output": call.output, "id": call.id, "timestamp": call.timestamp}
    return {"tool": call.tool, **_without_none(known)}


def message_to_json(message: Message) -> dict[str, JsonValue]:
    """Return a message as JSON with the keys of eval files (docs/reference/eval-files.md)."""
    fields: dict[str, JsonValue] = {"role": message.role}
    if message.name is not None:
        fields["name"] = message.name
    content = message.content
    if content is not None:
        fields["content"] = content if isinstance(content, str) else content_to_json(content)
    if message.tool_calls:
        fields["tool_calls"] = [tool_call_to_json(call) for call in message.tool_calls]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    if message.timestamp is not None:
        fields["timestamp"] = message.timestamp
    if message.metadata is not None:
        fields["metadata"] = message.metadata
    return fields


def messages_to_json(messages: Iterable[Message] | None) -> list[JsonValue] | None:
    """Return messages as JSON; None stays None."""
    return None if messages is None else [message_to_json(message) for message in messages]


def trace_event_to_json(event: TraceEvent) -> dict[str, JsonValue]:
    """Return a trace event as JSON."""
    names = ("type", "timestamp", "id", "name", "input", "output", "text", "metadata")
    return _without_none({name: getattr(event, name) for name in names})


def trace_to_json(trace: Iterable[TraceEvent] | None) -> list[JsonValue] | None:
    """Return a trace as JSON; None stays None."""
    return None if trace is None else [trace_event_to_json(event) for event in trace]


def trace_summary_to_json(summary: TraceSummary | None) -> dict[str, JsonValue] | None:
    """Return a trace summary with the seed's exact keys (camelCase)."""
    if summary is None:
        return None
    return {
        "eventCount": summary.event_count,
        "toolNames": list(summary.tool_names),
        "toolCallsByName": dict(summary.tool_calls_by_name),
        "errorCount": summary.error_count,
    }


def _first(fields: JsonObject, *names: str) -> JsonValue:
    """Return the value of the first spelling that is present; snake_case comes first."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def _optional_text(value: JsonValue) -> str | None:
    return None if value is None else value if isinstance(value, str) else compact_json(value)


_TOOL_NAMES = ("tool", "tool_name", "toolName", "name")
_TOOL_INPUTS = ("input", "args", "arguments", "tool_arguments", "toolArguments")


def tool_call_from_json(value: JsonValue) -> ToolCall | None:
    """Read a tool call in our shape, the PRD's (`toolName`, `args`) or OpenAI's (`function.name`); None for others."""
    if not isinstance(value, Mapping):
        return None
    function = value.get("function")
    if isinstance(function, Mapping):
        name, given = function.get("name"), function.get("arguments")
    else:
        name = _first(value, *_TOOL_NAMES)
        given = _first(value, *_TOOL_INPUTS)
    if not isinstance(name, str) or not name:
        return None
    return ToolCall(
        tool=name,
        input=_parsed_arguments(given) if isinstance(function, Mapping) else given,
        output=_first(value, "output", "result"),
        id=_optional_text(_first(value, "id", "tool_call_id", "toolCallId")),
        timestamp=_optional_text(value.get("timestamp")),
    )


def _parsed_arguments(given: JsonValue) -> JsonValue:
    """Parse arguments that OpenAI sends as a JSON string; invalid JSON stays a string."""
    if not isinstance(given, str):
        return given
    try:
        return cast(JsonValue, json.loads(given))
    except ValueError:
        return given


def _part_from_json(value: JsonValue) -> Part | None:
    if isinstance(value, str):
        return TextPart(value)
    if not isinstance(value, Mapping):
        return None
    kind = value.get("type")
    text = _first(value, "value", "text")
    if kind in (None, "text", "output_text", "input_text") and isinstance(text, str):
        return TextPart(text)
    return DataPart(str(kind), {key: item for key, item in value.items() if key != "type"})


def content_from_json(value: JsonValue) -> Content | None:
    """Read a message's content: text, a list of parts, or an object; other scalars become text."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return value
    if isinstance(value, list | tuple):
        parts = (_part_from_json(item) for item in value)
        return tuple(part for part in parts if part is not None)
    return compact_json(value)


def message_from_json(value: JsonValue) -> Message | None:
    """Read a message that a target returned; unknown keys are ignored, None when it is not a message."""
    if not isinstance(value, Mapping) or value.get("role") not in ROLES:
        return None
    calls = _first(value, "tool_calls", "toolCalls")
    read = [tool_call_from_json(call) for call in calls] if isinstance(calls, list | tuple) else []
    metadata = value.get("metadata")
    return Message(
        role=cast(Role, value["role"]),
        content=content_from_json(_first(value, "content_parts", "contentParts") or value.get("content")),
        name=_optional_text(value.get("name")),
        tool_calls=tuple(call for call in read if call is not None),
        tool_call_id=_optional_text(_first(value, "tool_call_id", "toolCallId")),
        timestamp=_optional_text(value.get("timestamp")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


def messages_from_json(value: JsonValue) -> tuple[Message, ...] | None:
    """Read a list of messages; other elements are left out, None when it is not a list."""
    if not isinstance(value, list | tuple):
        return None
    read = (message_from_json(item) for item in value)
    return tuple(message for message in read if message is not None)


def trace_event_from_json(value: JsonValue) -> TraceEvent | None:
    """Read a trace event; None when its `type` is unknown."""
    if not isinstance(value, Mapping) or value.get("type") not in TRACE_EVENT_TYPES:
        return None
    metadata = value.get("metadata")
    return TraceEvent(
        type=cast(TraceEventType, value["type"]),
        timestamp=_optional_text(value.get("timestamp")),
        id=_optional_text(value.get("id")),
        name=_optional_text(value.get("name")),
        input=value.get("input"),
        output=value.get("output"),
        text=_optional_text(value.get("text")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


def trace_from_json(value: JsonValue) -> tuple[TraceEvent, ...] | None:
    """Read a trace; elements that are not trace events are ignored, None when it is not a list."""
    if not isinstance(value, list | tuple):
        return None
    read = (trace_event_from_json(item) for item in value)
    return tuple(event for event in read if event is not None)


def reference_answer(messages: Sequence[Message]) -> str | None:
    """Return the content of the last expected message as text; its tool calls as JSON when there is nothing else.

    None without expected messages.
    """
    if not messages:
        return None
    last = messages[-1]
    if last.content:
        return content_text(last.content)
    return pretty_json([tool_call_to_json(call) for call in last.tool_calls]) if last.tool_calls else ""
