"""Microsoft Agent Framework: a run of a workflow, whose agents follow the semantic conventions."""

from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.otlp.spans import Span

_STARTED = "workflow.started"


def read_agent_framework(span: Span) -> Facts:
    """Read a run of a workflow, which has no attributes of an agent."""
    return Facts(kind="agent" if any(event.name == _STARTED for event in span.events) else None)
