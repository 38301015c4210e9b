"""Values in which every field differs from its default, so that a lost field shows."""

import types
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct, structs

S = TypeVar("S", bound=Struct)
_MOMENT = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)


def distinct(cls: type[S], given: Mapping[type, Mapping[str, object]] | None = None) -> S:
    """Return an object of a class in which no field has its default; nested objects likewise.

    `given` has the values of fields by class, for fields whose type does not say which values are valid.
    """
    return _distinct(cls, given or {}, ())


def _distinct(cls: type[S], given: Mapping[type, Mapping[str, object]], outer: tuple[type, ...]) -> S:
    hints = get_type_hints(cls, include_extras=True)
    values: dict[str, Any] = {}
    for field in structs.fields(cls):
        hint = hints[field.name]
        chosen = given.get(cls, {})
        if field.name in chosen:
            values[field.name] = chosen[field.name]
        elif not _contains(hint, outer):  # a member has no members
            values[field.name] = _value(hint, field, given, (*outer, cls))
    return cls(**values)


def default_of(field: structs.FieldInfo) -> object:
    """Return the default of a field, NODEFAULT if it is required."""
    return field.default if field.default_factory is NODEFAULT else field.default_factory()


def fields_with_defaults(value: Struct) -> list[str]:
    """Return the names of the fields that have their default."""
    return [field.name for field in structs.fields(value) if getattr(value, field.name) == default_of(field)]


def _contains(hint: Any, classes: tuple[type, ...]) -> bool:
    return hint in classes or any(_contains(argument, classes) for argument in get_args(hint))


def _value(
    hint: Any, field: structs.FieldInfo, given: Mapping[type, Mapping[str, object]], outer: tuple[type, ...]
) -> Any:
    origin, arguments, default = get_origin(hint), get_args(hint), default_of(field)
    if origin is Annotated:
        return _value(arguments[0], field, given, outer)
    if origin in (Union, types.UnionType):
        return _value(next(each for each in arguments if each is not type(None)), field, given, outer)
    if origin is Literal:
        return next(each for each in arguments if each != default)
    if origin is tuple:
        return (_value(arguments[0], field, given, outer),)
    if hint is Any or (origin is not None and arguments[-1] is Any):  # JSON
        return {"key": f"of {field.name}"}
    if origin is not None:  # a mapping
        return {"key": _value(arguments[-1], field, given, outer)}
    if isinstance(hint, type) and issubclass(hint, Struct):
        return _distinct(hint, given, outer)
    plain = {str: f"the {field.name}", bool: default is not True, int: 7, float: 0.25, datetime: _MOMENT}
    return plain[hint]
