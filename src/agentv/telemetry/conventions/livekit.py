"""LiveKit Agents: a session with its turns, each of which is an invocation of the agent."""

from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import first

_SESSION = "agent_session"
_GIVEN = ("lk.pii.user_input", "lk.user_input")
_ANSWERS = ("lk.pii.response.text", "lk.response.text")


def read_livekit(span: Span) -> Facts:
    """Read a turn; calls of models and tools follow the semantic conventions."""
    if span.name == _SESSION or span.attributes.get("gen_ai.workflow.name") == _SESSION:
        return Facts(kind="step")  # not an invocation: it lasts as long as the conversation
    if span.attributes.get("gen_ai.operation.name") != "invoke_agent" and span.name != "agent_turn":
        return Facts()
    return Facts(
        kind="agent",
        input=said(first(span.attributes, *_GIVEN), "user", f"$.attributes.{_GIVEN[0]}"),
        output=said(first(span.attributes, *_ANSWERS), "assistant", f"$.attributes.{_ANSWERS[0]}"),
    )
