"""Pipecat: calls of models with their messages as `input` and `output`, in the turns of a conversation."""

from agentv.telemetry.contents.contents import said
from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.otlp.spans import Span
from agentv.telemetry.otlp.values import text_at
from agentv.types.messages import Message


def read_pipecat(span: Span) -> Facts:
    """Read a conversation or a turn, which have the session, or a call of a model."""
    attributes = span.attributes
    if "input" not in attributes or attributes.get("gen_ai.operation.name") != "chat":
        session = text_at(attributes, "conversation.id")
        return Facts(kind="step" if session else None, session=session)
    made = said(attributes.get("output"), "assistant", "$.attributes.output")
    is_answered = made or attributes.get("gen_ai.usage.output_tokens")
    return Facts(
        input=said(attributes["input"], "user", "$.attributes.input"),
        # An answer that only calls tools has no output.
        output=made or ((Message("assistant", ""),) if is_answered else ()),
    )
