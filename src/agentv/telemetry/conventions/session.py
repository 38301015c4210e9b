"""The session of a span, by whatever name."""

from agentv.telemetry.otlp.values import text_at
from agentv.types.json_value import JsonObject

_SESSION_KEYS = (
    "gen_ai.conversation.id",
    "session.id",
    "gen_ai.session.id",
    "lmnr.association.properties.session_id",
    "langwatch.thread.id",
    "judgment.session_id",
    "langfuse.session.id",
    "traceloop.association.properties.session_id",
    "traceloop.association.properties.thread_id",
    "mlflow.trace.session",
    "lmnr.association.properties.session_id",
    *(f"langsmith.metadata.{name}" for name in ("session_id", "conversation_id", "thread_id")),
)


def session_of(attributes: JsonObject) -> str | None:
    """Return the session, the thread or the conversation of a span; None if it names none."""
    return text_at(attributes, *_SESSION_KEYS)
