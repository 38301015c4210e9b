"""The spans of open traces: in memory up to 16 MB, then in a temporary file."""

from array import array
from collections.abc import Iterable, Iterator
from tempfile import SpooledTemporaryFile

import msgspec
from msgspec import Struct, field

from agentv.telemetry.otlp.spans import Span

_MEMORY_BYTES = 16 * 2**20
_UNUSED_BYTES = 16 * 2**20


_UNTRACED = "without a trace: "


def key_of(span: Span) -> str:
    """Return the trace that a span is kept with; a log record without one has a trace of its own."""
    return span.trace_id or (f"{_UNTRACED}{span.span_id}" if span.is_log else "")


def is_untraced(trace_id: str) -> bool:
    """Return True for log records without a trace."""
    return not trace_id or trace_id.startswith(_UNTRACED)


class _Shelved(Struct):
    """The spans of one trace."""

    start_ns: int
    end_ns: int
    size: int = 0
    places: "array[int]" = field(default_factory=lambda: array("Q"))
    """Start and length of each span."""


class SpanShelf:
    """Spans by trace, encoded: above `memory_bytes` in a temporary file.

    The file is written anew if more than half of it, and more than `unused_bytes`, belongs to traces that were dropped.
    """

    def __init__(self, *, memory_bytes: int = _MEMORY_BYTES, unused_bytes: int = _UNUSED_BYTES) -> None:
        self._memory_bytes, self._unused_bytes = memory_bytes, unused_bytes
        self.size = 0
        """The bytes of all spans."""
        self._opened: SpooledTemporaryFile[bytes] | None = None
        self._end = 0
        self._traces: dict[str, _Shelved] = {}
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Span)

    @property
    def _file(self) -> "SpooledTemporaryFile[bytes]":
        if self._opened is None:
            self._opened = SpooledTemporaryFile(max_size=self._memory_bytes)  # noqa: SIM115 - closed by `close`
        return self._opened

    def add(self, span: Span) -> None:
        """Add a span."""
        trace_id = key_of(span)
        trace = self._traces.get(trace_id)
        if trace is None:
            trace = self._traces[trace_id] = _Shelved(span.start_ns, span.end_ns)
        trace.start_ns, trace.end_ns = min(trace.start_ns, span.start_ns), max(trace.end_ns, span.end_ns)
        self._write(trace, self._encode(span))

    def _write(self, trace: _Shelved, data: bytes) -> None:
        self._file.seek(self._end)
        self._file.write(data)
        trace.places.extend((self._end, len(data)))
        trace.size += len(data)
        self.size += len(data)
        self._end += len(data)

    @property
    def file_size(self) -> int:
        """The bytes of the file, with those of traces that were dropped."""
        return self._end

    def size_of(self, trace_id: str) -> int:
        """Return the bytes of the spans of a trace."""
        return self._traces[trace_id].size

    def _encode(self, span: Span) -> bytes:
        try:
            return self._encoder.encode(span)
        except (OverflowError, UnicodeEncodeError):
            return self._encoder.encode(_encodable(msgspec.to_builtins(span)))

    def ended_before(self, moment_ns: int) -> list[str]:
        """Return the traces whose last span ended before a moment, in order of their start."""
        return self._ordered(trace_id for trace_id, trace in self._traces.items() if trace.end_ns < moment_ns)

    def all(self) -> list[str]:
        """Return all traces, in order of their start."""
        return self._ordered(self._traces)

    def _ordered(self, traces: Iterable[str]) -> list[str]:
        """Return traces in order of their start; log records without a trace come last."""
        return sorted(traces, key=lambda trace_id: (is_untraced(trace_id), self._traces[trace_id].start_ns, trace_id))

    def spans(self, trace_id: str) -> Iterator[Span]:
        """Return the spans of a trace."""
        return map(self._decoder.decode, _read(self._file, self._traces[trace_id].places))

    def drop(self, trace_id: str) -> None:
        """Forget a trace."""
        self.size -= self._traces.pop(trace_id).size
        if not self._traces:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0
        elif self._end > 2 * self.size + self._unused_bytes:
            self._write_anew()

    def _write_anew(self) -> None:
        """Write the file without the spans that were dropped, which would fill the disk in the course of time."""
        before, self._opened = self._file, None
        if self.size > self._memory_bytes:
            self._file.rollover()
        self._end = self.size = 0
        for trace in self._traces.values():
            places, trace.places, trace.size = trace.places, array("Q"), 0
            for data in _read(before, places):
                self._write(trace, data)
        before.close()

    def close(self) -> None:
        """Delete the file."""
        if self._opened is not None:
            self._opened.close()


def _read(file: "SpooledTemporaryFile[bytes]", places: "array[int]") -> Iterator[bytes]:
    for place in range(0, len(places), 2):
        file.seek(places[place])
        yield file.read(places[place + 1])


_LARGEST = 2**63
_MOST = 10**308
"""Of a larger integer, a float cannot be made."""


def _encodable(value: object) -> object:
    """Return a value with floats for integers of more than 64 bits, and question marks for lone surrogates."""
    match value:
        case bool():
            return value
        case int():
            return value if -_LARGEST <= value < _LARGEST else float(min(max(value, -_MOST), _MOST))
        case str():
            return value.encode(errors="replace").decode()
        case dict():
            return {_encodable(key): _encodable(item) for key, item in value.items()}
        case list() | tuple():
            return [_encodable(item) for item in value]
        case _:
            return value
