"""Exports of Langfuse, LangSmith and OpenAI, and lines that their clients write."""

import re
from collections.abc import Mapping
from typing import Final, cast

from agentv.messages.logs.fields import Found, LogRecord, at_path, find_fields, milliseconds_between
from agentv.types.json_value import JsonObject, JsonValue

JOINED: Final = "agentv"
"""The key that a record has what its steps say under: `steps` (their messages), `usage`, `cost_usd` and `model`."""

_OBSERVATION_TYPES = frozenset(
    "SPAN GENERATION EVENT AGENT TOOL CHAIN RETRIEVER EVALUATOR EMBEDDING GUARDRAIL".split()  # noqa: SIM905 - a list of words
)
_TRACE_KEYS = ("htmlPath", "bookmarked", "public", "projectId", "project_id")


def is_langfuse(value: JsonObject) -> bool:
    """Return True for an observation or a trace of Langfuse, or an object `{trace, observations}`."""
    trace = value.get("trace")
    if isinstance(trace, Mapping) and isinstance(value.get("observations"), list):
        return True
    if "input" not in value or "output" not in value:
        return False
    return _is_observation(value) or any(key in value for key in _TRACE_KEYS)


def _is_observation(value: JsonObject) -> bool:
    return str(value.get("type")).upper() in _OBSERVATION_TYPES and ("traceId" in value or "trace_id" in value)


def read_langfuse(value: JsonObject) -> LogRecord:
    """Return the fields of a trace or an observation.

    An observation with a parent is a step of its trace, unless it is marked as the root.
    """
    root = "trace." if isinstance(value.get("trace"), Mapping) else ""
    is_observation = _is_observation(value)
    fields = find_fields(
        value,
        {
            "id": f"{root}id",
            "prompt": f"{root}input",
            "response": f"{root}output",
            "session_id": (f"{root}sessionId", f"{root}session_id"),
            "timestamp": (f"{root}timestamp", "startTime", "start_time"),
            "steps": f"{JOINED}.steps",
            "model": (f"{JOINED}.model", "providedModelName", "provided_model_name", "model"),
            "usage": (f"{JOINED}.usage", "usageDetails", "usage_details", "usage"),
            "cost_usd": (f"{JOINED}.cost_usd", f"{root}totalCost", "total_cost", "totalCost", "calculatedTotalCost"),
            "metadata": f"{root}metadata",
            "metadata.name": f"{root}name",
            "metadata.user_id": (f"{root}userId", f"{root}user_id"),
            "tags": f"{root}tags",
            "metadata.environment": f"{root}environment",
            "metadata.trace_id": ("traceId", "trace_id") if is_observation else f"{root}id",
            "metadata.span_id": "id" if is_observation else (),
        },
    )
    if is_observation and (latency := _latency(value)) is not None:
        fields["duration_ms"] = latency
    level, message = value.get("level"), value.get("statusMessage", value.get("status_message"))
    return LogRecord(
        "Langfuse",
        fields,
        step=_step(value),
        failure=str(message or "level ERROR") if level == "ERROR" else None,
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


_THREAD_KEYS = ("session_id", "thread_id", "conversation_id")
"""The metadata keys that group runs into a conversation. The run's own key `session_id` is a project's id instead."""


_RUN_USAGES = (
    *("outputs.usage_metadata", "usage_metadata", "token_usage", "outputs.llm_output.token_usage"),
    "outputs.generations[0][0].message.kwargs.usage_metadata",
)


def is_langsmith(value: JsonObject) -> bool:
    """Return True for a run of LangSmith."""
    return "run_type" in value and ("inputs" in value or "outputs" in value)


def read_langsmith(value: JsonObject) -> LogRecord:
    """Return the fields of a run; a run with a parent is a step of its trace, unless it is marked as the root."""
    metadata = ("extra.metadata", "custom_metadata", "metadata")
    fields = find_fields(
        value,
        {
            "id": ("id", "run_id"),
            "prompt": "inputs",
            "response": "outputs",
            "session_id": ("thread_id", *(f"{place}.{key}" for place in metadata for key in _THREAD_KEYS)),
            "timestamp": "start_time",
            "steps": f"{JOINED}.steps",
            "model": (f"{JOINED}.model", *(f"{place}.ls_model_name" for place in metadata)),
            "usage": (f"{JOINED}.usage", *_RUN_USAGES),
            "cost_usd": (f"{JOINED}.cost_usd", "total_cost", "outputs.usage_metadata.total_cost", "costs.total_cost"),
            "metadata": metadata,
            "metadata.name": "name",
            "tags": "tags",
        },
    )
    counts = {key: value[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens") if value.get(key)}
    if counts and at_path(value, f"{JOINED}.usage") is None:
        fields["usage"] = Found(counts, "$.total_tokens")
    latency = milliseconds_between(value.get("start_time"), value.get("end_time"))
    if latency is not None:
        fields["duration_ms"] = Found(latency, "$.end_time")
    parent = at_path(value, "parent_run_id")
    error = value.get("error")
    step = f"{value['run_type']} run" if parent and value.get("is_root") is not True else None
    return LogRecord("LangSmith", fields, step=step, failure=str(error) if error else None)


_COMPLETION_NOTE = (
    "stored completions do not contain the question, which judges need; add to the line the key `messages` with the "
    "result of client.chat.completions.messages.list(id)"
)
_RESPONSE_NOTE = (
    "stored responses do not contain the question, which judges need; add to the line the key `input` with the result "
    'of client.responses.input_items.list(id, order="asc")'
)


def is_openai(value: JsonObject) -> bool:
    """Return True for a completion or a response of OpenAI, or an object with one of them under `response`."""
    return _is_reply(value) or _is_reply(value.get("response"))


def _is_reply(value: JsonValue) -> bool:
    if not isinstance(value, Mapping):
        return False
    kind = value.get("object")
    is_response = kind == "response" and isinstance(value.get("output"), list)
    return is_response or (kind in ("chat.completion", None) and isinstance(value.get("choices"), list))


def read_openai(value: JsonObject) -> LogRecord:
    """Return the fields of a completion or response, or of an object `{request, response}`."""
    is_pair = not _is_reply(value)
    prefix, reply = ("response.", cast(JsonObject, value["response"])) if is_pair else ("", value)
    is_response = reply.get("object") == "response"
    prompt_paths = ("request.messages", "request.input", "messages", "input") if is_pair else ("messages", "input")
    fields = find_fields(
        value,
        {
            "id": (f"{prefix}id", "id"),
            "prompt": prompt_paths,
            "session_id": (f"{prefix}conversation.id", f"{prefix}metadata.session_id", "session_id"),
            "timestamp": (f"{prefix}created", f"{prefix}created_at"),
            "model": f"{prefix}model",
            "usage": f"{prefix}usage",
            "metadata": (f"{prefix}metadata", "metadata"),
            "duration_ms": "latency_ms",
        },
    )
    answer = reply.get("output") if is_response else reply
    if answer:
        place = f"$.{prefix}output" if is_response else f"$.{prefix}".removesuffix(".")
        fields["response"] = Found(answer, place, "recorded")
    error = reply.get("error")
    failure = str(error.get("message") or error) if isinstance(error, Mapping) else None
    note = _RESPONSE_NOTE if is_response else _COMPLETION_NOTE
    return LogRecord("OpenAI", fields, failure=failure, notes=() if "prompt" in fields else (note,))


_INDEX = re.compile(r"\d+")


def nested_attributes(value: JsonValue) -> JsonValue:
    """Return attributes with dotted keys as nested objects and lists; objects that are nested already are merged in."""
    if isinstance(value, list | tuple):
        return [nested_attributes(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    tree: dict[str, JsonValue] = {}
    for key, item in value.items():
        if item is None:  # an empty cell of a data frame
            continue
        branch = tree
        *parents, last = key.split(".")
        for parent in parents:
            inner = branch.setdefault(parent, {})
            if not isinstance(inner, dict):
                break  # an earlier, shorter key has a value that is not an object; that value stays
            branch = inner
        else:
            new = nested_attributes(item) if isinstance(item, dict | list | tuple) else item
            old = branch.get(last)
            branch[last] = {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else new
    return _with_lists(tree)


def _with_lists(value: JsonValue) -> JsonValue:
    """Return a value in which each object whose keys are all indexes is a list."""
    if not isinstance(value, dict):
        return value
    inner = {key: _with_lists(item) if isinstance(item, dict) else item for key, item in value.items()}
    if inner and all(map(_INDEX.fullmatch, inner)):
        return [inner[key] for key in sorted(inner, key=int)]
    return cast(JsonObject, inner)
