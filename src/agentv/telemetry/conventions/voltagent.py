"""VoltAgent: its agents, workflows and tools."""

from agentv.telemetry.contents.contents import said, system_of
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.tool_calls import tool_call
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at, token_usage


def read_voltagent(span: Span) -> Facts:
    """Read an agent, which has the tokens of all its calls of models, or a call of a tool.

    The span of a call has all the calls until no tool is requested, but only the tokens of the last one.
    """
    attributes = span.attributes
    type_ = attributes.get("span.type")
    given, answer = attributes.get("input"), attributes.get("output")
    if type_ == "tool":
        call = tool_call(attributes.get("tool.name"), attributes.get("tool.call.id"), given, answer)
        return Facts(kind="tool", tool=call)
    if type_ is not None or attributes.get("entity.type") not in ("agent", "workflow"):
        return Facts(kind="step")
    counts = (f"usage.{name}_tokens" for name in ("prompt", "completion", "cached", "reasoning"))
    return Facts(
        kind="agent",
        agent=text_at(attributes, "subagent.name", "entity.name"),
        system=system_of(attributes.get("agent.instructions")),
        input=said(first(attributes, "agent.messages") or given, "user", "$.attributes.input"),
        output=said(answer, "assistant", "$.attributes.output"),
        usage=token_usage(*map(attributes.get, counts)),
        model=text_at(attributes, "ai.model.name"),
        session=text_at(attributes, "conversation.id"),
    )
