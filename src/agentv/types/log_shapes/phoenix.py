"""Phoenix: spans with OpenInference attributes, from its REST API, its client and its data frames."""

import re
from collections.abc import Mapping
from typing import cast

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.log_shapes.fields import Found, LogRecord, found, milliseconds_between

_COLUMN = "attributes."


def is_phoenix(value: JsonObject) -> bool:
    """Return True for a span, nested or as a row of a data frame."""
    context = value.get("context")
    is_span = isinstance(context, Mapping) and "span_id" in context and isinstance(value.get("attributes"), Mapping)
    return is_span or ("span_kind" in value and any(key.startswith(_COLUMN) for key in value))


def read_phoenix(value: JsonObject) -> LogRecord:
    """Return the fields of a span; one with a parent is a step of its trace."""
    columns = {key.removeprefix(_COLUMN): item for key, item in value.items() if key.startswith(_COLUMN)}
    given = value.get("attributes")
    attributes = nested_attributes(given if isinstance(given, Mapping) else columns)
    rest = {key: item for key, item in value.items() if not key.startswith(_COLUMN)}
    line: dict[str, JsonValue] = {**rest, "attributes": attributes}
    fields = found(
        line,
        {
            "id": ("context.span_id", "context.trace_id", "id"),
            "prompt": ("attributes.llm.input_messages", "attributes.input.value"),
            "response": ("attributes.llm.output_messages", "attributes.output.value"),
            "session_id": "attributes.session.id",
            "timestamp": "start_time",
            "model": "attributes.llm.model_name",
            "usage": "attributes.llm.token_count",
            "cost_usd": "attributes.llm.cost.total",
            "metadata": "attributes.metadata",
            "metadata.name": "name",
            "metadata.user_id": "attributes.user.id",
            "tags": "attributes.tag.tags",
        },
    )
    for name in ("prompt", "response"):
        if name in fields and fields[name].at.endswith("_messages"):
            fields[name] = Found(_messages(fields[name].value), fields[name].at, "recorded")
    if "usage" in fields and isinstance(counts := fields["usage"].value, Mapping):
        tokens = {f"{key}_tokens": item for key, item in counts.items() if key in ("prompt", "completion", "total")}
        fields["usage"] = Found(tokens, fields["usage"].at, "recorded")
    latency = milliseconds_between(value.get("start_time"), value.get("end_time"))
    if latency is not None:
        fields["duration_ms"] = Found(latency, "$.end_time")
    failed = str(value.get("status_code")).upper() == "ERROR"
    return LogRecord(
        "Phoenix",
        fields,
        step=f"{str(value.get('span_kind', '')).lower()} span".strip() if value.get("parent_id") else None,
        failure=str(value.get("status_message") or "status ERROR") if failed else None,
    )


def _messages(value: JsonValue) -> JsonValue:
    """Return messages of OpenInference, in which each level is wrapped in an object, as those of OpenAI's chat API."""
    items = value if isinstance(value, list | tuple) else []
    return [_message(inner) for item in items for inner in [_unwrapped(item, "message")] if isinstance(inner, Mapping)]


def _message(message: JsonObject) -> JsonObject:
    read = {key: item for key, item in message.items() if key in ("role", "content", "name", "tool_call_id") and item}
    parts, calls = message.get("contents"), message.get("tool_calls")
    if isinstance(parts, list) and "content" not in read:
        read["content"] = [_unwrapped(part, "message_content") for part in parts]
    if isinstance(calls, list) and calls:
        read["tool_calls"] = [_unwrapped(call, "tool_call") for call in calls]
    return read if "content" in read or "tool_calls" in read else {**read, "content": None}


def _unwrapped(value: JsonValue, key: str) -> JsonValue:
    return value.get(key, value) if isinstance(value, Mapping) else value


_INDEX = re.compile(r"\d+")


def nested_attributes(value: JsonValue) -> JsonValue:
    """Return attributes with their dotted keys as nested objects and lists, however much of them is nested already."""
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
                break
            branch = inner
        else:
            new = nested_attributes(item)
            old = branch.get(last)
            branch[last] = {**old, **new} if isinstance(old, Mapping) and isinstance(new, Mapping) else new
    return _with_lists(tree)


def _with_lists(value: JsonValue) -> JsonValue:
    if not isinstance(value, dict):
        return value
    inner = {key: _with_lists(item) for key, item in value.items()}
    if inner and all(map(_INDEX.fullmatch, inner)):
        return [inner[key] for key in sorted(inner, key=int)]
    return cast(JsonObject, inner)
