"""UI messages of the AI SDK: `parts` with text, reasoning, files and tool calls with their results.

Each step of a message (`step-start`) becomes a message, so that what was said last is the answer.
"""

from collections.abc import Mapping

from agentv.types.errors import MessageError
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.chat import read_calls, read_said, without_repeats
from agentv.types.message_shapes.fields import joined, optional_text, read_part, read_role, read_tool_call
from agentv.types.messages import Message, Part, ToolCall

_UI_TOOL = "tool-"


def read_ui_message(value: JsonObject, at: str) -> tuple[Message, ...]:
    """Read a message with `parts`. Raises MessageError."""
    role = read_role(value.get("role"), at)
    parts = value.get("parts")
    if not isinstance(parts, list | tuple):
        raise MessageError(f"{at}.parts", "must be a list of parts")
    beside = read_calls(value, at)
    steps = _steps(parts, f"{at}.parts")
    if not any(said or calls for said, calls in steps):
        steps = [([], list(beside))]
        content = read_said(value, at, has_calls=bool(beside))
        return (_message(role, content, beside, value),)
    known = {call.id for _, calls in steps for call in calls}
    steps[0][1].extend(call for call in beside if call.id is None or call.id not in known)
    return tuple(_message(role, joined(said), tuple(without_repeats(calls)), value) for said, calls in steps)


def _message(role: str, content: object, calls: tuple[ToolCall, ...], value: JsonObject) -> Message:
    timestamp = optional_text(value.get("createdAt"))
    return Message(role, content, tool_calls=calls, timestamp=timestamp)  # type: ignore[arg-type]  # read above


def _steps(parts: list[JsonValue] | tuple[JsonValue, ...], at: str) -> list[tuple[list[Part], list[ToolCall]]]:
    steps: list[tuple[list[Part], list[ToolCall]]] = [([], [])]
    for index, part in enumerate(parts):
        said, calls = steps[-1]
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind == "step-start":
            if said or calls:
                steps.append(([], []))
        elif isinstance(part, Mapping) and _is_call(part):
            calls.append(_call(part, f"{at}[{index}]"))
        else:
            said.append(read_part(part, f"{at}[{index}]"))
    return steps if any(steps[-1]) or len(steps) == 1 else steps[:-1]


def _is_call(part: JsonObject) -> bool:
    kind = str(part.get("type"))
    return kind in ("tool-invocation", "dynamic-tool") or (kind.startswith(_UI_TOOL) and "state" in part)


def _call(part: JsonObject, at: str) -> ToolCall:
    if part.get("type") == "tool-invocation":
        return read_tool_call(part.get("toolInvocation"), f"{at}.toolInvocation")
    name = part.get("toolName") or str(part["type"]).removeprefix(_UI_TOOL)
    output, error = part.get("output"), part.get("errorText")
    if error is not None:
        output = {"error": error}
    elif part.get("state") == "output-denied":
        output = {"error": "denied"}
    given = part.get("input") if part.get("input") is not None else part.get("rawInput")
    return read_tool_call({"tool": name, "input": given, "output": output, "id": part.get("toolCallId")}, at)
