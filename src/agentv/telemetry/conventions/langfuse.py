"""Langfuse: the observations of its SDKs."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents.contents import said, unwrapped
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.chat import instructions_of, request_of
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of
from agentv.types.usage import known_cost, known_usage

_KINDS: Mapping[str, Kind] = {"generation": "model", "agent": "agent", "chain": "agent", "tool": "tool"}


def read_langfuse(span: Span) -> Facts:
    """Read an observation, whose input may be the request of a client."""
    attributes = span.attributes
    raw_kind = text_at(attributes, "langfuse.observation.type")
    kind: Kind = "step" if raw_kind is None else _KINDS.get(raw_kind.lower(), "step")
    given = _with_tool_roles(first(attributes, "langfuse.observation.input", "langfuse.trace.input"))
    answer = _with_tool_roles(first(attributes, "langfuse.observation.output", "langfuse.trace.output"))
    request = parsed(given)
    counts = parsed(attributes.get("langfuse.observation.usage_details"))
    cost = object_of(parsed(attributes.get("langfuse.observation.cost_details")))
    return Facts(
        kind=kind,
        agent=span.name if str(raw_kind).lower() == "agent" else None,
        workflow=span.name if kind == "agent" else None,
        system=instructions_of(request) if kind == "model" else (),
        input=()
        if kind == "tool"
        else said(_without_tools(request_of(request, given)), "user", "$.attributes.langfuse.observation.input"),
        output=said(answer, "assistant", "$.attributes.langfuse.observation.output") if kind != "tool" else (),
        tool=tool_call(span.name, None, unwrapped(given), answer) if kind == "tool" else None,
        usage=known_usage(read_usage(counts)) if kind != "tool" else None,
        cost_usd=known_cost(cost.get("total")),
        model=text_at(attributes, "langfuse.observation.model.name"),
        session=session_of(attributes),
        error=text_at(attributes, "langfuse.observation.status_message") or "level ERROR"
        if attributes.get("langfuse.observation.level") == "ERROR"
        else None,
    )


def _without_tools(given: JsonValue) -> JsonValue:
    """Return messages without the definitions of tools, which the handler for LangChain adds as messages of tools."""
    listed = parsed(given)
    if not isinstance(listed, list):
        return given
    kept = [each for each in listed if not _is_definition(object_of(each))]
    return kept if len(kept) < len(listed) else given


def _is_definition(message: JsonObject) -> bool:
    content = object_of(message.get("content"))
    return message.get("role") == "tool" and content.get("type") == "function" and "function" in content


def _with_tool_roles(value: JsonValue) -> JsonValue:
    """Return messages in which the result of a tool has its role, not the tool's name, as the handler for LangChain.js.

    Other values are returned as they are.
    """
    if isinstance(value, str) and '"tool_calls"' not in value:
        return value
    inner = parsed(value)
    if isinstance(inner, Mapping) and isinstance(inner.get("messages"), list):
        messages = _with_tool_roles(inner["messages"])
        return value if messages is inner["messages"] else {**inner, "messages": messages}
    calls = [call for message in objects_of(inner) for call in objects_of(message.get("tool_calls"))]
    names = {text_at(object_of(call.get("function")), "name") for call in calls} - {None}
    if not names or not isinstance(inner, list):
        return value
    return [{**each, "role": "tool"} if text_at(object_of(each), "role") in names else each for each in inner]
