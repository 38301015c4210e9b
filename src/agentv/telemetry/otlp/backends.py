"""Traces as tracing backends give them, as OTLP's JSON: of Jaeger's API and user interface, and of Grafana Tempo.

Jaeger: https://www.jaegertracing.io/docs/latest/architecture/apis/ and the mapping of attributes in
open-telemetry/opentelemetry-collector-contrib, pkg/translator/jaeger. Tempo: https://grafana.com/docs/tempo/latest/api_docs/
"""

from collections.abc import Iterator, Mapping

from agentv.telemetry.otlp.platforms import platform_export
from agentv.telemetry.otlp.values import first, whole_number
from agentv.types.json_value import JsonObject, JsonValue, object_of, objects_of

_OF_TEMPO = "batches"
_SCOPES = ("scopeSpans", "instrumentationLibrarySpans")
_WRAPPERS = ("result", "trace")
"""The keys around an export in the answers of Jaeger's API v3, and of Tempo's API v2."""
_EXPORT = "resourceSpans"
_NS_PER_US = 1000


def as_export(value: object) -> JsonObject | None:
    """Return a trace, or a span, of Jaeger or Tempo as an OTLP export; None for any other value."""
    if not isinstance(value, Mapping):
        return None
    exported = platform_export(value)
    if exported is not None:
        return exported
    inner = next((found for key in _WRAPPERS if isinstance(found := value.get(key), Mapping)), value)
    batches = inner.get(_OF_TEMPO)
    if isinstance(batches, list) and any(_has_scopes(each) for each in batches):
        return {_EXPORT: batches}
    if inner is not value:
        return {_EXPORT: inner[_EXPORT]} if isinstance(inner.get(_EXPORT), list) else None
    if _is_jaeger_span(value):
        return {_EXPORT: [_resource(value, {})]}
    spans = value.get("spans")
    if not isinstance(spans, list) or not spans or not all(map(_is_jaeger_span, spans)):
        return None
    processes = object_of(value.get("processes"))
    return {_EXPORT: [_resource(span, processes) for span in objects_of(spans)]}


def _has_scopes(batch: JsonValue) -> bool:
    return isinstance(batch, Mapping) and any(isinstance(batch.get(key), list) for key in _SCOPES)


def _is_jaeger_span(value: JsonValue) -> bool:
    return isinstance(value, Mapping) and {"traceID", "spanID", "operationName"} <= value.keys()


def _resource(span: JsonObject, processes: JsonObject) -> JsonObject:
    """Return a span of Jaeger with its process and its instrumentation around it."""
    process = object_of(processes.get(str(span.get("processID")))) or object_of(span.get("process"))
    tags = _values(span.get("tags"))
    scope = first(tags, "otel.scope.name", "otel.library.name")
    return {
        "resource": {"attributes": {"service.name": process.get("serviceName"), **_values(process.get("tags"))}},
        "scopeSpans": [{"scope": {"name": scope}, "spans": [_span(span, tags)]}],
    }


def _span(span: JsonObject, tags: JsonObject) -> JsonObject:
    start_us, duration_us = whole_number(span.get("startTime")) or 0, whole_number(span.get("duration")) or 0
    has_failed = str(tags.get("otel.status_code")).upper() == "ERROR" or tags.get("error") in (True, "true")
    status = {"code": "ERROR", "message": tags.get("otel.status_description")} if has_failed else {}
    return {
        "traceId": span["traceID"],
        "spanId": span["spanID"],
        "parentSpanId": _parent(span),
        "name": span["operationName"],
        "kind": tags.get("span.kind"),
        "startTimeUnixNano": start_us * _NS_PER_US,
        "endTimeUnixNano": (start_us + duration_us) * _NS_PER_US,
        "attributes": {key: value for key, value in tags.items() if key not in _OF_SPAN},
        "events": [*_events(span)],
        "status": status,
    }


_OF_SPAN = frozenset(
    {
        *("span.kind", "internal.span.format", "error", "otel.status_code", "otel.status_description"),
        *("otel.scope.name", "otel.scope.version", "otel.library.name", "otel.library.version"),
    }
)
"""Tags that are parts of a span in OTLP, and no attributes."""


def _parent(span: JsonObject) -> JsonValue:
    parents = (
        each.get("spanID")
        for each in objects_of(span.get("references"))
        if each.get("refType") == "CHILD_OF" and each.get("traceID") == span["traceID"]
    )
    return next(parents, span.get("parentSpanID"))


def _events(span: JsonObject) -> Iterator[JsonObject]:
    for log in objects_of(span.get("logs")):
        fields = _values(log.get("fields"))
        yield {"name": fields.get("event"), "attributes": {key: fields[key] for key in fields if key != "event"}}


def _values(tags: JsonValue) -> JsonObject:
    return {str(tag.get("key")): tag.get("value") for tag in objects_of(tags)}
