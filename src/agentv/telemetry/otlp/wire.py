"""The wire format of OTLP: protocol buffers of traces and logs, decoded to what OTLP writes in JSON.

Field numbers are those of opentelemetry-proto 1.x, which never change. Fields that are not listed are skipped.
"""

import struct
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Literal, NamedTuple, TypeAlias

from agentv.types.json_value import JsonValue


class WireError(ValueError):
    """Bytes that are not an OTLP message."""


class LargeExportError(WireError):
    """An export with more parts than may be decoded."""


class _Field(NamedTuple):
    name: str
    kind: str
    """`text`, `hex`, `bytes`, `int`, `bool`, `double`, `fixed`, `fixed32`, or the name of a message."""
    is_repeated: bool = False


_ATTRIBUTES = _Field("attributes", "KeyValue", is_repeated=True)
_TRACE_ID, _SPAN_ID = _Field("traceId", "hex"), _Field("spanId", "hex")
_MESSAGES: Final[dict[str, dict[int, _Field]]] = {
    "traces": {1: _Field("resourceSpans", "ResourceSpans", is_repeated=True)},
    "logs": {1: _Field("resourceLogs", "ResourceLogs", is_repeated=True)},
    "ResourceSpans": {1: _Field("resource", "Resource"), 2: _Field("scopeSpans", "ScopeSpans", is_repeated=True)},
    "ResourceLogs": {1: _Field("resource", "Resource"), 2: _Field("scopeLogs", "ScopeLogs", is_repeated=True)},
    "Resource": {1: _ATTRIBUTES},
    "ScopeSpans": {1: _Field("scope", "Scope"), 2: _Field("spans", "Span", is_repeated=True)},
    "ScopeLogs": {1: _Field("scope", "Scope"), 2: _Field("logRecords", "LogRecord", is_repeated=True)},
    "Scope": {1: _Field("name", "text"), 2: _Field("version", "text")},
    "Span": {
        1: _TRACE_ID,
        2: _SPAN_ID,
        4: _Field("parentSpanId", "hex"),
        5: _Field("name", "text"),
        6: _Field("kind", "int"),
        7: _Field("startTimeUnixNano", "fixed"),
        8: _Field("endTimeUnixNano", "fixed"),
        9: _ATTRIBUTES,
        11: _Field("events", "Event", is_repeated=True),
        15: _Field("status", "Status"),
        16: _Field("flags", "fixed32"),
    },
    "Event": {1: _Field("timeUnixNano", "fixed"), 2: _Field("name", "text"), 3: _ATTRIBUTES},
    "Status": {2: _Field("message", "text"), 3: _Field("code", "int")},
    "LogRecord": {
        1: _Field("timeUnixNano", "fixed"),
        5: _Field("body", "AnyValue"),
        6: _ATTRIBUTES,
        9: _TRACE_ID,
        10: _SPAN_ID,
        11: _Field("observedTimeUnixNano", "fixed"),
        12: _Field("eventName", "text"),
    },
    "KeyValue": {1: _Field("key", "text"), 2: _Field("value", "AnyValue")},
    "AnyValue": {
        1: _Field("stringValue", "text"),
        2: _Field("boolValue", "bool"),
        3: _Field("intValue", "int"),
        4: _Field("doubleValue", "double"),
        5: _Field("arrayValue", "ArrayValue"),
        6: _Field("kvlistValue", "KeyValueList"),
        7: _Field("bytesValue", "bytes"),
    },
    "ArrayValue": {1: _Field("values", "AnyValue", is_repeated=True)},
    "KeyValueList": {1: _Field("values", "KeyValue", is_repeated=True)},
}
_VARINT, _FIXED64, _BYTES, _GROUP, _END_OF_GROUP, _FIXED32 = range(6)
_WIRE_TYPES = {"int": _VARINT, "bool": _VARINT, "fixed": _FIXED64, "double": _FIXED64, "fixed32": _FIXED32}
"""The wire type of each kind; texts, bytes and messages are `_BYTES`."""
_FIELDS: Final = {
    name: {(number, _WIRE_TYPES.get(field.kind, _BYTES)): field for number, field in fields.items()}
    for name, fields in _MESSAGES.items()
}
"""The fields of each message by number and wire type; a field of another wire type is skipped."""
_MAX_DEPTH = 100
_MOST_PARTS = 500_000
_ANY_NUMBER = 2**63
_BYTES_PER_PART = 64
_MAX_VARINT_SHIFT = 63
_LOW_BITS = 0x7F
_LARGEST_FIELD = 2**29
_KEY, _VALUE, _STRING = 0x0A, 0x12, 0x0A
"""The tags of a key, of its value, and of a text as the value."""
_LEVELS_OF_TEXT = 2
_LEAST_TEXT_BYTES = 6
_SIGN = 2**63
_Raw: TypeAlias = int | bytes


def decode_export(data: bytes, signal: Literal["traces", "logs"]) -> dict[str, JsonValue]:
    """Return an export of spans or of log records as OTLP's JSON. Raises WireError.

    An export of more than half a million parts, such as attributes, is refused: it would take far more memory than its
    bytes.
    """
    return _Decoder(_MOST_PARTS).message(data, signal, _MAX_DEPTH)


def decode_traces(data: bytes) -> dict[str, JsonValue]:
    """Return an export of spans, or of logs if it holds log records, as OTLP's JSON. Raises WireError."""
    # Both kinds of exports have the same outer fields; only their innermost messages tell them apart.
    try:
        export = _Decoder(_ANY_NUMBER).message(data, "traces", _MAX_DEPTH)
        is_read = not export or any(
            span.get("traceId") for span in _inner(export, "resourceSpans", "scopeSpans", "spans")
        )
    except WireError:
        logs = _Decoder(_ANY_NUMBER).message(data, "logs", _MAX_DEPTH)
        if any(True for _ in _inner(logs, "resourceLogs", "scopeLogs", "logRecords")):
            return logs
        raise
    if is_read:
        return export
    with suppress(WireError):
        logs = _Decoder(_ANY_NUMBER).message(data, "logs", _MAX_DEPTH)
        if any(True for _ in _inner(logs, "resourceLogs", "scopeLogs", "logRecords")):
            return logs
    return export


def _inner(value: JsonValue, *names: str) -> Iterator[dict[str, JsonValue]]:
    """Yield the objects of lists in lists, under these names."""
    listed = value.get(names[0]) if isinstance(value, dict) else None
    for each in listed if isinstance(listed, list) else ():
        if len(names) > 1:
            yield from _inner(each, *names[1:])
        elif isinstance(each, dict):
            yield each


class _Decoder:
    def __init__(self, most_parts: int) -> None:
        self._left = most_parts

    def message(self, data: bytes, name: str, depth: int) -> dict[str, JsonValue]:
        """Return a message as JSON. Raises WireError."""
        self._left -= 1
        if self._left < 0:
            raise LargeExportError("the export has too many parts; send smaller batches")
        if not depth:
            raise WireError("values are nested too deeply")
        fields, made, parts = _FIELDS[name], dict[str, JsonValue](), dict[str, bytes]()
        for number, wire_type, raw in _raw_fields(data):
            field = fields.get((number, wire_type))
            if field is None:
                continue
            if name == "AnyValue" and field.name not in made:  # of a oneof, only the last member counts
                made.clear()
                parts.clear()
            if field.kind in _MESSAGES and not field.is_repeated:
                before = parts.get(field.name, b"")
                self._left -= len(before) // _BYTES_PER_PART  # several of one message are merged, and read again
                parts[field.name] = before + _bytes(raw)
                made[field.name] = self.message(parts[field.name], field.kind, depth - 1)
                continue
            value = self._value(raw, field.kind, depth)
            if field.is_repeated:
                made.setdefault(field.name, []).append(value)  # type: ignore[union-attr] # a list, because only this line sets it
            else:
                made[field.name] = value
        return made

    def _value(self, raw: _Raw, kind: str, depth: int) -> JsonValue:
        if type(raw) is bytes and kind in _MESSAGES:
            text = _text_attribute(raw) if kind == "KeyValue" and depth > _LEVELS_OF_TEXT else None
            self._left -= text is not None
            return text or self.message(raw, kind, depth - 1)
        if isinstance(raw, int):
            if kind == "bool":
                return bool(raw)
            return raw - 2 * _SIGN if kind == "int" and raw >= _SIGN else raw
        match kind:
            case "text":
                try:
                    return raw.decode()
                except UnicodeDecodeError:
                    raise WireError("a text is not UTF-8") from None
            case "hex":
                return raw.hex()
            case "bytes":
                return b64encode(raw).decode()
            case "fixed" | "fixed32":
                return int.from_bytes(raw, "little")
            case _:
                return float(struct.unpack("<d", raw)[0])


def _text_attribute(data: bytes) -> JsonValue:
    """Return an attribute in the form of most: a short key, then a text, and nothing else; None for any other.

    `_Decoder` reads it, too, but takes six times as long: a third of the time for a trace (bench/traces.py).
    """
    size = len(data)
    if size < _LEAST_TEXT_BYTES or data[0] != _KEY or data[1] > _LOW_BITS:
        return None
    at = 2 + data[1]
    if at + 4 > size or data[at] != _VALUE:
        return None
    length, start = _varint(data, at + 1)
    if start + length != size or start + 2 > size or data[start] != _STRING:
        return None
    length, begin = _varint(data, start + 1)
    if begin + length != size:
        return None
    try:
        return {"key": data[2:at].decode(), "value": {"stringValue": data[begin:].decode()}}
    except UnicodeDecodeError:
        raise WireError("a text is not UTF-8") from None


def _bytes(raw: _Raw) -> bytes:
    return raw if isinstance(raw, bytes) else b""


def _raw_fields(data: bytes) -> Iterator[tuple[int, int, _Raw]]:
    """Yield the number, the wire type and the value of each field. Raises WireError."""
    at, end = 0, len(data)
    while at < end:
        tag = data[at]  # nearly always one byte: bench/otlp.py
        tag, at = (tag, at + 1) if tag <= _LOW_BITS else _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < _LARGEST_FIELD:
            raise WireError(f"{number} is not the number of a field")
        if wire_type == _VARINT:
            value, at = _varint(data, at)
            yield number, wire_type, value
            continue
        if wire_type == _BYTES:
            size = data[at] if at < end else _LOW_BITS + 1
            size, at = (size, at + 1) if size <= _LOW_BITS else _varint(data, at)
        elif wire_type in (_FIXED64, _FIXED32):
            size = 8 if wire_type == _FIXED64 else 4
        elif wire_type == _GROUP:
            at = _after_group(data, at, number, _MAX_DEPTH)
            continue
        else:
            raise WireError(f"wire type {wire_type} is not expected here")
        if size > end - at:
            raise WireError("the message is truncated")
        yield number, wire_type, data[at : at + size]
        at += size


def _after_group(data: bytes, at: int, group: int, depth: int) -> int:
    """Return the place after a group, an old form of a message that no field of OTLP has. Raises WireError."""
    if not depth:
        raise WireError("values are nested too deeply")
    while True:
        tag, at = _varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < _LARGEST_FIELD:
            raise WireError(f"{number} is not the number of a field")
        if wire_type == _END_OF_GROUP and number == group:
            return at
        if wire_type == _GROUP:
            at = _after_group(data, at, number, depth - 1)
        elif wire_type == _VARINT:
            _, at = _varint(data, at)
        elif wire_type == _BYTES:
            size, at = _varint(data, at)
            at += size
        elif wire_type in (_FIXED64, _FIXED32):
            at += 8 if wire_type == _FIXED64 else 4
        else:
            raise WireError(f"wire type {wire_type} is not expected here")
        if at > len(data):
            raise WireError("the message is truncated")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift <= _MAX_VARINT_SHIFT:
        byte = data[at]
        at += 1
        value |= (byte & _LOW_BITS) << shift
        if byte <= _LOW_BITS:
            return value & (2 * _SIGN - 1), at
        shift += 7
    raise WireError("the message is truncated" if at >= len(data) else "a number is too long")
