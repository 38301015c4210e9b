"""Responses streamed as server-sent events (WHATWG HTML, 9.2), collected into the JSON of a plain response. Pure."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from msgspec import Struct

from agentv.providers.apis.http import kind_of_status, retry_delay_s, status_of_error
from agentv.providers.apis.responses import json_type, member, objects, text_or_none, wrong_shape
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import compact_json
from agentv.types.provider import ProviderError

MAX_EVENT_BYTES = 10 * 2**20
_LINE_END = re.compile(rb"\r\n|\n|\r")
_MAX_STRAY_BYTES = 10_000
_FIELD_STARTS = (b"data:", b"event:", b"id:", b"retry:")
_SKIPPED = (b"", b"id", b"retry")
_BOM = b"\xef\xbb\xbf"


class ServerEvent(Struct, frozen=True, gc=False):
    """One event: its name, "" for none, and its data, the lines of which are joined by newlines."""

    name: str
    data: str


class EventReader:
    """Reads events from chunks of bytes, which may end anywhere, even within a character or a line end.

    Comments, `id` and `retry` are skipped, and so are events without data. A line or an event may have at most
    `max_bytes`. `strays` are the lines that belong to no event, such as an error page; at most 20 kB are stored.
    """

    def __init__(self, max_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_bytes = max_bytes
        self._line = bytearray()
        self._data: list[bytes] = []
        self._name = b""
        self._event_bytes = 0
        self.strays = b""
        self._ended_with_return = False
        self._is_first = True

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events that end in this chunk. Raises ProviderError for an event that is too large or not UTF-8."""
        if not chunk:
            return
        if self._ended_with_return and chunk.startswith(b"\n"):  # of a \r\n whose \r ended the last line
            chunk = chunk[1:]
        self._ended_with_return = chunk.endswith(b"\r")
        *lines, rest = _LINE_END.split(chunk)
        for line in lines:
            event = self._read(self._complete_line(line))
            if event is not None:
                yield event
        self._line += rest
        self._check_size(len(self._line))

    def end(self) -> ServerEvent | None:
        """Return the event that the end of the response closes, if any: some servers leave out the last line end."""
        line = self._complete_line(b"")
        is_incomplete_field = any(start.startswith(line) for start in _FIELD_STARTS)
        if not is_incomplete_field:
            self._read(line)
        return self._dispatch()

    @property
    def is_within_event(self) -> bool:
        """True if the bytes so far end within an event or a line."""
        return bool(self._line or self._data or self._name)

    def _complete_line(self, line: bytes) -> bytes:
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
            self._event_bytes += len(value) + 1
            self._data.append(value)
        elif name == b"event":
            self._name = value
        elif name not in _SKIPPED and len(self.strays) < _MAX_STRAY_BYTES:
            self.strays += line[:_MAX_STRAY_BYTES] + b"\n"
        return None

    def _dispatch(self) -> ServerEvent | None:
        data, name = b"\n".join(self._data), self._name
        self._data, self._name, self._event_bytes = [], b"", 0
        if not data:
            return None
        try:
            return ServerEvent(name.decode(), data.decode())
        except UnicodeDecodeError as error:
            message = f"an event of the stream is not UTF-8 (first invalid byte at offset {error.start})"
            raise ProviderError(Failure("malformed_reply", message)) from None

    def _check_size(self, added_bytes: int) -> None:
        if self._event_bytes + added_bytes > self._max_bytes:
            message = f"an event of the stream is larger than {self._max_bytes / 2**20:g} MiB; the answer was discarded"
            raise ProviderError(Failure("too_large", message))


MAX_TEXT = 10 * 2**20
"""The maximum number of characters that a model may write in one response."""

_DONE = "[DONE]"
_EXCERPT = 500


class Collector(Protocol):
    """Collects the events of one API's stream. Performs no I/O."""

    @property
    def is_complete(self) -> bool:
        """True if the stream may end here, although more events may follow."""

    @property
    def is_over(self) -> bool:
        """True if no further event can follow."""

    def add(self, event: JsonObject) -> int | None:
        """Add an event and return how many characters of the answer it contains; None for an unknown event.

        Raises ProviderError for an event of a wrong shape.
        """

    def value(self) -> JsonObject:
        """Return the response so far, as the JSON of a response that is not streamed."""


class StreamedResponse:
    """Reads a stream of events into a collector. `now` is the clock, in seconds, of `first_token_at`."""

    def __init__(self, collector: Collector, *, now: Callable[[], float]) -> None:
        self.collector = collector
        self.first_token_at: float | None = None
        self._now = now
        self._reader = EventReader()
        self._events = 0
        self._has_known_event = False
        self._has_end_mark = False
        self._characters = 0
        self._first_unknown: JsonValue = None

    def so_far(self) -> JsonObject | None:
        """Return the JSON of the response so far; None if there was no event that the collector knows."""
        return self.collector.value() if self._has_known_event else None

    def first_token_ms(self, started_at: float) -> float | None:
        """Return the time from `started_at` to the first text, reasoning or argument; None if there was none."""
        return None if self.first_token_at is None else 1000 * (self.first_token_at - started_at)

    def feed(self, chunk: bytes) -> bool:
        """Read the next bytes of the response; return True if no further event can follow.

        Raises ProviderError for an error that the server reports, and for events that cannot be read.
        """
        for event in self._reader.feed(chunk):
            self._add(event, self._parse(event))
        return self._has_end_mark or self.collector.is_over

    def finish(self) -> JsonObject:
        """Return the JSON of the response, after the last byte. Raises ProviderError if it is not complete."""
        ends_within_event = self._reader.is_within_event
        if not (self._has_end_mark or self.collector.is_over):
            self._end()
        is_complete = self._has_end_mark or self.collector.is_complete
        strays = self._reader.strays.strip()
        if strays and not is_complete:
            raise _stray_error(strays)
        if not self._events and not ends_within_event:
            raise ProviderError(Failure("malformed_reply", "the response is empty: an event stream without an event"))
        if self._events and not self._has_known_event:
            raise wrong_shape("no event that is understood", self._first_unknown)
        if not is_complete:
            message = f"the event stream ended before the answer was complete (events: {self._events})"
            raise ProviderError(Failure("transport", message, retryable=True))
        return self.collector.value()

    def _end(self) -> None:
        """Add the event that the end of the response closes, unless the event is incomplete."""
        event = self._reader.end()
        if event is None:
            return
        try:
            value = self._parse(event)
        except ProviderError:
            return
        self._add(event, value)

    def _parse(self, event: ServerEvent) -> JsonObject | None:
        """Return the JSON object of an event; None for the mark that ends a stream."""
        if event.data.strip() == _DONE:
            return None
        number = self._events + 1
        try:
            value: JsonValue = json.loads(event.data)
        except (ValueError, RecursionError):
            message = f"event {number} of the stream is not JSON: {event.data[:_EXCERPT]!r}"
            raise ProviderError(Failure("malformed_reply", message)) from None
        if not isinstance(value, Mapping):
            raise wrong_shape(f"JSON {json_type(value)} instead of an object as event {number}", value)
        return value

    def _add(self, event: ServerEvent, value: JsonObject | None) -> None:
        self._events += 1
        if value is None:
            self._has_end_mark = True
            return
        error = value.get("error")
        if error and isinstance(error, Mapping | str):
            raise reported_error(error)
        if "error" in (event.name, value.get("type")):
            raise reported_error(value)
        characters = self.collector.add(value)
        if characters is None:
            self._first_unknown = value if self._first_unknown is None else self._first_unknown
            return
        self._has_known_event = True
        if characters and self.first_token_at is None:
            self.first_token_at = self._now()
        self._characters += characters
        if self._characters > MAX_TEXT:
            message = f"the answer is larger than {MAX_TEXT / 2**20:g} MiB; it was discarded"
            raise ProviderError(Failure("too_large", message))


def _stray_error(strays: bytes) -> ProviderError:
    """Return the error of a stream with lines that belong to no event: Google reports its errors there, as JSON."""
    try:
        error = member(json.loads(strays), "error")
    except (ValueError, RecursionError):
        error = None
    if error:
        return reported_error(error)
    begin = strays[:_EXCERPT].decode(errors="replace")
    return ProviderError(Failure("malformed_reply", f"the event stream has lines that belong to no event: {begin!r}"))


def reported_error(error: JsonValue) -> ProviderError:
    """Return the error that a server reports in an event; its kind depends on the status or code in the error."""
    fields: JsonObject = error if isinstance(error, Mapping) else {"message": error}
    kind = kind_of_status(status_of_error(fields), fields)
    reason = text_or_none(fields.get("message")) or compact_json(error)
    return ProviderError(
        Failure(
            kind,
            f"the server reported an error in the event stream: {reason[:_EXCERPT]}",
            retryable=kind in ("rate_limited", "server_error"),
            retry_after_s=retry_delay_s(fields),
            details={"body": compact_json(error)[:_EXCERPT]},
        )
    )


def text_in(value: JsonObject, name: str) -> str:
    """Return the text at a key, "" for null or none. Raises ProviderError for anything else."""
    text = value.get(name)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise wrong_shape(f"an event whose {name} is {json_type(text)}, not a string", value)
    return text


def items_of_first_answer(items: JsonValue) -> list[JsonObject]:
    """Return the items of the first of several answers: those with index 0 or without an index."""
    return [item for item in objects(items) if item.get("index") == 0 or not isinstance(item.get("index"), int)]
