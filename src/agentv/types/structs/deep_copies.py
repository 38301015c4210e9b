"""Deep copies of inputs, faster than `copy.deepcopy`: immutable objects are shared, JSON is copied."""

import copy
import operator
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from msgspec.structs import astuple

from agentv.types.messages import DataPart, FilePart, Message, TextPart, ToolCall, TraceEvent

T = TypeVar("T")

_SHARED = frozenset({type(None), str, bool, int, float})
_STRUCTS = frozenset({Message, ToolCall, TraceEvent, TextPart, FilePart, DataPart})


def deep_copy(value: T) -> T:
    """Return a copy that later changes to the original do not affect."""
    given: Any = value
    kind: type[Any] = type(given)
    copied: Any = given
    if kind is dict:
        copied = {key: item if type(item) in _SHARED else deep_copy(item) for key, item in given.items()}
    elif kind is list:
        copied = [item if type(item) in _SHARED else deep_copy(item) for item in given]
    elif kind is tuple:
        copied = tuple([item if type(item) in _SHARED else deep_copy(item) for item in given])
    elif kind in _STRUCTS:
        fields = astuple(given)
        own = deep_copy(fields)
        copied = given if all(map(operator.is_, own, fields)) else kind(*own)
    elif kind not in _SHARED:
        copied = deep_copy(dict(given)) if isinstance(given, Mapping) else copy.deepcopy(given)
    return cast(T, copied)
