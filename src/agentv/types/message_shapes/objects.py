"""Convert objects of frameworks to JSON by their fields: pydantic models, dataclasses, Structs, named tuples."""

import base64
import dataclasses
from collections.abc import Iterator, Mapping
from datetime import date
from enum import Enum
from typing import cast

from msgspec import Struct

from agentv.types.json_value import JsonValue
from agentv.types.messages import Message

TOO_DEEP = "[nested too deeply to be stored]"
MAX_LEVELS = 100
"""The maximum number of levels of a value; deeper ones are replaced by `TOO_DEEP`."""


def plain_json(value: object) -> JsonValue | Message:
    """Return a value as JSON; a Message stays as it is.

    Bytes become base64, dates ISO 8601, enum members their values, and other objects without fields their `str`.
    """
    return _plain(value, MAX_LEVELS)


_UNCHANGED_TYPES = frozenset({str, int, float, bool, type(None), Message})


def _plain(value: object, levels: int) -> JsonValue:
    kind = type(value)
    if kind in _UNCHANGED_TYPES:  # most values are plain JSON; these checks are faster than `_plain_object`
        return value  # type: ignore[return-value]  # a Message is passed through
    if kind is dict and levels:
        return {str(key): _plain(item, levels - 1) for key, item in cast(dict[object, object], value).items()}
    if kind is list and levels:
        return [_plain(item, levels - 1) for item in cast(list[object], value)]
    return _plain_object(value, levels)


def _plain_object(value: object, levels: int) -> JsonValue:
    match value:
        case Enum():
            return _plain(value.value, levels)
        case None | str() | int() | float() | Message():
            return value  # type: ignore[return-value]  # a Message is passed through
        case bytes() | bytearray():
            return base64.b64encode(value).decode()
        case date():
            return value.isoformat()
        case _ if levels == 0:
            return TOO_DEEP
        case Mapping():
            return {str(key): _plain(item, levels - 1) for key, item in value.items()}
    fields = _fields(value)
    if fields is not None:
        return {name: _plain(item, levels - 1) for name, item in fields}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, levels - 1) for item in value]
    # An item of an openai-agents run has the item of the API in `raw_item`, and a reference to the whole agent.
    item = getattr(value, "raw_item", None)
    return _plain(item, levels - 1) if item is not None else str(value)


def _fields(value: object) -> Iterator[tuple[str, object]] | None:
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
    return iter([*given, *(extra.items() if isinstance(extra, Mapping) else ())])
