"""The fields of a class, read the same way from a `msgspec.Struct` and from a plug-in's dataclass."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct

_NO_DEFAULT: tuple[object, ...] = (NODEFAULT, dataclasses.MISSING)


class StructField(Struct, frozen=True, kw_only=True):
    """One field: its name, its type without the help text, its default or NODEFAULT, and its description.

    `extra` holds the field's other declarations: `aliases`, `spellings`, `nested`, `evaluators`, `deprecated`.
    """

    name: str
    type: Any
    default: Any = NODEFAULT
    description: str | None = None
    extra: Mapping[str, Any] = {}

    @property
    def is_required(self) -> bool:
        """True if the field has no default."""
        return self.default is NODEFAULT


def has_fields(value: object) -> bool:
    """Return True for a Struct or a dataclass, class or instance."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, Struct) or dataclasses.is_dataclass(kind)


def names_of_fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields in order; nothing for a class without fields."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def replace_fields(value: Any, changes: Mapping[str, object]) -> Any:
    """Return a copy of a Struct or dataclass with some fields changed; the value itself for no changes."""
    if not changes:
        return value
    replace = msgspec.structs.replace if isinstance(value, Struct) else dataclasses.replace
    return replace(value, **changes)


def repr_without(value: Struct, *hidden: str) -> str:
    """Return the usual repr of a Struct without some fields: secrets, or what is too long to print."""
    shown = [f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden]
    return f"{type(value).__qualname__}({', '.join(shown)})"


@cache
def struct_fields(kind: type) -> tuple[StructField, ...]:
    """Return the fields of a class in order."""
    hints = get_type_hints(kind, localns={"JsonValue": Any}, include_extras=True)
    if issubclass(kind, Struct):
        return tuple(
            _described(each.name, hints[each.name], each.default, each.default_factory)
            for each in msgspec.structs.fields(kind)
        )
    return tuple(
        _described(
            each.name, hint=hints[each.name], default=each.default, factory=each.default_factory, metadata=each.metadata
        )
        for each in dataclasses.fields(cast(Any, kind))
    )


def _described(
    name: str, hint: Any, default: Any, factory: Any, metadata: Mapping[str, Any] = MappingProxyType({})
) -> StructField:
    notes: dict[str, Any] = dict(metadata)
    if get_origin(hint) is Annotated:
        plain, *marks = get_args(hint)
        for mark in [mark for mark in marks if isinstance(mark, Meta)]:
            notes |= {"help": mark.description, **(mark.extra or {})}
            marks.remove(mark)
        hint = cast(Any, Annotated)[(plain, *marks)] if marks else plain
    if not any(factory is each for each in _NO_DEFAULT):
        default = factory()
    return StructField(
        name=name,
        type=hint,
        default=NODEFAULT if any(default is each for each in _NO_DEFAULT) else default,
        description=notes.pop("help", None),
        extra=notes,
    )
