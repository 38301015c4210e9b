"""Read parts of records: a base for types with some of the fields, and checked access to single fields."""

from collections.abc import Mapping
from datetime import datetime
from typing import ClassVar

from msgspec import Struct

from agentv.types.json_value import JsonObject
from agentv.types.moments import read_moment
from agentv.types.usage import Usage


class Subset(Struct, frozen=True, gc=False):
    """Some fields of the record type `WHOLE`; a test checks that `WHOLE` has all their keys."""

    WHOLE: ClassVar[type[Struct]]


def read_time(record: JsonObject, key: str) -> datetime:
    """Return the time under `key`. Raises ValueError when it is missing or not a valid time."""
    return read_moment(read_text(record, key))


def read_text(record: JsonObject, key: str, default: str | None = None) -> str:
    """Return the string under `key`, or `default`. Raises ValueError when it is missing or not a string."""
    value = record.get(key, default)
    if not isinstance(value, str):
        raise _unexpected(key, "a string", value)
    return value


def optional_text(record: JsonObject, key: str) -> str | None:
    """Return the string under `key`, None when it is absent."""
    return None if record.get(key) is None else read_text(record, key)


def optional_number(record: JsonObject, key: str) -> float | None:
    """Return the number under `key`, None when it is absent."""
    value = record.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unexpected(key, "a number", value)
    return value


def read_number(record: JsonObject, key: str, default: float = 0.0) -> float:
    """Return the number under `key`, or `default`."""
    value = optional_number(record, key)
    return default if value is None else value


def read_integer(record: JsonObject, key: str, default: int = 0) -> int:
    """Return the whole number under `key`, or `default`."""
    value = optional_number(record, key)
    if value is None:
        return default
    if value % 1 != 0:  # also of infinity and NaN
        raise _unexpected(key, "a whole number", value)
    return int(value)


def optional_object(record: JsonObject, key: str) -> JsonObject | None:
    """Return the object under `key`, None when it is absent."""
    value = record.get(key)
    if value is not None and not isinstance(value, Mapping):
        raise _unexpected(key, "an object", value)
    return value


def read_object(record: JsonObject, key: str) -> JsonObject:
    """Return the object under `key`, empty when it is absent."""
    return optional_object(record, key) or {}


def _unexpected(key: str, wanted: str, value: object) -> ValueError:
    return ValueError(f"{key}: expected {wanted}, found {repr(value)[:60]}")


def optional_usage(record: JsonObject, key: str = "usage") -> Usage | None:
    """Return the token counts under `key`, None when they are absent."""
    fields = optional_object(record, key)
    if fields is None or "input" not in fields:
        return None
    return Usage(**{name: read_integer(fields, name) for name in Usage.__struct_fields__})
