"""Files of OTLP in protocol buffers: one export, or many, each after its length as the Collector writes them."""

from collections.abc import Iterator

from agentv.telemetry.spans import LOG_KEYS, TRACE_KEYS
from agentv.telemetry.wire import WireError, decode_traces
from agentv.types.json_value import JsonObject

_LENGTH_BYTES = 4
_FIRST_FIELD = b"\x0a"
"""The tag of the first field of an export. It is also a newline, with which a text file may begin."""
BINARY_SUFFIXES = (".pb", ".binpb", ".otlp")


def looks_binary(start: bytes) -> bool:
    """Return True if a file that begins with these bytes may be OTLP in protocol buffers, and is no text."""
    framed = start[_LENGTH_BYTES : _LENGTH_BYTES + 1] == _FIRST_FIELD and start[:1] == b"\x00"
    return framed or (start[:1] == _FIRST_FIELD and start.strip()[:1] not in (b"{", b"[", b""))


def decode_file(data: bytes) -> list[JsonObject]:
    """Return the exports in a file. Raises WireError for one that is not OTLP."""
    if data[:1] == b"\x00":
        return [_export(data[start:end]) for start, end in _frames(data)]
    return [_export(data)]


def _export(data: bytes) -> JsonObject:
    export = decode_traces(data)
    if not any(key in export for key in (*TRACE_KEYS, *LOG_KEYS)):
        raise WireError("the message has neither spans nor logs")
    return export


def _frames(data: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at < len(data):
        start = at + _LENGTH_BYTES
        end = start + int.from_bytes(data[at:start], "big")
        if end > len(data):
            raise WireError("the file is truncated")
        yield start, end
        at = end
