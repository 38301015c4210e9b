"""LangSmith: runs, as its API, its client (`model_dump`, `list_runs`) and its bulk export write them."""

from agentv.types.json_value import JsonObject
from agentv.types.log_shapes.fields import Found, LogRecord, at_path, found, milliseconds_between

_THREADS = ("session_id", "thread_id", "conversation_id")
"""The keys of a run's metadata that group runs into a conversation; a run's own `session_id` is its project."""


def is_langsmith(value: JsonObject) -> bool:
    """Return True for a run."""
    return "run_type" in value and ("inputs" in value or "outputs" in value)


def read_langsmith(value: JsonObject) -> LogRecord:
    """Return the fields of a run; one with a parent is a step of its trace."""
    held = ("extra.metadata", "custom_metadata", "metadata")
    fields = found(
        value,
        {
            "id": ("id", "run_id"),
            "prompt": "inputs",
            "response": "outputs",
            "session_id": ("thread_id", *(f"{place}.{key}" for place in held for key in _THREADS)),
            "timestamp": "start_time",
            "model": tuple(f"{place}.ls_model_name" for place in held),
            "usage": ("outputs.usage_metadata", "usage_metadata", "token_usage"),
            "cost_usd": ("total_cost", "outputs.usage_metadata.total_cost", "costs.total_cost"),
            "metadata": held,
            "metadata.name": "name",
            "tags": "tags",
        },
    )
    counts = {key: value[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens") if value.get(key)}
    if counts:
        fields["usage"] = Found(counts, "$.total_tokens")
    latency = milliseconds_between(value.get("start_time"), value.get("end_time"))
    if latency is not None:
        fields["duration_ms"] = Found(latency, "$.end_time")
    parent = at_path(value, "parent_run_id")
    error = value.get("error")
    step = f"{value['run_type']} run" if parent and value.get("is_root") is not True else None
    return LogRecord("LangSmith", fields, step=step, failure=str(error) if error else None)
