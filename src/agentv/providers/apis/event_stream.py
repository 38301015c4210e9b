"""Server-sent events, read from the bytes of a response as they come (WHATWG HTML, 9.2). Performs no I/O."""

import re
from collections.abc import Iterator

from msgspec import Struct

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure

MAX_EVENT_BYTES = 10 * 2**20
_LINE_END = re.compile(rb"\r\n|\n|\r")
_MAX_STRAYS = 10_000
_FIELDS = (b"data:", b"event:", b"id:", b"retry:")
_SKIPPED = (b"", b"id", b"retry")
_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True, gc=False):
    """One event: its name, "" for none, and its data, the lines of which are joined by newlines."""

    name: str
    data: str


class EventReader:
    """Reads events from chunks of bytes, which may end anywhere, also within a character or a line end.

    Comments, `id` and `retry` are skipped, and so are events without data. No more than `max_bytes` of a line or an
    event are held. `strays` are the lines that belong to no event, as those of an error page, up to 10,000 bytes.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._name = b""
        self._size = 0
        self.strays = b""
        self._after_return = False
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end in this chunk. Raises ProviderError for an event that is too large or no UTF-8."""
        if not chunk:
            return
        if self._after_return and chunk.startswith(b"\n"):  # the second half of a line end that is already counted
            chunk = chunk[1:]
        self._after_return = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            event = self._read(self._whole(line))
            if event is not None:
                yield event
        self._line += rest
        self._check_size(len(self._line))

    def end(self) -> ServerEvent | None:
        """Return the event that the end of the response closes, if any: some servers leave out the last line end."""
        line = self._whole(b"")
        if not any(field.startswith(line) for field in _FIELDS):  # else it is a line that was cut within its name
            self._read(line)
        return self._dispatch()

    @property
    def is_within_event(self) -> bool:
        """True if the bytes so far end within an event or a line."""
        return bool(self._line or self._data or self._name)

    def _whole(self, line: bytes) -> bytes:
        if self._line:
            line = bytes(self._line) + line
            self._line.clear()
        if self._is_first:
            self._is_first = False
            line = line.removeprefix(_BOM)
        return line

    def _read(self, line: bytes) -> ServerEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._check_size(len(value))
            self._size += len(value) + 1
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif name not in _SKIPPED and len(self.strays) < _MAX_STRAYS:
            self.strays += line[:_MAX_STRAYS] + b"\n"
        return None

    def _dispatch(self) -> ServerEvent | None:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name, self._size = [], b"", 0
        if not data:
            return None
        try:
            return ServerEvent(name.decode(), data.decode())
        except UnicodeDecodeError as error:
            message = f"an event of the stream is not UTF-8 (first invalid byte at offset {error.start})"
            raise ProviderError(Failure("malformed_reply", message)) from None

    def _check_size(self, more: int) -> None:
        if self._size + more > self._max_bytes:
            message = f"an event of the stream is larger than {self._max_bytes / 2**20:g} MiB; the answer was discarded"
            raise ProviderError(Failure("too_large", message))
