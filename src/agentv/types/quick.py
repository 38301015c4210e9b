"""Frozen dataclasses that are made two dozen times for every row, made by msgspec in C."""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from typing import Any, Never, TypeVar, cast

import msgspec

T = TypeVar("T", bound=type[Any])

set_field: Callable[[object, str, object], None] = msgspec.structs.force_setattr  # type: ignore[assignment]
"""Gives a field of a quick class's instance its value, all frozen as it is: for its own `__post_init__`."""

_REPLACED = (
    *("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", "__getstate__", "__setstate__"),
    *("__slots__", "__match_args__", "__annotations__"),
)
"""What a dataclass has that a `Struct` brings itself."""


def quick(kind: T) -> T:
    """Return a frozen dataclass as a `msgspec.Struct`: the same names and methods, made in a quarter of the time.

    It is replaced, compared, hashed, matched and sent elsewhere as any frozen dataclass. It has no subclasses, whose
    own fields `dataclasses` would not know of; no field may be one that is given by name only.
    """
    return _made_of(kind, may_be_in_circle=True)


def quick_data(kind: T) -> T:
    """Return the same of a class that holds texts, numbers and their like: things that lead back to nobody.

    Python looks for no circles of references through its instances. A field of JSON is none of these: what a program
    puts there may be an object, which leads anywhere.
    """
    return _made_of(kind, may_be_in_circle=False)


def _made_of(kind: T, *, may_be_in_circle: bool) -> T:
    replaced = {*_REPLACED, *(field.name for field in fields(kind))}
    kept = {name: value for name, value in vars(kind).items() if name not in replaced}
    kept |= {"__init_subclass__": _refuse_subclass, "__get_pydantic_core_schema__": classmethod(_schema)}
    described = map(_described, fields(kind))
    made: Any = msgspec.defstruct(kind.__name__, described, namespace=kept, frozen=True, gc=may_be_in_circle)
    made.__setattr__, made.__delattr__ = _refuse, _refuse  # as a dataclass does: with a FrozenInstanceError
    return cast(T, made)


def _described(field: Field[Any]) -> tuple[Any, ...]:
    if field.default is not MISSING:
        return (field.name, field.type, field.default)
    if field.default_factory is not MISSING:
        return (field.name, field.type, msgspec.field(default_factory=field.default_factory))
    return (field.name, field.type)


def _refuse_subclass(_kind: type[Any], **_options: object) -> Never:
    raise TypeError("this class of agentv has no subclasses: hold it in a class of your own, or use its `metadata`")


def _schema(kind: type[Any], _source: object, _handler: object) -> dict[str, object]:
    """Return what pydantic checks where a model has such a field: it takes an instance as it is."""
    return {"type": "is-instance", "cls": kind}


def _refuse(_self: object, name: str, *_value: object) -> Never:
    raise FrozenInstanceError(f"cannot change field {name!r}")
