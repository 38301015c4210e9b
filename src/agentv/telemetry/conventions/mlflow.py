"""MLflow: the inputs and outputs of spans."""

from collections.abc import Mapping

from agentv.messages.shapes.usages import read_usage
from agentv.telemetry.contents import parsed, said, system_of, tool_call, unwrapped
from agentv.telemetry.conventions.chat import request_of
from agentv.telemetry.conventions.session import session_of
from agentv.telemetry.facts import Facts, Kind
from agentv.telemetry.spans import Span
from agentv.telemetry.values import first, json_object, text_at
from agentv.types.usage import known_cost, known_usage

_KINDS: Mapping[str, Kind] = {
    "CHAT_MODEL": "model",
    "LLM": "model",
    "AGENT": "agent",
    "CHAIN": "agent",
    "WORKFLOW": "agent",
    "TOOL": "tool",
}


def read_mlflow(span: Span) -> Facts:
    """Read a span, whose input may be the request of a client."""
    attributes = span.attributes
    raw_kind = unwrapped(attributes.get("mlflow.spanType"))
    kind = _KINDS.get(str(raw_kind).upper(), "step")
    given, answer = attributes.get("mlflow.spanInputs"), attributes.get("mlflow.spanOutputs")
    asked = parsed(given)
    counts = parsed(attributes.get("mlflow.chat.tokenUsage"))
    usage = (read_usage(counts) or read_usage(json_object(parsed(answer)).get("usage"))) if kind != "tool" else None
    return Facts(
        kind=kind,
        agent=span.name if str(raw_kind).upper() == "AGENT" else None,
        workflow=span.name if kind == "agent" else None,
        system=system_of(first(json_object(asked), "instructions", "system")) if kind == "model" else (),
        input=said(request_of(asked, given), "user", "$.attributes.mlflow.spanInputs") if kind != "tool" else (),
        output=said(answer, "assistant", "$.attributes.mlflow.spanOutputs") if kind != "tool" else (),
        tool=tool_call(span.name, None, unwrapped(given), answer) if kind == "tool" else None,
        usage=None if usage is None else known_usage(usage),
        cost_usd=known_cost(json_object(parsed(attributes.get("mlflow.llm.cost"))).get("total_cost")),
        model=text_at(json_object(asked), "model")
        or text_at({"model": unwrapped(attributes.get("mlflow.llm.model"))}, "model"),
        session=session_of(attributes),
        response_id=text_at(json_object(parsed(answer)), "id"),
        previous_id=text_at(json_object(asked), "previous_response_id"),
    )
