"""The spans of open traces: in memory up to 64 MB, then in a temporary file."""

from array import array
from collections.abc import Iterator
from tempfile import SpooledTemporaryFile
from typing import IO

import msgspec

from agentv.telemetry.spans import Span

_MEMORY_BYTES = 64 * 2**20


class SpanShelf:
    """Spans by trace, encoded."""

    def __init__(self) -> None:
        self._opened: IO[bytes] | None = None
        self._end = 0
        self._places: dict[str, array[int]] = {}
        """Start and length of each span of a trace."""
        self._times: dict[str, tuple[int, int]] = {}
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Span)

    @property
    def _file(self) -> IO[bytes]:
        if self._opened is None:
            self._opened = SpooledTemporaryFile(max_size=_MEMORY_BYTES)  # noqa: SIM115 - closed by `close`
        return self._opened

    def add(self, span: Span) -> None:
        """Add a span."""
        data = self._encode(span)
        self._file.seek(self._end)
        self._file.write(data)
        self._places.setdefault(span.trace_id, array("Q")).extend((self._end, len(data)))
        self._end += len(data)
        start, end = self._times.get(span.trace_id, (span.start_ns, span.end_ns))
        self._times[span.trace_id] = min(start, span.start_ns), max(end, span.end_ns)

    def _encode(self, span: Span) -> bytes:
        try:
            return self._encoder.encode(span)
        except (OverflowError, UnicodeEncodeError):
            return self._encoder.encode(_encodable(msgspec.to_builtins(span)))

    def ended_before(self, moment_ns: int) -> list[str]:
        """Return the traces whose last span ended before a moment, in order of their start."""
        ended = [trace for trace, (_, end) in self._times.items() if end < moment_ns]
        return sorted(ended, key=lambda trace: (self._times[trace][0], trace))

    def all(self) -> list[str]:
        """Return all traces, in order of their start."""
        return sorted(self._times, key=lambda trace: (self._times[trace][0], trace))

    def take(self, trace_id: str) -> Iterator[Span]:
        """Yield the spans of a trace, which is then forgotten."""
        places = self._places.pop(trace_id)
        del self._times[trace_id]
        for place in range(0, len(places), 2):
            self._file.seek(places[place])
            yield self._decoder.decode(self._file.read(places[place + 1]))
        if not self._places:
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def close(self) -> None:
        """Delete the file."""
        if self._opened is not None:
            self._opened.close()


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
