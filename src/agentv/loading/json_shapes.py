"""Structs as types of pydantic: for JSON Schemas, and for reading what core_shapes.py does not know."""

import types
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NotRequired, Required, Union, cast, get_args, get_origin

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, Strict, TypeAdapter, ValidationInfo
from typing_extensions import TypedDict  # the one that pydantic can read before Python 3.12

from agentv.loading import shape_fields
from agentv.loading.file_model import FileModel
from agentv.loading.marks import Checked, DefinedAs, Limits
from agentv.loading.schema_parts import Spelled, SpelledValue, defined_as
from agentv.types.struct_fields import StructField, has_fields, struct_fields

# Shapes are built at run time; mypy would take these for types written down.
_ANNOTATED, _UNION, _TUPLE, _DICT = cast(Any, Annotated), cast(Any, Union), cast(Any, tuple), cast(Any, dict)
_LIST = cast(Any, list)
_REQUIRED, _NOT_REQUIRED, _TYPED_DICT = cast(Any, Required), cast(Any, NotRequired), cast(Any, TypedDict)

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@cache
def adapter_of(kind: type) -> TypeAdapter[object]:
    """Return what validates a mapping against a class and makes the instance, and describes it."""
    return TypeAdapter(_object_shape(kind))


def is_model(hint: Any) -> bool:
    """Whether a type is a model of files, which has a definition of its own wherever it stands in another."""
    return isinstance(hint, type) and issubclass(hint, FileModel)


def models_in(hint: Any) -> Iterator[type[FileModel]]:
    """Yield the models in a type, and in these."""
    if is_model(hint):
        yield hint
        for field in struct_fields(hint):
            yield from models_in(field.type)
    for inner in get_args(hint):
        yield from models_in(inner)


def _object_shape(kind: type) -> Any:
    """Return the shape of a class: a strict typed dict in front of the class itself."""
    names = shape_fields.names_of(kind)
    fields = {shape_fields.key_of(kind, each.name): _field_shape(each) for each in struct_fields(kind)}
    shape = _TYPED_DICT(kind.__name__, fields)
    shape.__pydantic_config__ = _CONFIG
    shape.__doc__ = kind.__doc__

    def spell(raw: object, info: ValidationInfo) -> object:
        return shape_fields.spell(raw, cast(Any, info.context), names)

    def make(values: Mapping[str, object]) -> object:
        return shape_fields.make(kind, values)

    return Annotated[shape, BeforeValidator(spell), AfterValidator(make), Spelled(names)]


def _field_shape(field: StructField) -> Any:
    extra: dict[str, Any] = {"deprecated": True} if "deprecated" in field.extra else {}
    if isinstance(field.default, bool | int | float | str):
        extra["default"] = field.default
    described = Field(description=field.description, json_schema_extra=extra or None)
    members = shape_fields.has_members(field)
    shape = _ANNOTATED[_shape(tuple[Any, ...] if members else field.type), described]
    if members:
        shape = _ANNOTATED[shape, defined_as("Evaluators")]
    if "nested" in field.extra:
        shape = _ANNOTATED[shape, _flattening(field.extra["nested"])]
    if "spellings" in field.extra:
        shape = _ANNOTATED[shape, SpelledValue(field.extra["spellings"])]
    return _REQUIRED[shape] if field.is_required else _NOT_REQUIRED[shape]


def _flattening(key: str) -> BeforeValidator:
    def flatten(raw: object, info: ValidationInfo) -> object:
        return shape_fields.flatten(raw, cast(Any, info.context), key)

    return BeforeValidator(flatten)


def _shape(hint: Any) -> Any:
    """Return what a type hint demands of JSON: lists for tuples, typed dicts for Structs, the rest as it is."""
    if shape_fields.is_json(hint):
        return Any
    if has_fields(hint):
        shape = _object_shape(cast(type, hint))
        return _ANNOTATED[shape, defined_as(cast(type, hint).__name__)] if is_model(hint) else shape
    origin, arguments = get_origin(hint), get_args(hint)
    if not arguments:
        return hint
    if origin is Annotated:
        return _ANNOTATED[(_shape(arguments[0]), *map(_mark, arguments[1:]))]
    if origin is tuple:
        items = tuple(item if item is ... else _shape(item) for item in arguments)
        return _ANNOTATED[_TUPLE[items], Strict(strict=False)]
    if origin is list:
        return _LIST[_shape(arguments[0])]
    if origin is Sequence:
        return _ANNOTATED[_LIST[_shape(arguments[0])], BeforeValidator(_as_list)]
    if origin in (Union, types.UnionType):
        return _choice([_shape(argument) for argument in arguments], arguments)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _DICT[str, _shape(arguments[1])]
    return hint


def _as_list(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _mark(mark: object) -> object:
    """Return what pydantic understands for what a type says beside; what it knows already as it is."""
    match mark:
        case Limits():
            return Field(**mark.given())
        case Checked(check):
            return AfterValidator(check)
        case DefinedAs(name):
            return defined_as(name)
        case _:
            return mark


def _choice(choices: list[Any], hints: tuple[Any, ...]) -> Any:
    """Return a choice; several Structs are told apart by their literal `type`."""
    union = _UNION[tuple(choices)]
    classes = [hint for hint in hints if has_fields(hint)]
    return _ANNOTATED[union, Field(discriminator="type")] if len(classes) > 1 else union
