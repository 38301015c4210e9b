"""Copies of frozen dataclasses with some fields changed, for what is copied with every call."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from operator import attrgetter
from typing import Any, ClassVar, Protocol, TypeVar

from agentv.types.dataclass import set_field


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]


class _Numbered(_Dataclass, Protocol):
    @property
    def seq(self) -> int | None: ...


T = TypeVar("T", bound=_Dataclass)
N = TypeVar("N", bound=_Numbered)


def changed(value: T, **changes: object) -> T:
    """Return a copy with these fields changed: `dataclasses.replace` in less than half the time.

    For classes of several fields that may all be given in order (none keyword-only, none left out of `__init__`).
    Raises KeyError for a name that is no field.
    """
    given_of, places = _shape(type(value))
    given = list(given_of(value))
    for name, change in changes.items():
        given[places[name]] = change
    return type(value)(*given)


def numbered(value: N, seq: int) -> N:
    """Return an answer or a row with its number in a store.

    One that has none yet was made to be stored, and nobody has seen it: it gets the number itself, for a copy of its
    thirty fields costs more than to write them. One that has the number of another store stays as it is, and is copied.
    """
    if value.seq is not None:
        return changed(value, seq=seq)
    set_field(value, "seq", seq)
    return value


@functools.cache
def _shape(kind: type[_Dataclass]) -> tuple[Callable[[object], tuple[object, ...]], Mapping[str, int]]:
    """Return what takes all fields out of a dataclass, and where each of them stands."""
    names = [each.name for each in fields(kind)]
    return attrgetter(*names), {name: place for place, name in enumerate(names)}
