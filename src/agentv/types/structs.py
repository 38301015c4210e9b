"""Helpers for value classes: field names and types, camelCase keywords, deep copies."""

import copy
import dataclasses
import operator
import os
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType, NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import NODEFAULT, Meta, Struct, StructMeta, ValidationError, convert
from msgspec.structs import astuple, replace

from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.json_value import snake_case
from agentv.types.messages import DataPart, FilePart, Message, TextPart, ToolCall, TraceEvent

_NO_DEFAULT: tuple[object, ...] = (NODEFAULT, dataclasses.MISSING)
_NO_NAMES: Mapping[str, str] = {}
Options = TypeVar("Options", bound=Struct)
T = TypeVar("T")
S = TypeVar("S", bound=Struct)
_IMMUTABLE_TYPES = frozenset({type(None), str, bool, int, float})
_MESSAGE_TYPES = frozenset({Message, ToolCall, TraceEvent, TextPart, FilePart, DataPart})


class StructField(Struct, frozen=True, kw_only=True):
    """One field of a class."""

    name: str
    type: Any
    """The type with its bounds, without other `Meta`."""
    default: Any = NODEFAULT
    description: str | None = None
    """The help text."""
    extra: Mapping[str, Any] = {}
    """The other declarations, which loading/models/core_schema.py reads: `aliases`, `file_key`, `spellings`, …"""

    @property
    def is_required(self) -> bool:
        """True if the field has no default."""
        return self.default is NODEFAULT


def has_fields(value: object) -> bool:
    """Return True for a Struct or a dataclass, class or instance."""
    kind = value if isinstance(value, type) else type(value)
    return issubclass(kind, Struct) or dataclasses.is_dataclass(kind)


def names_of_fields(kind: type) -> tuple[str, ...]:
    """Return the names of a class's fields in order; () for any other class than a Struct or a dataclass."""
    if issubclass(kind, Struct):
        return kind.__struct_fields__
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def replace_fields(value: Any, changes: Mapping[str, object]) -> Any:
    """Return a copy of a Struct or dataclass with some fields changed; the value itself if `changes` is empty."""
    if not changes:
        return value
    copy_with = replace if isinstance(value, Struct) else dataclasses.replace
    return copy_with(value, **changes)


def repr_without(value: Struct, *hidden: str) -> str:
    """Return the usual repr of a Struct without some fields, such as secrets or long values."""
    shown = [f"{name}={getattr(value, name)!r}" for name in value.__struct_fields__ if name not in hidden]
    return f"{type(value).__qualname__}({', '.join(shown)})"


@cache
def struct_fields(kind: type) -> tuple[StructField, ...]:
    """Return the fields of a Struct or dataclass in order."""
    hints = get_type_hints(kind, localns={"JsonValue": Any}, include_extras=True)
    if issubclass(kind, Struct):
        return tuple(
            _struct_field(each.name, hints[each.name], each.default, each.default_factory)
            for each in msgspec.structs.fields(kind)
        )
    return tuple(
        _struct_field(
            each.name, hint=hints[each.name], default=each.default, factory=each.default_factory, metadata=each.metadata
        )
        for each in dataclasses.fields(cast(Any, kind))
    )


def _struct_field(
    name: str, hint: Any, default: Any, factory: Any, metadata: Mapping[str, Any] = MappingProxyType({})
) -> StructField:
    notes: dict[str, Any] = dict(metadata)
    if get_origin(hint) is Annotated:
        plain, *annotations = get_args(hint)
        for annotation in [annotation for annotation in annotations if isinstance(annotation, Meta)]:
            if annotation.description is None and annotation.extra is None:
                continue  # a bound of the value, which is a part of its type
            notes |= {"help": annotation.description, **(annotation.extra or {})}
            annotations.remove(annotation)
        hint = cast(Any, Annotated)[(plain, *annotations)] if annotations else plain
    if _is_given(factory):
        default = factory()
    return StructField(
        name=name,
        type=hint,
        default=default if _is_given(default) else NODEFAULT,
        description=notes.pop("help", None),
        extra=notes,
    )


def _is_given(default: object) -> bool:
    return not any(default is each for each in _NO_DEFAULT)


class CamelKeywords(StructMeta):
    """The metaclass of value classes that take camelCase keywords: `EvalCase(id="a", inputMessages="Hello")`.

    A class may define `KEYWORDS`, which maps further names, in snake_case, to its fields.
    """

    if not TYPE_CHECKING:  # type checkers know the signature of the class itself

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - the instances of a metaclass are classes
            """Make an instance; a camelCase keyword sets the field with that name in snake_case."""
            try:
                return super().__call__(*arguments, **keywords)
            except TypeError:
                spelled = snake_keywords(keywords, cls.__struct_fields__, getattr(cls, "KEYWORDS", _NO_NAMES))
                if spelled == keywords:
                    raise
            return super().__call__(*arguments, **spelled)


def blank(kind: type[S]) -> S:
    """Return an instance whose required fields are None, to be filled by `replace`.

    For a CamelKeywords class, `blank` and `replace` are faster than one call with keywords, which collects them in a
    dict (bench/echo_cases.py).
    """
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    return kind(*[None] * required)


def snake_keywords(
    keywords: Mapping[str, Any], known: tuple[str, ...], others: Mapping[str, str] = _NO_NAMES
) -> dict[str, Any]:
    """Return keywords with camelCase names renamed to the `known` ones; `others` maps further names to known ones.

    Unknown names stay as they are. Raises TypeError if two keywords have the same name after renaming.
    """
    spelled: dict[str, Any] = {}
    for name, value in keywords.items():
        snake_name = name if name in known else snake_case(name)
        field_name = others.get(snake_name, snake_name)
        if field_name not in known:
            field_name = name
        if field_name in spelled:
            raise TypeError(f"{field_name!r} is given twice, in two spellings")
        spelled[field_name] = value
    return spelled


def make_options(
    kind: type[Options], given: Options | Mapping[str, Any] | None, keywords: Mapping[str, Any]
) -> Options:
    """Return options of a class from an object or a dict, overridden by keywords; names may be in camelCase.

    Lists become tuples, paths strings and whole numbers floats where the field requires it. Raises UnknownNameError for
    an unknown option or an unknown word as value, ConfigError for a wrong type or an option in two spellings.
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
    """Return the values converted to the types of their fields. Raises UnknownNameError or ConfigError."""
    types = _alternatives(kind)
    return {name: _converted(name, value, types[name]) for name, value in named.items()}


def _converted(name: str, value: object, types: Sequence[Any]) -> object:
    """Return a value converted to the first of the types that accepts it. Raises UnknownNameError or ConfigError."""
    if value is None and NoneType in types:
        return None
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    problems: dict[str, None] = {}  # each message once, in order
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
    """Return the types of each field, to be tried one after the other.

    Any replaces Struct types: their values may be dicts or short forms, which the caller of `make_options` reads.
    """
    found = {}
    for field in struct_fields(kind):
        members = get_args(field.type) if get_origin(field.type) in (Union, UnionType) else (field.type,)
        found[field.name] = [_without_structs(each) for each in members]
    return found


def _without_structs(given: Any) -> Any:
    """Return Any for a type that contains a Struct, or a tuple of Any if it is a tuple; any other type unchanged."""
    if not _has_struct(given):
        return given
    return tuple[Any, ...] if get_origin(given) is tuple else Any


def _has_struct(given: Any) -> bool:
    return (isinstance(given, type) and issubclass(given, Struct)) or any(map(_has_struct, get_args(given)))


def deep_copy(value: T) -> T:
    """Return a copy that later changes to the original do not affect; a mapping becomes a dict.

    Raises RecursionError for a value that is nested too deeply or contains itself.
    """
    given: Any = value
    kind: type[Any] = type(given)
    copied: Any = given
    if kind is dict:
        copied = {key: item if type(item) in _IMMUTABLE_TYPES else deep_copy(item) for key, item in given.items()}
    elif kind is list:
        copied = [item if type(item) in _IMMUTABLE_TYPES else deep_copy(item) for item in given]
    elif kind is tuple:
        copied = tuple([item if type(item) in _IMMUTABLE_TYPES else deep_copy(item) for item in given])
    elif kind in _MESSAGE_TYPES:
        fields = astuple(given)
        new_fields = deep_copy(fields)
        copied = given if all(map(operator.is_, new_fields, fields)) else kind(*new_fields)
    elif kind not in _IMMUTABLE_TYPES:
        copied = deep_copy(dict(given)) if isinstance(given, Mapping) else copy.deepcopy(given)
    return cast(T, copied)
