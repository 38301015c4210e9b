"""Giving a stored row its number."""

from dataclasses import fields
from operator import attrgetter
from typing import TypeVar

from agentv.types.results import Answer, CaseResult

Row = TypeVar("Row", Answer, CaseResult)


class _Slots:
    """The setters of a frozen class's slots, `seq` apart from the others."""

    def __init__(self, kind: type[Answer | CaseResult]) -> None:
        setters = {field.name: getattr(kind, field.name).__set__ for field in fields(kind)}
        self.set_seq = setters.pop("seq")
        self.read = attrgetter(*setters)
        self.setters = tuple(setters.values())


_SLOTS = {kind: _Slots(kind) for kind in (Answer, CaseResult)}


def with_seq(row: Row, seq: int) -> Row:
    """Return a copy of `row` that carries its number.

    The same as `dataclasses.replace(row, seq=seq)` at a third of its time, which is half of what a row costs to store.
    """
    kind = type(row)
    slots = _SLOTS[kind]
    copy = kind.__new__(kind)
    for setter, value in zip(slots.setters, slots.read(row), strict=True):
        setter(copy, value)
    slots.set_seq(copy, seq)
    return copy
