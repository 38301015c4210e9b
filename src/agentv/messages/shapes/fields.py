"""Read what several shapes have in common: roles, tool calls, content parts and results of tools."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import cast

from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ROLE_SPELLINGS, ROLES, Content, DataPart, Message, Part, Role, TextPart, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.stored import known_duration

_ROLES: Mapping[str, Role] = {**{role: role for role in ROLES}, **ROLE_SPELLINGS}
ROLE_NAMES = tuple(_ROLES)

_TOOL_NAMES = ("tool", "tool_name", "toolName", "name")
_JSON_INPUTS = ("args", "arguments", "tool_arguments", "toolArguments")
"""The keys of a call's input whose strings are parsed as JSON; a string under `input` is not parsed."""
_CALL_IDS = ("call_id", "tool_call_id", "toolCallId", "id")

_TEXT_PARTS = (None, "text", "input_text", "output_text", "text-content", "text-plain")
_CALL_PARTS = frozenset({"tool_call", "tool-call", "toolCall", "function_call", "server_tool_call"})
_RESULT_PARTS = frozenset({"tool_result", "tool-result", "toolResult", "tool-error", "server_tool_result"})
REASONING_PARTS = frozenset({"thinking", "redacted_thinking", "reasoning", "reasoning_content"})
_OTHER_PARTS = frozenset(
    {
        *("audio", "audio-url", "audio_url", "input_audio"),
        *("image", "image-url", "image_url", "input_image"),
        *("video", "video-url", "video_url", "media"),
        *("file", "input_file", "document", "document-url", "binary", "uploaded-file", "container_upload"),
        *("source", "source-url", "source-document", "search_result", "citation", "tool_reference"),
        *("compaction", "cache-point", "fallback", "non_standard", "invalid_tool_call", "step-start"),
        *("tool-approval-request", "tool-approval-response"),
    }
)
"""The other known types of parts; a type may also start with `data-`."""


def first(fields: JsonObject, *names: str) -> JsonValue:
    """Return the first value under these names that is not None; None if there is none."""
    for name in names:
        if (found := fields.get(name)) is not None:
            return found
    return None


def optional_text(value: JsonValue) -> str | None:
    """Return a value as text, JSON unless it is a string; None stays None."""
    return value if value is None or isinstance(value, str) else compact_json(value)


def read_role(value: JsonValue, at: str) -> Role:
    """Return one of our roles: `system` for `developer` and `data`, `tool` for `function`. Raises MessageError."""
    role = _ROLES.get(value) if isinstance(value, str) else None
    if role is None:
        raise MessageError(at, f"has the unknown role {value!r}", f"known roles: {', '.join(ROLE_NAMES)}")
    return role


def is_call_part(type_: str) -> bool:
    """Return True if a content part of this type is a tool call."""
    return type_ in _CALL_PARTS or type_.endswith("tool_use")


def is_result_part(type_: str) -> bool:
    """Return True if a content part of this type is the result of a tool call."""
    return type_ in _RESULT_PARTS or type_.endswith("tool_result")


def tool_call_from_json(value: JsonValue) -> ToolCall | None:
    """Read a tool call with our keys, with `toolName` and `args`, or with OpenAI's (`function.name`, `custom.name`).

    Return None for a value without the name of a tool.
    """
    if not isinstance(value, Mapping):
        return None
    nested = first(value, "function", "custom")
    named = nested if isinstance(nested, Mapping) else value
    name = first(named, *_TOOL_NAMES)
    if not isinstance(name, str) or not name:
        return None
    given = named.get("input")
    if given is None:
        arguments = first(named, *_JSON_INPUTS)
        given = _parsed(arguments) if isinstance(arguments, str) else arguments
    return ToolCall(
        tool=name,
        input=given,
        output=first(value, "output", "result"),
        id=optional_text(first(value, *_CALL_IDS)),
        timestamp=optional_text(value.get("timestamp")),
        duration_ms=_duration_ms(value),
    )


def _duration_ms(value: JsonObject) -> float | None:
    """Return the duration of a call in milliseconds, as written or from start to end; None if not known."""
    written = first(value, "duration_ms", "durationMs")
    if isinstance(written, int | float) and not isinstance(written, bool):
        return known_duration(written)
    began, ended = first(value, "start_time", "startTime"), first(value, "end_time", "endTime")
    return milliseconds_between(began, ended) if isinstance(began, str) and isinstance(ended, str) else None


def milliseconds_between(began: str, ended: str) -> float | None:
    """Return the time between two moments in ISO 8601; None if they cannot be compared, or `ended` is earlier."""
    try:
        passed = (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds() * 1000
    except (ValueError, TypeError):
        return None
    return round(passed, 3) if passed >= 0 else None


def _parsed(arguments: str) -> JsonValue:
    """Return the value of arguments in JSON; any other text unchanged."""
    try:
        return cast(JsonValue, json.loads(arguments))
    except (ValueError, RecursionError):
        return arguments


def read_tool_call(value: JsonValue, at: str) -> ToolCall:
    """Read a tool call. Raises MessageError if it names no tool."""
    call = tool_call_from_json(value)
    if call is None:
        advice = "write {tool, input, output}, or OpenAI's {function: {name, arguments}}"
        raise MessageError(at, f"is not a tool call: {excerpt(value)}", advice)
    return call


def read_tool_calls(value: JsonValue, at: str) -> tuple[ToolCall, ...]:
    """Read a list of tool calls; None is an empty list. Raises MessageError for a value or an item of another kind."""
    if value is not None and not isinstance(value, list | tuple):
        raise MessageError(at, f"must be a list of tool calls, but is {excerpt(value)}")
    return tuple(read_tool_call(call, f"{at}[{index}]") for index, call in enumerate(value or ()))


def read_invalid_calls(value: JsonValue, at: str) -> tuple[ToolCall, ...]:
    """Read calls that the framework did not make, because they were invalid; their output is the error.

    Raises MessageError as `read_tool_calls` does.
    """
    calls = read_tool_calls(value, at)
    items = value if isinstance(value, list | tuple) else ()
    errors = [item.get("error") for item in items if isinstance(item, Mapping)]
    return tuple(
        ToolCall(call.tool, call.input, {"error": error or "invalid tool call"}, call.id)
        for call, error in zip(calls, errors, strict=True)
    )


def read_content(value: JsonValue, at: str) -> Content | None:
    """Read a message's content: a text, a list of parts, or an object; numbers and booleans become text.

    Raises MessageError for a part that cannot be read.
    """
    if value is None or isinstance(value, str | Mapping):
        return value
    if isinstance(value, list | tuple):
        return tuple(read_part(item, f"{at}[{index}]") for index, item in enumerate(value))
    return compact_json(value)


def read_part(value: JsonValue, at: str) -> Part:
    """Read one part of a message's content. Raises MessageError for an unknown type or an invalid part."""
    if isinstance(value, str):
        return TextPart(value)
    if not isinstance(value, Mapping):
        raise MessageError(at, f"is not a content part: {excerpt(value)}", "write {type: text, text: …}")
    kind = first(value, "type", "kind", "part_kind")
    if kind in _TEXT_PARTS:
        return TextPart(_part_text(value, at))
    if kind == "refusal" and isinstance(value.get("refusal"), str):
        return TextPart(str(value["refusal"]))
    type_ = str(kind)
    is_other = type_ in REASONING_PARTS or type_ in _OTHER_PARTS or type_.startswith("data-")
    if is_call_part(type_):
        read_tool_call(value, at)  # raises for an invalid call
    elif not is_result_part(type_) and not is_other:
        advice = "known are text, tool calls and results, reasoning, images, audio, video, documents, files, sources"
        raise MessageError(at, f"has the unknown type {kind!r}", advice)
    return DataPart(type_, {key: item for key, item in value.items() if key != "type"})


def _part_text(part: JsonObject, at: str) -> str:
    text = first(part, "value", "text", "content")
    if isinstance(text, Mapping):  # OpenAI's Assistants API writes {value, annotations}
        text = text.get("value")
    if not isinstance(text, str):
        raise MessageError(at, f"is a text part without a text: {excerpt(part)}", "write {type: text, text: …}")
    return text


def reasoning_part(text: str) -> DataPart:
    """Return a part with the reasoning of a model."""
    return DataPart("reasoning", {"text": text})


def joined(parts: list[Part]) -> Content | None:
    """Return parts as the content of a message: one text if all are texts, None if there are none."""
    if not parts:
        return None
    texts = [part.text for part in parts if isinstance(part, TextPart)]
    return "".join(texts) if len(texts) == len(parts) else tuple(parts)


def tool_message(
    output: JsonValue, *, call_id: str | None, tool: str | None, failed: bool = False, timestamp: str | None = None
) -> Message:
    """Return a message with the output of a tool call.

    An output that is a text or an object is the content. Any other one, and that of a failed call, becomes a part
    `tool_result`.
    """
    content: Content | None = output if isinstance(output, str | Mapping) else None
    if failed or content is None:
        result = {"tool_call_id": call_id, "tool": tool, "output": output, "is_error": failed or None}
        content = (DataPart("tool_result", {key: item for key, item in result.items() if item is not None}),)
    return Message("tool", content, name=tool, tool_call_id=call_id, timestamp=timestamp)


_MAX_EXCERPT = 200


def excerpt(value: JsonValue) -> str:
    """Return a value as a text of at most 200 characters, for messages."""
    text = value if isinstance(value, str) else compact_json(value)
    return text if len(text) <= _MAX_EXCERPT else text[: _MAX_EXCERPT - 1] + "…"
