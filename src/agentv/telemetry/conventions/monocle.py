"""Monocle: the inputs and outputs of agents, models and tools as events of the span."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed, read_rows
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, Role
from agentv.types.usage import known_usage

_KINDS: Mapping[str, Kind] = {
    "agentic.turn": "agent",
    "agentic.invocation": "agent",
    "inference": "model",
    "inference.framework": "model",
    "agentic.tool.invocation": "tool",
    "agentic.mcp.invocation": "tool",
}
_ROLES: Mapping[str, Role] = {
    "human": "user",
    "user": "user",
    "system": "system",
    "tool": "tool",
    "ai": "assistant",
    "assistant": "assistant",
}


def read_monocle(span: Span) -> Facts:
    """Read a span, whose messages are objects with their role as the only key."""
    attributes = span.attributes
    kind: Kind = _KINDS.get(str(attributes.get("span.type")), "step")
    events = {event.name: event.attributes for event in span.events}
    given = events.get("data.input", {}).get("input")
    answer = events.get("data.output", {}).get("response")
    name = text_at(attributes, "entity.1.name")
    return Facts(
        kind=kind,
        agent=name if kind == "agent" else None,
        input=() if kind == "tool" else _messages(given, "user"),
        output=() if kind == "tool" else _messages(answer, "assistant"),
        tool=tool_call(name, None, given, answer) if kind == "tool" else None,
        usage=known_usage(read_usage(events.get("metadata"))),
        model=text_at(attributes, "entity.2.name") if kind == "model" else None,
        session=text_at(attributes, "scope.agentic.session"),
    )


def _messages(value: JsonValue, role: Role) -> tuple[Message, ...]:
    whole = parsed(value)  # a backend may have the list as a text
    listed = [parsed(each) for each in (whole if isinstance(whole, list) else [whole])]
    rows = [_row(each) for each in listed if isinstance(each, Mapping)]
    if len(rows) == len(listed) and all(rows):
        return read_rows([row for row in rows if row], "$.events")
    return said(value, role, "$.events")


def _row(value: JsonObject) -> JsonObject | None:
    """Return the message of an object with its role as the only key; None for any other object."""
    role = next(iter(value)) if len(value) == 1 else ""
    if role not in _ROLES:
        return None
    content = parsed(value[role])
    calls = [_call(parsed(each)) for each in (content if isinstance(content, list) else [content])]
    if calls and all(calls):
        return {"role": _ROLES[role], "content": None, "tool_calls": [call for call in calls if call]}
    return {"role": _ROLES[role], "content": value[role]}


def _call(value: JsonValue) -> JsonObject | None:
    if not isinstance(value, Mapping):
        return None
    name, arguments = first(value, "tool_name", "tool_function", "name"), first(value, "tool_arguments", "args")
    is_call = isinstance(name, str) and bool({"tool_arguments", "args"} & value.keys())
    return {"id": first(value, "tool_id", "id"), "tool": name, "input": parsed(arguments)} if is_call else None
