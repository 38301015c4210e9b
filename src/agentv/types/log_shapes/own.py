"""Logs of a service itself: the keys of EvaluationInput, and those that every service logs beside them."""

from collections.abc import Mapping

from agentv.types.json_value import JsonObject, snake_case
from agentv.types.log_shapes.fields import Found, LogRecord

INPUT_KEYS = (
    *("response", "prompt", "message_history", "context", "ground_truth", "criteria", "agent_config"),
    *("session_id", "agent_id", "timestamp", "metadata", "id", "target"),
)
_OTHERS: Mapping[str, str] = {
    **{name: name for name in (*INPUT_KEYS, "messages", "model", "duration_ms", "usage", "cost_usd", "tags")},
    "ts": "timestamp",
    "created_at": "timestamp",
    "request_id": "id",
    "conversation_id": "session_id",
    "thread_id": "session_id",
    "latency_ms": "duration_ms",
    "cost": "cost_usd",
    "user_id": "metadata.user_id",
    "finish_reason": "metadata.finish_reason",
}
"""The keys that are read, in snake_case or camelCase, and the fields they fill; an earlier one wins."""

NAMES: tuple[str, ...] = tuple(_OTHERS)


def read_own(value: JsonObject) -> LogRecord:
    """Return the fields of a line with keys of our own."""
    fields: dict[str, Found] = {}
    unread = []
    places = {snake_case(key): key for key in value}
    for name, key in places.items():
        target = _OTHERS.get(name)
        if target is None:
            unread.append(key)
        elif target == name or target not in places:
            if value[key] is not None:
                fields.setdefault(target, Found(value[key], f"$.{key}"))
        else:  # `request_id` beside `id`
            fields[f"metadata.{name}"] = Found(value[key], f"$.{key}")
    return LogRecord("own", fields, unread=tuple(unread))
