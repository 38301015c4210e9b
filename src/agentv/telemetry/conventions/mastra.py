"""Mastra: the runs of agents and workflows."""

from agentv.telemetry.contents import said
from agentv.telemetry.facts import Facts
from agentv.telemetry.spans import Span

_AGENTS = ("agent_run", "workflow_run")


def read_mastra(span: Span) -> Facts:
    """Read the question and the answer of an agent; its calls follow the semantic conventions."""
    type_ = span.attributes.get("mastra.span.type")
    if type_ not in _AGENTS:
        return Facts()
    names = [f"mastra.{type_}.{side}" for side in ("input", "output")]
    return Facts(
        kind="agent",
        input=said(span.attributes.get(names[0]), "user", f"$.attributes.{names[0]}"),
        output=said(span.attributes.get(names[1]), "assistant", f"$.attributes.{names[1]}"),
    )
