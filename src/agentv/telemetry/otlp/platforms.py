"""Spans as Weave, Opik and Braintrust export them, as OTLP's JSON.

They record inputs and outputs as they are, requests and responses of APIs among them, as MLflow does: its attributes
carry them. The fields are those of comet-ml/opik (SpanPublic), wandb/weave (CallSchema) and Braintrust's SDK.
"""

from collections.abc import Iterator, Mapping

from agentv.telemetry.otlp.values import first, text_at
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of

_STEP, _MODEL = "CHAIN", "LLM"
_KINDS: Mapping[str, str] = {
    "llm": _MODEL,
    "tool": "TOOL",
    "agent": "AGENT",
    **dict.fromkeys(("general", "task", "function", "None"), _STEP),
}
_OF_OPIK = ("general", "llm", "tool", "guardrail")
_OF_BRAINTRUST = frozenset({"span_id", "root_span_id", "span_attributes"})
_OF_WEAVE = "weave:///"
_SESSIONS = ("session_id", "conversation_id", "thread_id")


def platform_export(value: JsonObject) -> JsonObject | None:
    """Return a span of Weave, Opik or Braintrust, or a trace of Opik, as an OTLP export; None for any other value."""
    if _is_opik(value):
        return _export("opik", [_opik_span(value, {})])
    if str(value.get("op_name")).startswith(_OF_WEAVE) and "trace_id" in value:
        return _export("weave", [_weave_span(value)])
    if value.keys() >= _OF_BRAINTRUST:
        return _export("braintrust", [_braintrust_span(value)])
    trace, spans = value.get("trace"), value.get("spans")
    if isinstance(trace, Mapping) and isinstance(spans, list) and "id" in trace and all(map(_is_opik, spans)):
        return _export("opik", [*_opik_trace(trace, [*objects_of(spans)])])
    return None


def _export(scope: str, spans: list[JsonObject]) -> JsonObject:
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": [*spans]}]}]}


def _span(ids: tuple[JsonValue, ...], name: JsonValue, times: tuple[JsonValue, ...], error: JsonValue) -> JsonObject:
    reason = text_at(object_of(error), "message") or error
    status: JsonObject = {"code": "ERROR", "message": reason if isinstance(reason, str) else None} if error else {}
    keys = ("traceId", "spanId", "parentSpanId", "name", "startTimeUnixNano", "endTimeUnixNano")
    return {**dict(zip(keys, (*ids, name, *times), strict=True)), "status": status}


def _kind(value: JsonValue) -> str:
    return _KINDS.get(str(value), "UNKNOWN")


def _attributes(kind: str, given: JsonValue, answer: JsonValue, usage: JsonValue, **more: JsonValue) -> JsonObject:
    counts = {key: count for key, count in object_of(usage).items() if isinstance(count, int)}
    said: JsonObject = {"mlflow.spanInputs": given, "mlflow.spanOutputs": answer, "mlflow.llm.model": more["model"]}
    counted: JsonObject = {
        "mlflow.chat.tokenUsage": counts or None,
        "mlflow.llm.cost": {"total_cost": more.get("cost")},
    }
    return {"mlflow.spanType": kind, **said, **counted, "session.id": more.get("session")}


def _is_opik(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and value.get("type") in _OF_OPIK and {"trace_id", "start_time"} <= value.keys()


def _opik_span(span: JsonObject, trace: JsonObject) -> JsonObject:
    ids = span.get("trace_id"), span.get("id"), span.get("parent_span_id") or trace.get("parent")
    output = span.get("output")
    attributes = _attributes(
        _kind(span.get("type")),
        span.get("input"),
        output["output"] if isinstance(output, Mapping) and output.keys() == {"output"} else output,
        span.get("usage"),
        model=span.get("model"),
        cost=first(span, "total_estimated_cost", "total_cost"),
        session=trace.get("thread_id"),
    )
    times = span.get("start_time"), span.get("end_time")
    return {**_span(ids, span.get("name"), times, span.get("error_info")), "attributes": attributes}


def _opik_trace(trace: JsonObject, spans: list[JsonObject]) -> Iterator[JsonObject]:
    """Yield the spans of a trace, and the trace itself unless one of them is around all others."""
    outer = dict(trace)
    if sum(not span.get("parent_span_id") for span in spans) != 1:
        yield _opik_span({**trace, "trace_id": trace["id"], "type": "general", "usage": None}, outer)
        outer["parent"] = trace["id"]
    yield from (_opik_span(span, outer) for span in spans)


def _weave_span(call: JsonObject) -> JsonObject:
    inputs, usages = object_of(call.get("inputs")), object_of(object_of(call.get("summary")).get("usage"))
    kind = _kind(object_of(object_of(call.get("attributes")).get("weave")).get("kind"))
    if kind == _STEP and "model" in inputs and first(inputs, "messages", "contents", "input", "prompt"):
        kind = _MODEL
    model, usage = next(iter(usages.items()), (None, None))  # parents have the tokens of all models below
    attributes = _attributes(
        kind,
        call.get("inputs"),
        call.get("output"),
        usage if kind == _MODEL else None,
        model=model,
        session=call.get("thread_id"),
    )
    ids = call.get("trace_id"), call.get("id"), call.get("parent_id")
    name = str(call["op_name"]).rpartition("/op/")[2].partition(":")[0]
    times = call.get("started_at"), call.get("ended_at")
    return {**_span(ids, name, times, call.get("exception")), "attributes": attributes}


def _braintrust_span(row: JsonObject) -> JsonObject:
    named, metrics, metadata = (object_of(row.get(key)) for key in ("span_attributes", "metrics", "metadata"))
    parents = row.get("span_parents")
    kind = _kind(named.get("type"))
    counts = {key: metrics.get(key) for key in ("prompt_tokens", "completion_tokens", "prompt_cached_tokens")}
    attributes = _attributes(
        kind,
        row.get("input"),
        row.get("output"),
        counts if kind == _MODEL else None,
        model=metadata.get("model"),
        cost=metrics.get("estimated_cost"),
        session=text_at(metadata, *_SESSIONS),
    )
    ids = row["root_span_id"], row["span_id"], parents[0] if isinstance(parents, list) and parents else None
    times = metrics.get("start"), metrics.get("end")
    return {**_span(ids, named.get("name"), times, row.get("error")), "attributes": attributes}
