"""`dataclass` as in the standard library, but for when its methods are written: when they are first asked for.

The standard one compiles up to six methods of each class while the class is made, a third of a millisecond. A run
imports 270 of them before its first request. Few make an instance by then; hardly any is compared, hashed or printed.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, fields, make_dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from agentv.types.init_method import write_init

Kind: TypeAlias = type[Any]
Method: TypeAlias = Callable[..., Any]

_set_field = object.__setattr__
"""Gives a field of a frozen instance its value."""


class Late:
    """A method that is not written yet. Whoever looks at it gets the written one, which takes its place."""

    __slots__ = ("_kind", "_name", "_write")

    def __init__(self, kind: Kind, name: str, write: Callable[[Kind], Method]) -> None:
        self._kind, self._name, self._write = kind, name, write

    def __get__(self, instance: object, owner: type | None = None) -> Method:
        written: Any = self._write(self._kind)
        written.__qualname__ = f"{self._kind.__qualname__}.{self._name}"
        setattr(self._kind, self._name, written)
        bound: Method = written.__get__(instance, owner)
        return bound


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - type checkers know what that does
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False, eq: bool = True
    ) -> Callable[[Kind], Kind]:
        """Make a class a dataclass. The options are those of the standard library that are used here."""

        def decorate(kind: Kind) -> Kind:
            if any(map(dataclasses.is_dataclass, kind.__bases__)):  # the standard one holds a class against its bases
                return dataclasses.dataclass(frozen=frozen, slots=slots, kw_only=kw_only, eq=eq)(kind)
            kind.__doc__ = kind.__doc__ or kind.__name__  # else the standard one asks for a signature to write there
            made = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(kind)
            _add_methods(made, frozen=frozen, eq=eq)
            described = made.__dataclass_params__
            described.init, described.repr, described.eq, described.frozen = True, True, eq, frozen
            return made

        return decorate


def _add_methods(kind: Kind, *, frozen: bool, eq: bool) -> None:
    """Add the methods that the standard library would have; what the class brings itself stays."""
    own = dict(vars(kind))
    if own.get("__hash__") is None and "__eq__" in own:
        del own["__hash__"]  # nobody wrote that: Python puts it where there is an `__eq__`
    methods: dict[str, object] = {
        "__init__": Late(kind, "__init__", _write_init_of_frozen if frozen else _write_init),
        "__repr__": Late(kind, "__repr__", partial(_write_usual, "__repr__", repr=True)),
    }
    if eq:
        methods["__eq__"] = Late(kind, "__eq__", partial(_write_usual, "__eq__", eq=True))
        write_hash = partial(_write_usual, "__hash__", unsafe_hash=True)
        methods["__hash__"] = Late(kind, "__hash__", write_hash) if frozen else None
    if frozen:
        methods |= _guards(kind)
    for name, method in methods.items():
        if name not in own:
            setattr(kind, name, method)


def _write_init(kind: Kind) -> Method:
    return write_init(kind, [f"self.{field.name} = {field.name}" for field in fields(kind)])


def _write_init_of_frozen(kind: Kind) -> Method:
    sets = [f"_set(self, {field.name!r}, {field.name})" for field in fields(kind)]
    return write_init(kind, sets, _set=_set_field)


def _write_usual(name: str, kind: Kind, *, repr: bool = False, eq: bool = False, unsafe_hash: bool = False) -> Method:  # noqa: A002 - the standard's names
    """Return a method as the standard library writes it for a class with these fields."""
    listed = [(field.name, field.type, field) for field in fields(kind)]
    about = {"__doc__": kind.__doc__}
    alike = make_dataclass(
        kind.__name__, listed, namespace=about, init=False, repr=repr, eq=eq, unsafe_hash=unsafe_hash
    )
    method: Method = getattr(alike, name)
    return method


def _guards(kind: Kind) -> Mapping[str, Method]:
    """Return what lets no field be changed, and an instance be copied and sent elsewhere all the same."""
    names = frozenset(kind.__dataclass_fields__)

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    guards: dict[str, Method] = {"__setattr__": set_attribute, "__delattr__": delete_attribute}
    return guards | ({"__getstate__": _get_state, "__setstate__": _set_state} if "__slots__" in vars(kind) else {})


def _get_state(self: Any) -> list[object]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for field, value in zip(fields(self), state, strict=True):
        _set_field(self, field.name, value)
