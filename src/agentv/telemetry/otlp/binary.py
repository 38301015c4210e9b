"""Files of OTLP in protocol buffers: one export, or many, each after its length as the Collector writes them."""

from agentv.telemetry.otlp.spans import LOG_KEYS, TRACE_KEYS
from agentv.telemetry.otlp.wire import WireError, decode_traces
from agentv.types.json_value import JsonObject

FIRST_FIELD = b"\x0a"
"""The tag of the first field of an export. It is also a newline, with which a text file may begin, but no line."""
LENGTH_BYTES, FRAME_START = 4, b"\x00"
"""A length before an export: its size, and the first byte of any export of less than 16 MB."""
FRAME_START_BYTES = LENGTH_BYTES + 1
BINARY_SUFFIXES = (".pb", ".binpb", ".otlp")


def is_framed(start: bytes) -> bool:
    """Return True if a file that begins with these bytes has exports that each follow their length."""
    return start[:1] == FRAME_START and start[LENGTH_BYTES:FRAME_START_BYTES] == FIRST_FIELD


def looks_binary(start: bytes) -> bool:
    """Return True if a file that begins with these bytes may be one export in protocol buffers, and is no text."""
    return start[:1] == FIRST_FIELD and start.strip()[:1] not in (b"{", b"[", b"")


def read_export(data: bytes) -> JsonObject:
    """Return an export of spans or logs. Raises WireError for bytes that are not OTLP."""
    export = decode_traces(data)
    if not any(key in export for key in (*TRACE_KEYS, *LOG_KEYS)):
        raise WireError("the message has neither spans nor logs")
    return export
