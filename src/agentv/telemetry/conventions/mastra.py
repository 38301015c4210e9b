"""Mastra: the runs of agents and workflows."""

from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first, text_at

_AGENTS = ("agent_run", "workflow_run")


def read_mastra(span: Span) -> Facts:
    """Read the question and the answer of an agent; its calls follow the semantic conventions."""
    type_ = span.attributes.get("mastra.span.type")
    if type_ not in _AGENTS:
        return Facts()
    # Before version 1, `input` and `output` have no prefix.
    given, answer = (first(span.attributes, f"mastra.{type_}.{side}", side) for side in ("input", "output"))
    return Facts(
        kind="agent",
        agent=text_at(span.attributes, "agent.id", "workflow.id"),
        input=said(given, "user", f"$.attributes.mastra.{type_}.input"),
        output=said(answer, "assistant", f"$.attributes.mastra.{type_}.output"),
        session=text_at(span.attributes, "threadId"),
    )
