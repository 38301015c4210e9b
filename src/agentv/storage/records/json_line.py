"""Encode records as lines of JSON and decode them; any object of a plug-in can be encoded.

Encoding never fails because of a value: what JSON or UTF-8 cannot represent is replaced, so that an unusual value in
one result does not end the run.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from numbers import Real
from typing import cast

import msgspec

from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.moments import to_utc

_MAX_LEVELS = 100
_MAX_CONTAINERS = 1_000_000
"""Limits of `to_encodable` on nested levels and on objects and lists: a plug-in's object may contain itself."""

# Python converts only integers of up to 4,300 digits to text.
_INTEGER_BITS = 14_000
BLOB_KEY = "$blob"


class BlobReference(dict[str, JsonValue]):
    """A reference `{"$blob": "sha256:…", "bytes": n, "media_type": …}`; its class distinguishes it from user data."""

    @classmethod
    def to(cls, sha256: str, *, size: int, media_type: str) -> "BlobReference":
        """Return a reference to the blob with this hash."""
        return cls({BLOB_KEY: f"sha256:{sha256}", "bytes": size, "media_type": media_type})

    def described(self) -> JsonObject:
        """Return `sha256` (hexadecimal), `bytes` and `media_type` of the blob."""
        return {**self, "sha256": str(self[BLOB_KEY]).removeprefix("sha256:")}


def _json_value(value: object) -> object:
    """Return a JSON value for an object that msgspec cannot encode, such as a subclass of str or int."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, Real):
        return float.__float__(float(value))
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    if isinstance(value, datetime):
        return time_text(value)
    return _placeholder(value)


def _placeholder(value: object) -> str:
    return f"[{type(value).__name__}: no JSON value]".encode("ascii", "replace").decode()


def time_text(moment: datetime) -> str:
    """Return a moment as ISO 8601 in UTC, for example `2026-01-31T12:00:00.500000Z`."""
    if moment.tzinfo is not UTC:
        moment = to_utc(moment)
    return moment.isoformat()[:-6] + "Z"


def written_fields(value: msgspec.Struct) -> dict[str, object]:
    """Return the fields of a Struct that are written to its line, by JSON key."""
    kind = type(value)
    fields = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    pairs = [(name, key, getattr(value, name)) for name, key in fields]
    if not kind.__struct_config__.omit_defaults:
        return {key: item for _, key, item in pairs}
    omitted = _omitted_values(kind)
    return {key: item for name, key, item in pairs if name not in omitted or not _is_same(item, omitted[name])}


@cache
def _omitted_values(kind: type[msgspec.Struct]) -> dict[str, object]:
    """Return, by field, the value with which the field is omitted from a line: its default, or an empty dict."""
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(kind):
        if field.default is not msgspec.NODEFAULT:
            found[field.name] = field.default
        elif field.default_factory is dict:
            found[field.name] = {}
    return found


def _is_same(value: object, default: object) -> bool:
    return value is default or (default == {} and type(value) is dict and not value)


_encode = msgspec.json.Encoder(enc_hook=_json_value).encode
_decode = msgspec.json.Decoder().decode


def reason(error: Exception) -> str:
    """Return why a line cannot be decoded, as part of a message."""
    return "JSON is nested too deeply" if isinstance(error, RecursionError) else str(error)


def decode_value(data: bytes) -> JsonValue:
    """Return the JSON value in `data`. Raises ValueError when it is not valid JSON."""
    try:
        return cast(JsonValue, _decode(data))
    except RecursionError as error:
        raise ValueError(reason(error)) from error


def encode(record: object) -> bytes:
    """Return `record` as JSON. Lone surrogates become U+FFFD, NaN and infinity become null."""
    try:
        # msgspec writes NaN and infinity as null.
        return _encode(record)
    except Exception:  # noqa: BLE001 - a plug-in's object may raise anything on access
        return _encode(to_encodable(record))


def to_encodable(record: object, *, most: int = _MAX_CONTAINERS) -> JsonValue:
    """Return a copy of `record` that can be encoded: plain types, at most 100 levels and `most` objects and lists."""
    return _to_encodable(record, _MAX_LEVELS, iter(range(most)))


def decode(line: bytes) -> JsonObject:
    """Return the JSON object in a line. Raises ValueError for anything else."""
    value = decode_value(line)
    if not isinstance(value, dict):
        raise ValueError("a line must hold a JSON object")  # noqa: TRY004 - readers catch one error
    return value


def pretty(record: object) -> bytes:
    """Return `record` as indented JSON, ending with a newline."""
    return msgspec.json.format(encode(record), indent=2) + b"\n"


def _to_encodable(value: object, levels: int, remaining: Iterator[int]) -> JsonValue:
    """Return a value that can be encoded; `remaining` yields an item for each object or list that may follow."""
    if value is None or isinstance(value, bool | BlobReference):
        return value
    try:
        return _to_encodable_value(value, levels, remaining)
    except Exception:  # noqa: BLE001 - a plug-in's object may raise anything on access
        return _placeholder(value)


_PIECE = 1 << 20


def _is_utf8(text: str) -> bool:
    """Return False for a text with lone surrogates. A long text is not copied as a whole."""
    if text.isascii():
        return True
    try:
        for start in range(0, len(text), _PIECE):
            text[start : start + _PIECE].encode()
    except UnicodeEncodeError:
        return False
    return True


def _without_surrogates(text: str) -> str:
    return str.encode(text, "utf-16", "surrogatepass").decode("utf-16", "replace")


def _to_encodable_value(value: object, levels: int, remaining: Iterator[int]) -> JsonValue:
    if isinstance(value, str):
        return value if type(value) is str and _is_utf8(value) else _without_surrogates(value)
    if isinstance(value, int):
        return int.__int__(value) if value.bit_length() <= _INTEGER_BITS else _placeholder(value)
    if isinstance(value, Real):
        number = float(value)
        return number if math.isfinite(number) else None
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, msgspec.Struct):
        value = written_fields(value)
    if not isinstance(value, Mapping | Sequence):
        return _placeholder(value)
    if levels == 0 or next(remaining, None) is None:
        return "[too deep or too large to store]"
    if isinstance(value, Mapping):
        return {
            str(_to_encodable(str(key), 0, remaining)): _to_encodable(item, levels - 1, remaining)
            for key, item in value.items()
        }
    return [_to_encodable(item, levels - 1, remaining) for item in value]
