"""Deep copies of inputs, faster than `copy.deepcopy`: immutable objects are shared, JSON is copied."""

import copy
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from agentv.types.messages import DataPart, FilePart, Message, TextPart, ToolCall, TraceEvent

T = TypeVar("T")

_SHARED = frozenset({type(None), str, bool, int, float})
"""Types checked before `deep_copy` is called: most of JSON is of these, and a call is slower (bench/)."""


def deep_copy(value: T) -> T:
    """Return a copy that no change to the original's objects affects."""
    copied = _COPIERS.get(type(value))
    return cast(T, _of_another_kind(value) if copied is None else copied(value))


def _same(value: Any) -> Any:
    return value


def _dict(value: dict[Any, Any]) -> dict[Any, Any]:
    return {key: item if type(item) in _SHARED else deep_copy(item) for key, item in value.items()}


def _list(value: list[Any]) -> list[Any]:
    return [item if type(item) in _SHARED else deep_copy(item) for item in value]


def _tuple(value: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(deep_copy, value))


def _fielded(value: Any) -> Any:
    """Return a frozen Struct itself, or a new one if a field is mutable."""
    kind = type(value)
    given = [getattr(value, name) for name in kind.__struct_fields__]
    own = [deep_copy(item) for item in given]
    return value if all(map(_is_same, own, given)) else kind(*own)


def _is_same(one: object, other: object) -> bool:
    return one is other


def _of_another_kind(value: Any) -> Any:
    return _dict(dict(value)) if isinstance(value, Mapping) else copy.deepcopy(value)


_FIELDED = (Message, ToolCall, TraceEvent, TextPart, FilePart, DataPart)
_COPIERS: Mapping[type, Callable[[Any], Any]] = {
    **dict.fromkeys(_SHARED, _same),
    dict: _dict,
    list: _list,
    tuple: _tuple,
    **dict.fromkeys(_FIELDED, _fielded),
}
