"""Messages, tool calls and traces ↔ JSON as agentv writes it; the room `messages` reads those of other programs."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import cast

from agentv.types.errors import MessageError
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
from agentv.types.stored import known_duration


def compact_json(value: JsonValue) -> str:
    """Return `value` as JSON on one line, with the fewest escapes."""
    return _COMPACT.encode(value)


def pretty_json(value: JsonValue) -> str:
    """Return `value` as JSON indented by two blanks, the form shown to people and models."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def pretty_pieces(value: object, margin: str = "") -> Iterator[str]:
    """Yield the text of `pretty_json` in pieces. An iterator is a list of which one item at a time is in memory.

    An iterator may be a value of an object, which may be an item of an iterator, and so on. `margin` is the indentation
    of the line on which the value begins.
    """
    if isinstance(value, Iterator):
        opening, items, closing = "[", (("", each) for each in value), "]"
    elif isinstance(value, Mapping) and any(isinstance(each, Iterator) for each in value.values()):
        opening, items, closing = "{", ((f"{pretty_json(key)}: ", each) for key, each in value.items()), "}"
    else:
        yield pretty_json(cast(JsonValue, value)).replace("\n", f"\n{margin}")
        return
    before, after = opening, f"{opening}{closing}"
    for name, each in items:
        yield f"{before}\n{margin}  {name}"
        yield from pretty_pieces(each, f"{margin}  ")
        before, after = ",", f"\n{margin}{closing}"
    yield after


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"not JSON: {type(value).__name__}")


# Made once: `json.dumps` would make an encoder for every value with these settings.
_COMPACT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


def content_text(content: Content | None) -> str:
    """Return the text of a message's content: its text parts joined without separators, an object as indented JSON.

    The text of an attached file is on lines of its own.
    """
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping):
        return pretty_json(content)
    with_text = [part for part in content if isinstance(part, TextPart | FilePart) and part.text is not None]
    by_file = groupby(with_text, key=lambda part: part.path if isinstance(part, FilePart) else None)
    return "\n".join("".join(part.text or "" for part in parts) for _, parts in by_file)


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
    """Return a tool call as JSON: `tool`, and `input`, `output`, `id`, `timestamp`, `duration_ms` when known."""
    known = {"input": call.input, "output": call.output, "id": call.id, "timestamp": call.timestamp}
    return {"tool": call.tool, **_without_none({**known, "duration_ms": call.duration_ms})}


def short_messages(messages: Sequence[JsonObject], role: Role) -> JsonValue:
    """Return messages as `input` (role `user`) or `expected` (`assistant`) has them: the text of a single plain one."""
    only = messages[0] if len(messages) == 1 else {}
    content = only.get("content")
    is_plain = only.keys() == {"role", "content"} and only["role"] == role and isinstance(content, str) and content
    return content if is_plain else list(messages)


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


def _optional_text(value: JsonValue) -> str | None:
    return value if value is None or isinstance(value, str) else compact_json(value)


def message_from_json(value: JsonValue) -> Message:
    """Read a message as `message_to_json` wrote it; other programs' messages are read by the room `messages`.

    Raises ValueError.
    """
    if not isinstance(value, Mapping) or value.get("role") not in ROLES:
        raise ValueError(f"not a message as agentv stores it: {compact_json(value)[:_SHOWN]}")
    calls, metadata = value.get("tool_calls"), value.get("metadata")
    return Message(
        role=cast(Role, value["role"]),
        content=_content_from_json(value.get("content")),
        name=_optional_text(value.get("name")),
        tool_calls=tuple(map(_tool_call_from_json, calls)) if isinstance(calls, list | tuple) else (),
        tool_call_id=_optional_text(value.get("tool_call_id")),
        timestamp=_optional_text(value.get("timestamp")),
        metadata=metadata if isinstance(metadata, Mapping) else None,
    )


_SHOWN = 200


def messages_from_json(value: JsonValue) -> tuple[Message, ...] | None:
    """Read messages as `messages_to_json` wrote them; None stays None. Raises ValueError."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise ValueError(f"not a list of messages: {compact_json(value)[:_SHOWN]}")  # noqa: TRY004 - the stored text is wrong, not the caller
    return tuple(map(message_from_json, value))


def _tool_call_from_json(value: JsonValue) -> ToolCall:
    tool = value.get("tool") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(tool, str):
        raise ValueError(f"not a tool call as agentv stores it: {compact_json(value)[:_SHOWN]}")  # noqa: TRY004 - the stored text is wrong, not the caller
    return ToolCall(
        tool=tool,
        input=value.get("input"),
        output=value.get("output"),
        id=_optional_text(value.get("id")),
        timestamp=_optional_text(value.get("timestamp")),
        duration_ms=known_duration(value.get("duration_ms")),
    )


def _content_from_json(value: JsonValue) -> Content | None:
    if isinstance(value, list | tuple):
        return tuple(map(_part_from_json, value))
    return value if value is None or isinstance(value, str | Mapping) else compact_json(value)


def _part_from_json(value: JsonValue) -> Part:
    if not isinstance(value, Mapping):
        raise ValueError(f"not a content part as agentv stores it: {compact_json(value)[:_SHOWN]}")  # noqa: TRY004 - the stored text is wrong, not the caller
    text = value.get("value")
    if value.get("type") == "text" and isinstance(text, str):
        return TextPart(text)
    return DataPart(str(value.get("type")), {key: item for key, item in value.items() if key != "type"})


def trace_from_json(value: JsonValue, at: str = "trace") -> tuple[TraceEvent, ...] | None:
    """Read a trace; None stays None. Raises MessageError with the place of the first item that is not a trace event."""
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        raise MessageError(at, "must be a list of trace events")
    return tuple(_trace_event(item, f"{at}[{index}]") for index, item in enumerate(value))


def _trace_event(value: object, at: str) -> TraceEvent:
    if isinstance(value, TraceEvent):
        return value
    if not isinstance(value, Mapping) or value.get("type") not in TRACE_EVENT_TYPES:
        raise MessageError(at, "is not a trace event", f"write {{type, …}} with one of {', '.join(TRACE_EVENT_TYPES)}")
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


def reference_answer(messages: Sequence[Message]) -> str | None:
    """Return the content of the last expected message as text, its tool calls as JSON if it has no content.

    None if there are no expected messages.
    """
    if not messages:
        return None
    last = messages[-1]
    if last.content:
        return content_text(last.content)
    return pretty_json([tool_call_to_json(call) for call in last.tool_calls]) if last.tool_calls else ""
