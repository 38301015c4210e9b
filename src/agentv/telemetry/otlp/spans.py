"""Spans and log events of OpenTelemetry, from OTLP exports, the SDK's own JSON, and rows of Phoenix."""

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Final, cast

from msgspec import Struct

from agentv.messages.logs.fields import logged_moment
from agentv.telemetry.otlp.backends import as_export
from agentv.telemetry.otlp.values import first
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject, JsonValue, object_of
from agentv.types.messages_json import compact_json


class SpanEvent(Struct, frozen=True, array_like=True):
    """A named event in a span, or a log record of the span."""

    name: str
    attributes: JsonObject
    body: JsonValue = None


class Span(Struct, frozen=True, array_like=True, kw_only=True):
    """One span with decoded attributes."""

    trace_id: str
    span_id: str
    parent_id: str = ""
    """Empty for a root."""
    name: str = ""
    kind: str = ""
    """`SERVER`, `CLIENT`, `CONSUMER` and others; empty if it is not known."""
    start_ns: int = 0
    end_ns: int = 0
    attributes: JsonObject = {}
    events: tuple[SpanEvent, ...] = ()
    error: str | None = None
    """The message of a failed span."""
    service: str = ""
    scope: str = ""
    """The name of the instrumentation."""
    file: str = ""
    line: int = 0
    file_number: int = 0
    is_parent_remote: bool | None = None
    """True if the parent is a span of another process; None if that is not known."""
    is_log: bool = False
    """True if it stands for a log record, its only event, until it is merged into the span that the record names."""

    @property
    def exception(self) -> str | None:
        """The message of the last recorded exception, which may have been handled; None without one."""
        return _exception(self.events)

    @property
    def key(self) -> tuple[str, str]:
        """The ids, which are the same in every copy of the span."""
        return self.trace_id, self.span_id


def is_placeholder(span: Span) -> bool:
    """Return True for what Logfire sends when a span starts, as a child of it."""
    return span.attributes.get("logfire.span_type") == "pending_span"


TRACE_KEYS: Final = ("resourceSpans", "resource_spans")
LOG_KEYS: Final = ("resourceLogs", "resource_logs")
_SCOPE_KEYS = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_LOG_SCOPE_KEYS = ("scopeLogs", "scope_logs", "instrumentationLibraryLogs")
_KINDS = ("", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER")
_ERROR_CODES = ("2", "ERROR", "STATUS_CODE_ERROR")
_COLUMN_PREFIX = "attributes."
_HAS_IS_REMOTE, _IS_REMOTE = 0x100, 0x200  # SpanFlags


def is_export(value: object) -> bool:
    """Return True for an export of spans or logs: the body of an OTLP request in JSON."""
    return isinstance(value, Mapping) and any(isinstance(value.get(key), list) for key in (*TRACE_KEYS, *LOG_KEYS))


def is_single_span(value: object) -> bool:
    """Return True for a span in the SDK's JSON, a span of Phoenix, or a row of its data frame."""
    if not isinstance(value, Mapping):
        return False
    context = value.get("context")
    is_span = isinstance(context, Mapping) and "span_id" in context and isinstance(value.get("attributes"), Mapping)
    return is_span or ("span_kind" in value and any(str(key).startswith(_COLUMN_PREFIX) for key in value))


def is_trace(value: object) -> bool:
    """Return True for a JSON value that has spans or log events: an export, a single span, a page of spans, a trace."""
    return is_export(value) or is_single_span(value) or bool(_page(value)) or as_export(value) is not None


def _page(value: object) -> list[JsonObject]:
    """Return the spans of a page that an API returned; [] for any other value."""
    listed = value.get("data") if isinstance(value, Mapping) else None
    if not isinstance(listed, list) or not all(map(is_single_span, listed)):
        return []
    return listed


def spans_of(value: JsonObject) -> list[Span]:
    """Return the spans of a value that `is_trace`. Raises EvalFileError with the place of every wrong part."""
    if not is_export(value):
        export = as_export(value)
        return list(map(_single_span, _page(value) or [value])) if export is None else export_spans(export)
    return export_spans(value)


def export_spans(export: JsonObject) -> list[Span]:
    """Return the spans and log records of an export. Raises EvalFileError with the place of every wrong part."""
    problems = Problems("OTLP export")
    spans = [*_exported_spans(export, problems), *_exported_logs(export, problems)]
    problems.raise_any()
    return spans


def _exported_spans(export: JsonObject, problems: Problems) -> Iterator[Span]:
    for at_resource, resource in _parts(export, "$", TRACE_KEYS, problems):
        service = _service(resource)
        for at_scope, scope in _parts(resource, at_resource, _SCOPE_KEYS, problems):
            name = _scope_name(scope)
            for at, span in _parts(scope, at_scope, ("spans",), problems):
                events = tuple(
                    SpanEvent(_text(each.get("name")), attributes_of(each.get("attributes")))
                    for _, each in _parts(span, at, ("events",), problems)
                )
                if not _is_attributes(span.get("attributes")):
                    list(_parts(span, at, ("attributes",), problems))  # records the problems
                yield _span(span, events=events, service=service, scope=name)


def _exported_logs(export: JsonObject, problems: Problems) -> Iterator[Span]:
    for at_resource, resource in _parts(export, "$", LOG_KEYS, problems):
        service = _service(resource)
        for at_scope, scope in _parts(resource, at_resource, _LOG_SCOPE_KEYS, problems):
            for _, record in _parts(scope, at_scope, ("logRecords", "log_records"), problems):
                yield _log_event(record, service, _scope_name(scope))


def _log_event(record: JsonObject, service: str, scope: str) -> Span:
    attributes = attributes_of(record.get("attributes"))
    name = first(record, "eventName", "event_name") or attributes.get("event.name")
    event = SpanEvent(_text(name), attributes, any_value(record.get("body")))
    moment = nanoseconds(first(record, "timeUnixNano", "time_unix_nano"))
    moment = moment or nanoseconds(first(record, "observedTimeUnixNano", "observed_time_unix_nano"))
    return Span(
        trace_id=_id_of(first(record, "traceId", "trace_id")),
        span_id=_id_of(first(record, "spanId", "span_id")) or _own_id(record),
        start_ns=moment,
        end_ns=moment,
        events=(event,),
        service=service,
        scope=scope,
        is_log=True,
    )


def _span(value: JsonObject, *, events: tuple[SpanEvent, ...], service: str, scope: str) -> Span:
    status, attributes = value.get("status"), attributes_of(value.get("attributes"))
    return Span(
        trace_id=_id_of(first(value, "traceId", "trace_id")),
        span_id=_id_of(first(value, "spanId", "span_id")) or _own_id(value),
        parent_id=_parent(first(value, "parentSpanId", "parent_span_id")),
        name=_text(value.get("name")),
        kind=_kind(value.get("kind")),
        start_ns=nanoseconds(first(value, "startTimeUnixNano", "start_time_unix_nano")),
        end_ns=nanoseconds(first(value, "endTimeUnixNano", "end_time_unix_nano")),
        attributes=attributes,
        events=events,
        error=_error(object_of(status), events, attributes),
        service=service,
        scope=scope,
        is_parent_remote=_is_parent_remote(value.get("flags")),
    )


def _is_parent_remote(flags: JsonValue) -> bool | None:
    if not isinstance(flags, int) or not flags & _HAS_IS_REMOTE:
        return None
    return bool(flags & _IS_REMOTE)


def _single_span(value: JsonObject) -> Span:
    """Return a span in the SDK's JSON, or one of Phoenix, nested or as a row of a data frame."""
    context = object_of(value.get("context"))
    columns = {key.removeprefix(_COLUMN_PREFIX): item for key, item in value.items() if key.startswith(_COLUMN_PREFIX)}
    attributes = {**object_of(value.get("attributes")), **columns}
    if "span_kind" in value and value["span_kind"] and "openinference.span.kind" not in attributes:
        attributes["openinference.span.kind"] = value["span_kind"]
    status = object_of(value.get("status"))
    if not status:
        status = {"code": value.get("status_code"), "message": value.get("status_message")}
    resource = value.get("resource")
    listed = value.get("events")
    events = tuple(
        SpanEvent(_text(each.get("name")), attributes_of(each.get("attributes")))
        for each in (listed if isinstance(listed, list) else ())
        if isinstance(each, Mapping)
    )
    return Span(
        trace_id=_id_of(context.get("trace_id") or value.get("context.trace_id") or value.get("trace_id")),
        span_id=_id_of(context.get("span_id") or value.get("context.span_id") or value.get("id")) or _own_id(value),
        parent_id=_parent(value.get("parent_id")),
        name=_text(value.get("name")),
        kind=_kind(value.get("kind")),
        start_ns=nanoseconds(value.get("start_time")),
        end_ns=nanoseconds(value.get("end_time")),
        attributes=attributes,
        events=events,
        error=_error(status, events, attributes),
        service=_service({"resource": resource}) if isinstance(resource, Mapping) else "",
        scope="",
    )


def _own_id(value: JsonObject) -> str:
    """Return an id for a span without one, from its content, so that its copies have the same."""
    return blake2b(compact_json(cast(JsonValue, value)).encode(), digest_size=8).hexdigest()


def _parts(value: JsonObject, at: str, names: tuple[str, ...], problems: Problems) -> Iterator[tuple[str, JsonObject]]:
    """Yield the objects of the list under the first of these keys that has a value, each with its path.

    A value that is neither null nor a list of objects is recorded as a problem.
    """
    name = next((name for name in names if value.get(name) not in (None, "")), names[0])
    listed = value.get(name)
    if listed is not None and not isinstance(listed, list | tuple):
        problems.add(f"{at}.{name}", f"must be a list of objects, got {type(listed).__name__}")
        return
    for index, each in enumerate(listed or ()):
        if isinstance(each, dict):
            yield f"{at}.{name}[{index}]", each
        else:
            problems.add(f"{at}.{name}[{index}]", f"must be an object, got {type(each).__name__}")


def _service(resource: JsonObject) -> str:
    inner = resource.get("resource")
    attributes = attributes_of(inner.get("attributes")) if isinstance(inner, Mapping) else {}
    return _text(attributes.get("service.name"))


def _scope_name(scope: JsonObject) -> str:
    inner = first(scope, "scope", "instrumentationLibrary")
    return _text(inner.get("name")) if isinstance(inner, Mapping) else ""


def attributes_of(value: JsonValue) -> JsonObject:
    """Return attributes as an object: OTLP writes them as a list of keys and values."""
    if isinstance(value, dict):
        return value
    listed = value if isinstance(value, list | tuple) else ()
    return {str(each.get("key")): any_value(each.get("value")) for each in listed if isinstance(each, dict)}


def _is_attributes(value: JsonValue) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and {*map(type, value)} <= {dict})


_VALUE_NAMES = ("stringValue", "string_value", "boolValue", "bool_value", "doubleValue", "double_value")


def any_value(value: JsonValue) -> JsonValue:
    """Return an AnyValue of OTLP as JSON."""
    if not isinstance(value, dict):
        return value
    fields: JsonObject = value
    for name, item in fields.items():
        if name in _VALUE_NAMES:  # most values
            return item
        match name:
            case "intValue" | "int_value":
                return int(item) if isinstance(item, str) and _is_integer(item) else item
            case "bytesValue" | "bytes_value":
                return _text_of_bytes(item)
            case "arrayValue" | "array_value":
                values = item.get("values") if isinstance(item, dict) else None
                return [any_value(each) for each in (values if isinstance(values, list) else ())]
            case "kvlistValue" | "kvlist_value":
                return attributes_of(item.get("values") if isinstance(item, dict) else None)
            case _:
                return fields if len(fields) > 1 else item
    return None


def _text_of_bytes(value: JsonValue) -> JsonValue:
    """Return the text in bytes as base64, which LangSmith sends; other bytes as they are."""
    try:
        return b64decode(value, validate=True).decode() if isinstance(value, str) else value
    except ValueError:
        return value


_MOST_DIGITS = 20


def _is_integer(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""


def _id_of(value: JsonValue) -> str:
    """Return the id of a span or a trace, without the 0x that only the SDK writes before it.

    Tempo, and programs that let protocol buffers write the JSON, have ids in Base64.
    """
    text = _text(value)
    if text.endswith("=") and len(text) in _BASE64_IDS:
        with suppress(ValueError):
            return b64decode(text, validate=True).hex()
    return text.removeprefix("0x")


_BASE64_IDS = (12, 24)
"""The lengths of ids of 8 and of 16 bytes in Base64."""


def _parent(value: JsonValue) -> str:
    """Return the id of a parent; some programs write zeros for none."""
    text = _id_of(value)
    return text if text.strip("0") else ""


def _kind(value: JsonValue) -> str:
    """Return the kind of a span, which programs write as a number or as a name."""
    if isinstance(value, int) and not isinstance(value, bool):
        return _KINDS[value] if 0 <= value < len(_KINDS) else ""
    return _text(value).upper().removeprefix("SPAN_KIND_").removeprefix("SPANKIND.")


def _error(status: JsonObject, events: Sequence[SpanEvent], attributes: JsonObject) -> str | None:
    """Return why a span failed, by its status, its last exception or its attributes; None if it did not."""
    if str(first(status, "code", "status_code")).upper() not in _ERROR_CODES:
        return None
    told = _reason(first(status, "message", "description")) or _exception(events)
    return told or _text(first(attributes, "error.message", "error", "error.type")) or "status ERROR"


def _exception(events: Sequence[SpanEvent]) -> str | None:
    raised = next((each.attributes for each in reversed(events) if each.name == "exception"), {})
    return _reason(raised.get("exception.message")) or _text(raised.get("exception.type")) or None


_STACK = "Traceback (most recent call last)"


def _reason(value: JsonValue) -> str:
    """Return the message of an error without the stack that some programs write after it, or instead of it."""
    text = _text(value).strip()
    before, found, after = text.partition(_STACK)
    return before.strip() or (after.strip().splitlines()[-1].strip() if found and after.strip() else "")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NS = 2**63 - 1


def nanoseconds(value: JsonValue) -> int:
    """Return a time in nanoseconds since 1970, 0 for a value that is not a time."""
    if isinstance(value, str) and _is_integer(value):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 10**17:
        return min(value, _MAX_NS)
    try:
        return (logged_moment(value) - _EPOCH) // timedelta(microseconds=1) * 1000
    except (ValueError, OverflowError):
        return 0
