"""Langfuse: traces and observations, as its API, its user interface and its blob storage export them."""

from collections.abc import Mapping

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.log_shapes.fields import Found, LogRecord, found, milliseconds_between

_TYPES = frozenset(
    "SPAN GENERATION EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split()  # noqa: SIM905 - a list of words
)
_MARKS = ("htmlPath", "bookmarked", "public", "projectId", "project_id")


def is_langfuse(value: JsonObject) -> bool:
    """Return True for an observation, a trace, or a trace with its observations as one object."""
    trace = value.get("trace")
    if isinstance(trace, Mapping) and isinstance(value.get("observations"), list):
        return True
    if "input" not in value or "output" not in value:
        return False
    return _is_observation(value) or any(mark in value for mark in _MARKS)


def _is_observation(value: JsonObject) -> bool:
    return str(value.get("type")).upper() in _TYPES and ("traceId" in value or "trace_id" in value)


def read_langfuse(value: JsonObject) -> LogRecord:
    """Return the fields of a trace or of an observation; one with a parent is a step of its trace."""
    root = "trace." if isinstance(value.get("trace"), Mapping) else ""
    fields = found(
        value,
        {
            "id": f"{root}id",
            "prompt": f"{root}input",
            "response": f"{root}output",
            "session_id": (f"{root}sessionId", f"{root}session_id"),
            "timestamp": (f"{root}timestamp", "startTime", "start_time"),
            "model": ("providedModelName", "provided_model_name", "model"),
            "usage": ("usageDetails", "usage_details", "usage"),
            "cost_usd": (f"{root}totalCost", "total_cost", "totalCost", "calculatedTotalCost"),
            "metadata": f"{root}metadata",
            "metadata.name": f"{root}name",
            "metadata.user_id": (f"{root}userId", f"{root}user_id"),
            "tags": f"{root}tags",
            "metadata.environment": f"{root}environment",
        },
    )
    if _is_observation(value) and (latency := _latency(value)) is not None:
        fields["duration_ms"] = latency
    level, said = value.get("level"), value.get("statusMessage", value.get("status_message"))
    return LogRecord(
        "Langfuse",
        fields,
        step=_step(value),
        failure=str(said or "level ERROR") if level == "ERROR" else None,
    )


def _latency(value: JsonObject) -> Found | None:
    """Return the latency of an observation from its times, since exports differ in the unit of `latency`."""
    names = ("startTime", "endTime") if "startTime" in value else ("start_time", "end_time")
    start, end = (value.get(name) for name in names)
    latency = milliseconds_between(start, end)
    return None if latency is None else Found(latency, f"$.{names[1]}")


def _step(value: JsonObject) -> str | None:
    if not _is_observation(value):
        return None
    parent: JsonValue = value.get("parentObservationId", value.get("parent_observation_id"))
    is_root = value.get("isRootObservation", value.get("is_root_observation"))
    return f"{str(value['type']).lower()} observation" if parent and not is_root else None
