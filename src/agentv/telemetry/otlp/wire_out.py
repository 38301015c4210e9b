"""The protobuf wire format, as far as OTLP needs it: fields written, and the fields of a short message read.

https://protobuf.dev/programming-guides/encoding/
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from struct import pack
from typing import TypeAlias

AttributeValue: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = Mapping[str, AttributeValue]

_VARINT, _FIXED_64, _BYTES, _FIXED_32 = 0, 1, 2, 5
_LARGEST_BYTE = 0x7F
"""The largest last byte of a varint, which has seven bits a byte."""
_BYTE = [bytes((number,)) for number in range(_LARGEST_BYTE + 1)]
_LONGEST_REPEATED = 256
_FIXED_SIZES = {_FIXED_64: 8, _FIXED_32: 4}


def varint(number: int) -> bytes:
    """Return an integer of 64 bits as a varint; a negative one takes ten bytes."""
    if 0 <= number <= _LARGEST_BYTE:
        return _BYTE[number]
    number &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while number > _LARGEST_BYTE:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def integer(field: int, number: int) -> bytes:
    """Return a field with an integer, a boolean or an enumeration."""
    return varint(field << 3 | _VARINT) + varint(number)


def double(field: int, number: float) -> bytes:
    """Return a field with a double."""
    return varint(field << 3 | _FIXED_64) + pack("<d", number)


def fixed64(field: int, number: int) -> bytes:
    """Return a field with a fixed64, such as a time in nanoseconds since 1970."""
    return varint(field << 3 | _FIXED_64) + pack("<Q", number)


def message(field: int, encoded: bytes) -> bytes:
    """Return a field with an encoded message, or with bytes."""
    return varint(field << 3 | _BYTES) + varint(len(encoded)) + encoded


def text(field: int, value: str) -> bytes:
    """Return a field with a string; a lone surrogate becomes a question mark."""
    return message(field, value.encode("utf-8", errors="replace"))


def any_value(value: AttributeValue) -> bytes:
    """Return OTLP's AnyValue."""
    match value:
        case str():
            return text(1, value)
        case bool():
            return integer(2, value)
        case int():
            return integer(3, value)
        case float():
            return double(4, value)
        case _:
            return message(5, b"".join(message(1, text(1, each)) for each in value))


def attributes(field: int, values: Attributes) -> bytes:
    """Return repeated fields with OTLP's KeyValue."""
    return b"".join(message(field, _key_value(key, value)) for key, value in values.items())


@lru_cache(maxsize=4096, typed=True)  # most attributes repeat: it halves the time of a request (bench/otel.py)
def _short_key_value(key: str, value: AttributeValue) -> bytes:
    return text(1, key) + message(2, any_value(value))


def _key_value(key: str, value: AttributeValue) -> bytes:
    if isinstance(value, str) and len(value) > _LONGEST_REPEATED:
        return text(1, key) + message(2, any_value(value))
    return _short_key_value(key, value if isinstance(value, str | bool | int | float) else tuple(value))


def fields(encoded: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message. Raises ValueError for bytes that are none."""
    at = 0
    while at < len(encoded):
        tag, at = _read_varint(encoded, at)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, at = _read_varint(encoded, at)
            yield number, value
            continue
        if kind == _BYTES:
            size, at = _read_varint(encoded, at)
        elif kind in _FIXED_SIZES:
            size = _FIXED_SIZES[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(encoded):
            raise ValueError("a field is cut off")
        yield number, encoded[at : at + size]
        at += size


def _read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the index after it."""
    number = 0
    for index, byte in enumerate(encoded[at : at + 10]):
        number |= (byte & 0x7F) << 7 * index
        if byte <= _LARGEST_BYTE:
            return number, at + index + 1
    raise ValueError("a varint is cut off")
