"""Convert objects of frameworks to JSON by their fields: pydantic models, dataclasses, Structs, named tuples.

An object may refer to others that refer back, and compute its fields: the number of values and levels is limited.
"""

import base64
import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import date
from enum import Enum
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import astuple

from agentv.types.errors import MessageError
from agentv.types.json_value import JsonValue
from agentv.types.messages import DataPart, FilePart, Message, TextPart, ToolCall, TraceEvent

TOO_DEEP = "[nested too deeply to be stored]"
MAX_LEVELS = 100
"""The maximum number of levels of a value; deeper ones are replaced by `TOO_DEEP`."""
CYCLE = "[a reference to a value that contains it]"
MAX_VALUES = 100_000
"""The maximum number of values of an object, each counted as often as it is referred to."""

_SHOWN_KEYS = 10
_ADVICE = "return the answer alone, without the objects around it"
_is_limited = ContextVar("is_limited", default=False)


@contextmanager
def limited_values() -> Iterator[None]:
    """Within this block, `plain_json` counts plain lists and dicts too, and refuses a value of more than `MAX_LEVELS`.

    For what user code returned. Elsewhere plain lists and dicts are as large as the text that they were read from.
    """
    token = _is_limited.set(True)
    try:
        yield
    finally:
        _is_limited.reset(token)


def plain_json(value: object, at: str = "the value") -> JsonValue | Message:
    """Return a value as JSON; a Message and a TraceEvent stay what they are, with JSON in them.

    Bytes become base64, dates ISO 8601, enum members their values, references to a value that contains them `CYCLE`,
    and other objects without fields their `str`. Raises MessageError with the place, which begins with `at`, for an
    object of more than `MAX_VALUES` values.
    """
    return value if type(value) in _UNCHANGED_TYPES else _Conversion().convert(value, at)  # type: ignore[return-value]


def plain_items(values: Iterable[object], at: str) -> Iterator[tuple[object, JsonValue | Message]]:
    """Yield each value with what `plain_json` returns for it; there is one limit for all of them."""
    conversion = _Conversion()
    for index, value in enumerate(values):
        conversion.count(1, is_free=True)
        yield value, conversion.convert(value, f"{at}[{index}]")


_UNCHANGED_TYPES = frozenset({str, int, float, bool, type(None)})
_OWN_TYPES = frozenset({Message, ToolCall, TraceEvent, TextPart, FilePart, DataPart})


class _LimitError(Exception):
    """A value is too large. `path` has the keys that lead to it, the innermost first."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.path: list[object] = []


class _Conversion:
    """The conversion of one value: an object on one level is converted once, however many others refer to it."""

    def __init__(self) -> None:
        self._is_limited = _is_limited.get()
        self._values = self._free = 0
        self._seen: set[int] = set()
        self._containing: set[int] = set()
        # With each converted object, which must live as long as its id is used.
        self._converted: dict[tuple[int, int], tuple[object, JsonValue, int]] = {}

    def convert(self, value: object, at: str) -> JsonValue:
        """Return a value as JSON. Raises MessageError."""
        try:
            return self._plain(value, MAX_LEVELS)
        except _LimitError as error:
            path = [f"[{key}]" if type(key) is int else f".{key}" for key in reversed(error.path)]
            place = "".join([*path[:_SHOWN_KEYS], "…"] if len(path) > _SHOWN_KEYS else path)
            raise MessageError(f"{at}{place}", error.what, _ADVICE) from None

    def count(self, values: int, *, is_free: bool = False) -> None:
        """Count values of the result. Raises _LimitError."""
        self._values += values
        if is_free and not self._is_limited:
            self._free += values
        if self._values - self._free > MAX_VALUES:
            raise _LimitError(f"is a part of more than {MAX_VALUES:,} values")

    def _plain(self, value: object, levels: int) -> JsonValue:
        kind = type(value)
        if kind in _UNCHANGED_TYPES:  # most values are plain JSON, which needs no other check
            return value  # type: ignore[return-value]
        if kind is not dict and kind is not list:
            match value:
                case Enum():
                    return self._plain(value.value, levels)
                case str() | int() | float():
                    return value
                case bytes() | bytearray():
                    return base64.b64encode(value).decode()
                case date():
                    return value.isoformat()
                case Message() | TraceEvent() if kind in _OWN_TYPES:
                    return cast(JsonValue, self._own(value, levels))
                case Message() | TraceEvent():  # a sub-class
                    return cast(JsonValue, value)
        if levels == 0:
            if self._is_limited:
                raise _LimitError(f"is nested more than {MAX_LEVELS} levels deep")
            return TOO_DEEP
        return self._once(value, levels)

    def _once(self, value: object, levels: int) -> JsonValue:
        """Return an object as JSON; what was converted on this level before is only counted."""
        place = id(value), levels
        if place in self._converted:
            _, converted, size = self._converted[place]
            self.count(size)
            return converted
        if id(value) in self._containing:
            return CYCLE
        self._containing.add(id(value))
        before = self._values
        converted = self._parts(value, levels - 1)
        self._containing.discard(id(value))
        self._seen.add(id(value))
        self._converted[place] = value, converted, self._values - before
        return converted

    def _parts(self, value: object, levels: int) -> JsonValue:
        is_free = type(value) in (dict, list) and id(value) not in self._seen
        fields = value.items() if isinstance(value, Mapping) else _fields(value)
        if fields is not None:
            return self._object(fields, levels, is_free=is_free)
        if isinstance(value, list | tuple | set | frozenset):
            return self._list(value, levels, is_free=is_free)
        # An item of an openai-agents run has the item of the API in `raw_item`, and a reference to the whole agent.
        item = getattr(value, "raw_item", None)
        self.count(1)
        return self._plain(item, levels) if item is not None else str(value)

    def _object(self, fields: Iterable[tuple[object, object]], levels: int, *, is_free: bool) -> JsonValue:
        plain: dict[str, JsonValue] = {}
        key: object = None
        try:
            for key, item in fields:
                self.count(1, is_free=is_free)
                plain[str(key)] = self._plain(item, levels)
        except _LimitError as error:
            error.path.append(str(key))
            raise
        return plain

    def _list(self, items: Iterable[object], levels: int, *, is_free: bool) -> JsonValue:
        plain: list[JsonValue] = []
        try:
            for item in items:
                self.count(1, is_free=is_free)
                plain.append(self._plain(item, levels))
        except _LimitError as error:
            error.path.append(len(plain))
            raise
        return plain

    def _own(self, value: Any, levels: int) -> Any:
        """Return a message, a trace event or a part of one, with JSON in it."""
        kind = type(value)
        is_own = kind in _OWN_TYPES
        if not is_own and kind is not tuple and (kind is not list or _OWN_TYPES.isdisjoint(map(type, value))):
            return self._plain(value, levels)
        if levels == 0:
            raise _LimitError(f"is nested more than {MAX_LEVELS} levels deep")
        if is_own:
            return kind(*self._own_parts(zip(value.__struct_fields__, astuple(value), strict=True), levels - 1))
        return kind(self._own_parts(enumerate(value), levels - 1))

    def _own_parts(self, parts: Iterable[tuple[object, object]], levels: int) -> list[Any]:
        plain = []
        for place, part in parts:
            try:
                self.count(1, is_free=True)
                plain.append(self._own(part, levels))
            except _LimitError as error:
                error.path.append(place)
                raise
        return plain


def _fields(value: object) -> Iterable[tuple[str, object]] | None:
    """Return the names and values of an object's public fields.

    None for an object without declared fields, or with a `raw_item`, which replaces them.
    """
    kind = type(value)
    if getattr(value, "raw_item", None) is not None:
        return None
    names = getattr(kind, "model_fields", None) or getattr(kind, "_fields", None)
    if names is None and dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
    if names is None and isinstance(value, Struct):
        names = value.__struct_fields__
    if names is None:
        return None
    extra = getattr(value, "model_extra", None)
    given = ((name, getattr(value, name, None)) for name in names if not name.startswith("_"))
    return [*given, *(cast(Mapping[str, object], extra).items() if isinstance(extra, Mapping) else ())]
