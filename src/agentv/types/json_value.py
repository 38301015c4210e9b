"""JSON in Python: one type for data of unknown shape, and the spelling of keys."""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    JsonValue: TypeAlias = bool | int | float | str | Sequence["JsonValue"] | Mapping[str, "JsonValue"] | None
    JsonObject: TypeAlias = Mapping[str, JsonValue]
else:
    # msgspec does not support recursive type aliases.
    JsonValue = Any
    JsonObject = Mapping[str, Any]


_UPPER = re.compile(r"(?<=[a-z0-9])([A-Z])")


@lru_cache(maxsize=1024)
def camel_case(name: str) -> str:
    """Return `max_retries` as `maxRetries`."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def snake_case(name: str) -> str:
    """Return `maxRetries` as `max_retries`."""
    return _UPPER.sub(lambda match: "_" + match[1].lower(), name)


def listed_keys(value: Iterable[object]) -> str:
    """Return the keys of an object as text for a message, shortened if they are many or long."""
    keys = [_shortened(key) for key in islice(value, _LISTED_KEYS)]
    more = "" if len(keys) < _LISTED_KEYS else ", …"
    return f"{', '.join(keys)}{more}" or "none"


_LISTED_KEYS = 50
_KEY_CHARACTERS = 100


def _shortened(key: object) -> str:
    text = repr(key)
    return text if len(text) <= _KEY_CHARACTERS else f"{text[:_KEY_CHARACTERS]}…"


def object_of(value: JsonValue) -> JsonObject:
    """Return an object; an empty one for any other value."""
    return value if isinstance(value, Mapping) else {}


def list_of(value: JsonValue) -> list[JsonValue]:
    """Return a list; an empty one for any other value."""
    return value if isinstance(value, list) else []


def objects_of(value: JsonValue) -> list[JsonObject]:
    """Return the objects of a list; none for a value that is no list."""
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list | tuple) else []


def strings_of(value: JsonValue) -> tuple[str, ...]:
    """Return the texts of a list; none for a value that is no list."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list | tuple) else ()
