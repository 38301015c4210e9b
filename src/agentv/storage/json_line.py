"""One record ↔ one line of JSON: fast for what is usual, careful with what JSON or UTF-8 cannot hold."""

import math
from collections.abc import Mapping, Sequence
from typing import cast

import msgspec

from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject, JsonValue

_DEEPEST = 100
"""Levels that are kept of a value so deep that it cannot be written as it is."""


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


_encode = msgspec.json.Encoder(enc_hook=_plain).encode
_decode = msgspec.json.Decoder().decode


def decode_value(data: bytes) -> JsonValue:
    """Return the JSON value that `data` holds. Raises ValueError when it holds none."""
    return cast(JsonValue, _decode(data))


def encode(record: JsonValue) -> bytes:
    """Return `record` as JSON. Lone surrogates become U+FFFD; raises StorageError for NaN and infinity, by field."""
    try:
        line = _encode(record)
    except UnicodeEncodeError:
        line = _encode(_without_surrogates(record))
    except RecursionError:
        return encode(_shallow(record, _DEEPEST))
    except (TypeError, ValueError) as error:
        raise StorageError(f"a value cannot be stored: {error}") from error
    # msgspec writes NaN as null. Looking for the rare null is 50 times cheaper than looking at every number.
    if b"null" in line:
        _refuse_non_finite(record, "$")
    return line


def decode(line: bytes) -> JsonObject:
    """Return the object that a line holds. Raises ValueError when it holds none."""
    value = decode_value(line)
    if not isinstance(value, dict):
        raise ValueError("a line must hold a JSON object")  # noqa: TRY004 - readers catch one error
    return value


def pretty(record: JsonValue) -> bytes:
    """Return `record` as JSON that people read, ending with a newline."""
    return msgspec.json.format(encode(record), indent=2) + b"\n"


def _without_surrogates(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {str(_without_surrogates(key)): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_without_surrogates(item) for item in value]
    return value


def _shallow(value: JsonValue, levels: int) -> JsonValue:
    """Cut off what an agent nested thousands of levels deep: it must cost its own depth, not the run."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        return value
    if levels == 0:
        return "[nested too deeply to be kept]"
    if isinstance(value, Mapping):
        return {key: _shallow(item, levels - 1) for key, item in value.items()}
    return [_shallow(item, levels - 1) for item in value]


def _refuse_non_finite(value: JsonValue, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise StorageError(f"{path} is {value}, which is no number that can be stored or averaged")
    if isinstance(value, str):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, Sequence):
        for index, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{index}]")
