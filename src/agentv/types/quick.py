"""Frozen dataclasses that are made a dozen times for every row, made nearly as fast as ordinary ones."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any, TypeVar

from agentv.types.dataclass import Late, set_field
from agentv.types.init_method import write_init

T = TypeVar("T")

_set_class: Callable[[object, type], None] = object.__dict__["__class__"].__set__


def quick(kind: type[T]) -> type[T]:
    """Give a frozen dataclass with slots an `__init__` that takes a quarter of the time; nothing else changes.

    The usual one calls `object.__setattr__` for each field. This one fills an instance of a class with the same slots
    that is not frozen, and then makes it one of `kind`. Instances of subclasses are made the usual way.
    """
    kind.__init__ = Late(kind, "__init__", _write_quick_init)  # type: ignore[assignment]  # gives the method when asked
    return kind


def _write_quick_init(kind: type[Any]) -> Callable[..., None]:
    names = [field.name for field in fields(kind)]
    statements = [
        "if self.__class__ is _kind:",
        " _become(self, _open)",
        *(f" self.{name} = {name}" for name in names),
        " _become(self, _kind)",
        "else:",
        *(f" _set(self, {name!r}, {name})" for name in names),
    ]
    opened = type(f"_Open{kind.__name__}", (), {"__slots__": names})
    return write_init(kind, statements, _become=_set_class, _kind=kind, _open=opened, _set=set_field)
