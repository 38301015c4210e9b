"""OpenAI: stored chat completions and responses, alone, with their messages beside them, or with the request."""

from collections.abc import Mapping

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.log_shapes.fields import Found, LogRecord, found

_ADVICE = (
    "stored completions come without their question; add `messages`, the result of "
    "client.chat.completions.messages.list(id), to give it to judges"
)


def is_openai(value: JsonObject) -> bool:
    """Return True for a completion, a response, or an object `{request, response}` with one of them."""
    return _is_reply(value) or _is_reply(value.get("response"))


def _is_reply(value: JsonValue) -> bool:
    if not isinstance(value, Mapping):
        return False
    kind = value.get("object")
    is_response = kind == "response" and isinstance(value.get("output"), list)
    return is_response or (kind in ("chat.completion", None) and isinstance(value.get("choices"), list))


def read_openai(value: JsonObject) -> LogRecord:
    """Return the fields of a completion or response."""
    inner = value.get("response")
    is_pair = not _is_reply(value) and isinstance(inner, Mapping)
    at, reply = ("response.", inner) if is_pair and isinstance(inner, Mapping) else ("", value)
    is_response = reply.get("object") == "response"
    places = ("request.messages", "request.input", "messages", "input") if is_pair else ("messages", "input")
    fields = found(
        value,
        {
            "id": (f"{at}id", "id"),
            "prompt": places,
            "session_id": (f"{at}conversation.id", f"{at}metadata.session_id", "session_id"),
            "timestamp": (f"{at}created", f"{at}created_at"),
            "model": f"{at}model",
            "usage": f"{at}usage",
            "metadata": (f"{at}metadata", "metadata"),
            "duration_ms": "latency_ms",
        },
    )
    answer = reply.get("output") if is_response else reply
    if answer:
        fields["response"] = Found(answer, f"$.{at}output" if is_response else f"$.{at}"[:-1], "recorded")
    error = reply.get("error")
    failure = str(error.get("message") or error) if isinstance(error, Mapping) else None
    return LogRecord("OpenAI", fields, failure=failure, notes=() if "prompt" in fields else (_ADVICE,))
