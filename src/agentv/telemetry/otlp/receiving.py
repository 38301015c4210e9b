"""OTLP over HTTP as a receiver sees it: what a request is, the spans in its body, and the bodies of the responses.

https://opentelemetry.io/docs/specs/otlp/#otlphttp
"""

import json
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from agentv.telemetry.otlp.spans import Span, export_spans
from agentv.telemetry.otlp.wire import LargeExportError, WireError, decode_export
from agentv.telemetry.otlp.wire_out import integer, message, text
from agentv.types.errors import EvalFileError
from agentv.types.json_value import JsonObject

Signal: TypeAlias = Literal["traces", "logs", "metrics"]
Encoding: TypeAlias = Literal["protobuf", "json"]

CONTENT_TYPES: Final[Mapping[Encoding, str]] = {"protobuf": "application/x-protobuf", "json": "application/json"}
_SIGNALS: Final[tuple[Signal, ...]] = ("traces", "logs", "metrics")
_REJECTED: Final[Mapping[Signal, str]] = {
    "traces": "rejectedSpans",
    "logs": "rejectedLogRecords",
    "metrics": "rejectedDataPoints",
}
_CODES: Final[Mapping[int, int]] = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 408: 4, 413: 8, 415: 3, 503: 14}
"""The gRPC code of each HTTP status, for the message `Status`."""
_UNKNOWN = 2
_MOST_FAULTS = 3
_MOST_BRACKETS = 1_000_000
"""Objects and lists take far more memory than their bytes."""


class RefusedError(Exception):
    """A request that is not accepted, with its HTTP status."""

    def __init__(self, status: int, reason: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s
        """Set if the same request may be accepted later."""


class Export(Struct, frozen=True):
    """The spans and log records of a request that are accepted, and the number of those that are not."""

    spans: tuple[Span, ...] = ()
    rejected: int = 0
    reason: str = ""
    """Why some are rejected."""


def find_signal(path: str) -> tuple[str, Signal] | None:
    """Return what is before `/v1/SIGNAL` in a path, without slashes around it, and the signal; None for other paths."""
    for signal in _SIGNALS:
        prefix = path.rstrip("/").removesuffix(f"/v1/{signal}")
        if prefix != path.rstrip("/"):
            return prefix.strip("/"), signal
    return None


def find_encoding(content_type: str) -> Encoding | None:
    """Return the encoding that a Content-Type header names, None for one that OTLP does not have."""
    name = content_type.partition(";")[0].strip().lower()
    return next((encoding for encoding, known in CONTENT_TYPES.items() if name == known), None)


def read_export(signal: Signal, encoding: Encoding, body: bytes) -> Export:
    """Return the spans in the body of a request; metrics have none, and are not read. Raises RefusedError."""
    if signal == "metrics":
        return Export()
    try:
        spans = export_spans(_decode(signal, encoding, body))
    except EvalFileError as error:
        faults = [f"{problem.json_path} {problem.message}" for problem in error.problems[:_MOST_FAULTS]]
        raise RefusedError(400, f"not an OTLP export of {signal}: {'; '.join(faults)}") from None
    kept = tuple(span for span in spans if span.is_log or span.trace_id.strip("0"))
    rejected = len(spans) - len(kept)
    return Export(kept, rejected, "a span without a trace id belongs to no answer" if rejected else "")


def _decode(signal: Literal["traces", "logs"], encoding: Encoding, body: bytes) -> JsonObject:
    if encoding == "protobuf":
        try:
            return decode_export(body, signal)
        except LargeExportError as error:
            raise RefusedError(413, str(error)) from None
        except WireError as error:
            raise RefusedError(400, f"not an OTLP export of {signal} in protocol buffers: {error}") from None
    if body.count(b"{") + body.count(b"[") > _MOST_BRACKETS:
        raise RefusedError(413, "the export has too many parts; send smaller batches")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RefusedError(400, f"not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(400, f"not an OTLP export of {signal}: the body is not a JSON object")
    return value


def accepted_body(signal: Signal, encoding: Encoding, export: Export) -> bytes:
    """Return the body of the response to a request that was accepted, maybe only a part of it."""
    if encoding == "json":
        partial = {_REJECTED[signal]: str(export.rejected), "errorMessage": export.reason}
        return json.dumps({"partialSuccess": partial} if export.rejected else {}).encode()
    return message(1, integer(1, export.rejected) + text(2, export.reason)) if export.rejected else b""


def refused_body(encoding: Encoding, refused: RefusedError) -> bytes:
    """Return the body of the response to a request that was refused: a `Status`."""
    code = _CODES.get(refused.status, _UNKNOWN)
    if encoding == "json":
        return json.dumps({"code": code, "message": refused.reason}).encode()
    return integer(1, code) + text(2, refused.reason)
