"""OTLP requests for traces and logs, written from values of our own.

Field numbers: https://github.com/open-telemetry/opentelemetry-proto, release 1.9.
"""

from collections.abc import Iterable

from msgspec import Struct

from agentv.telemetry.otlp.wire_out import Attributes, attributes, fields, fixed64, integer, message, text

_INTERNAL = 1  # Span.SpanKind
_ERROR = 2  # Status.StatusCode
_INFO = 9  # SeverityNumber


class SpanOut(Struct, frozen=True, kw_only=True):
    """A span to send. Times are nanoseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes = b""
    """Empty for a root."""
    name: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    error: str | None = None
    """The message of the status `error`, which may be empty; None without an error."""


class LogOut(Struct, frozen=True, kw_only=True):
    """An event to send as a log record."""

    name: str
    time_ns: int
    trace_id: bytes
    span_id: bytes
    """The span that the event is about."""
    attributes: Attributes


class Source(Struct, frozen=True):
    """Who sends: OTLP's resource, and its instrumentation scope."""

    resource: Attributes
    scope: str
    version: str


def traces_request(source: Source, spans: Iterable[SpanOut]) -> bytes:
    """Return an ExportTraceServiceRequest."""
    return _request(source, b"".join(message(2, _span(each)) for each in spans))


def logs_request(source: Source, records: Iterable[LogOut]) -> bytes:
    """Return an ExportLogsServiceRequest."""
    return _request(source, b"".join(message(2, _log(each)) for each in records))


def _request(source: Source, records: bytes) -> bytes:
    scope = text(1, source.scope) + text(2, source.version)
    return message(1, message(1, attributes(1, source.resource)) + message(2, message(1, scope) + records))


def _span(span: SpanOut) -> bytes:
    parent = message(4, span.parent_id) if span.parent_id else b""
    status = b"" if span.error is None else message(15, text(2, span.error) + integer(3, _ERROR))
    return b"".join(
        (
            message(1, span.trace_id),
            message(2, span.span_id),
            parent,
            text(5, span.name),
            integer(6, _INTERNAL),
            fixed64(7, span.start_ns),
            fixed64(8, span.end_ns),
            attributes(9, span.attributes),
            status,
        )
    )


def _log(record: LogOut) -> bytes:
    return b"".join(
        (
            fixed64(1, record.time_ns),
            integer(2, _INFO),
            attributes(6, record.attributes),
            message(9, record.trace_id),
            message(10, record.span_id),
            fixed64(11, record.time_ns),
            text(12, record.name),
        )
    )


class Rejected(Struct, frozen=True):
    """The part of a request that a collector did not accept."""

    count: int
    message: str


def rejected_part(response: bytes) -> Rejected | None:
    """Return what a response to either request says of a partial success; None if everything was accepted."""
    try:
        partial = next((value for number, value in fields(response) if number == 1), b"")
        found = dict(fields(partial)) if isinstance(partial, bytes) else {}
    except ValueError:  # not protobuf, such as a page of a proxy: the status alone counts
        return None
    count, said = found.get(1, 0), found.get(2, b"")
    if not isinstance(count, int) or not isinstance(said, bytes) or not count:
        return None
    return Rejected(count, said.decode("utf-8", errors="replace"))
