"""Value classes whose keywords may also be written in camelCase, as in JSON."""

import os
from collections.abc import Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin

from msgspec import Struct, StructMeta, ValidationError, convert
from msgspec.structs import replace

from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import snake_case
from agentv.types.structs.struct_fields import struct_fields

Options = TypeVar("Options", bound=Struct)


class CamelKeywords(StructMeta):
    """The metaclass of value classes that take camelCase keywords: `EvalCase(id="a", inputMessages="Hello")`."""

    if not TYPE_CHECKING:  # type checkers know the signature of the class itself

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - of a metaclass
            """Make an instance; a camelCase keyword counts as the field that it spells."""
            try:
                return super().__call__(*arguments, **keywords)
            except TypeError:
                spelled = snake_keywords(keywords, cls.__struct_fields__)
                if spelled == keywords:
                    raise
            return super().__call__(*arguments, **spelled)


def snake_keywords(keywords: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Return keywords with those in camelCase renamed to the known names that they spell.

    Raises TypeError for a name that is given in both spellings.
    """
    spelled: dict[str, Any] = {}
    for name, value in keywords.items():
        own = name if name in known else snake_case(name)
        own = own if own in known else name
        if own in spelled:
            raise TypeError(f"{own!r} is given twice, as {own} and in camelCase")
        spelled[own] = value
    return spelled


def make_options(
    kind: type[Options], given: Options | Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> Options:
    """Return options of a class from an object or a dict, and keywords that win over it; also in camelCase.

    Lists become tuples, paths strings and whole numbers floats, where the fields are such. Raises UnknownNameError for
    an unknown option or word, ConfigError for values of the wrong type or spelled twice.
    """
    known = kind.__struct_fields__
    try:
        named = snake_keywords(keywords, known)
        if isinstance(given, Mapping):
            named = {**snake_keywords(given, known), **named}
    except TypeError as error:
        raise ConfigError(f"{kind.__name__}: {error}") from error
    for name in named:
        if name not in known:
            raise UnknownNameError("option", name, known=known)
    if given is None or isinstance(given, Mapping):
        return kind(**_checked(kind, named))
    if not isinstance(given, kind):
        raise ConfigError(f"options must be a {kind.__name__} or a dict of its fields, not a {type(given).__name__}")
    changed = {name: value for name in known if (value := getattr(given, name)) is not _defaults(kind)[name]}
    return replace(given, **_checked(kind, {**changed, **named}))


def _checked(kind: type[Struct], named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of fields as their types. Raises UnknownNameError or ConfigError for one of another type."""
    types = _alternatives(kind)
    return {name: _converted(name, value, types[name]) for name, value in named.items()}


def _converted(name: str, value: object, types: Sequence[Any]) -> object:
    """Return a value as the first of the types that fits."""
    if value is None and NoneType in types:
        return None
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    problems: dict[str, None] = {}
    for each in types:
        if each is NoneType:
            continue
        try:
            return convert(value, each)
        except ValidationError as error:
            problems[str(error)] = None
    words = [word for each in types if get_origin(each) is Literal for word in get_args(each)]
    if words and isinstance(value, str):
        raise UnknownNameError(name, value, known=words)
    raise ConfigError(f"`{name}`: {'; '.join(problems)}")


@cache
def _defaults(kind: type[Struct]) -> Mapping[str, Any]:
    return {field.name: field.default for field in struct_fields(kind)}


@cache
def _alternatives(kind: type[Struct]) -> Mapping[str, Sequence[Any]]:
    """Return the types of each field that are to be tried one after the other.

    Value classes inside a field may be given as dicts or in short forms, which the owner of the options reads.
    """
    found = {}
    for field in struct_fields(kind):
        members = get_args(field.type) if get_origin(field.type) in (Union, UnionType) else (field.type,)
        found[field.name] = [_without_structs(each) for each in members]
    return found


def _without_structs(given: Any) -> Any:
    if not _has_struct(given):
        return given
    return tuple[Any, ...] if get_origin(given) is tuple else Any


def _has_struct(given: Any) -> bool:
    return (isinstance(given, type) and issubclass(given, Struct)) or any(map(_has_struct, get_args(given)))
