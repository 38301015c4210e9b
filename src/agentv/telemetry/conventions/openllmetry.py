"""OpenLLMetry: the functions that its decorators trace."""

from collections.abc import Mapping

from agentv.telemetry.contents.contents import said, unwrapped
from agentv.telemetry.contents.facts import Facts, Kind
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import text_at
from agentv.types.json_value import object_of

_KINDS: Mapping[str, Kind] = {"workflow": "agent", "agent": "agent", "task": "step", "tool": "tool"}


def read_openllmetry(span: Span) -> Facts:
    """Read the input and the output of a function; calls of models follow `gen_ai.*`."""
    attributes = span.attributes
    kind = _KINDS.get(str(attributes.get("traceloop.span.kind")))
    given, answer = attributes.get("traceloop.entity.input"), attributes.get("traceloop.entity.output")
    tool = None
    if kind == "tool":
        kwargs = object_of(object_of(parsed(given)).get("kwargs"))
        name = text_at(attributes, "traceloop.entity.name")
        tool = tool_call(name, kwargs.get("tool_call_id"), unwrapped(given), answer)
    return Facts(
        kind=kind,
        agent=text_at(attributes, "traceloop.entity.name") if kind == "agent" else None,
        input=said(given, "user", "$.attributes.traceloop.entity.input") if kind in ("agent", "step") else (),
        output=said(answer, "assistant", "$.attributes.traceloop.entity.output") if kind in ("agent", "step") else (),
        tool=tool,
        session=session_of(attributes),
    )
