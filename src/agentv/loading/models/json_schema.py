"""pydantic types made from Structs: for JSON Schemas, and to validate types that core_schema.py does not support."""

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, NotRequired, Required, TypeAlias, Union, cast, get_args, get_origin

from msgspec import Struct
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    TypeAdapter,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict  # the one that pydantic can read before Python 3.12

from agentv.loading.models import file_model as shape_fields
from agentv.loading.models.file_model import Checked, DefinedAs, FileModel, Limits, Names, translate
from agentv.types.struct_fields import StructField, has_fields, struct_fields

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or a part of one."""

_LATER = "x-defined-as"


def defined_as(name: str) -> WithJsonSchema:
    """Mark a type whose schema is under `$defs` with that name in the complete schema."""
    return WithJsonSchema({_LATER: name})


def with_spellings(schema: Schema, names: Names) -> Schema:
    """Return an object's schema that accepts every spelling of its keys, but lists only the canonical ones."""
    others: dict[str, set[str]] = {name: set() for name in names.canonical}
    for written, name in names.spellings.items():
        if written != name:
            others[name].add(written)
    properties = schema.get("properties", {})
    patterns = {
        f"^({'|'.join(map(re.escape, sorted(several)))})$": properties.get(name, {})
        for name, several in others.items()
        if several
    }
    required = schema.get("required", [])
    alone = [name for name in required if not others.get(name)]
    spread = [sorted({name} | others[name]) for name in required if others.get(name)]
    made = _without(schema, "required")
    if patterns:
        made["patternProperties"] = patterns
    if alone:
        made["required"] = alone
    if spread:
        made["allOf"] = [{"anyOf": [{"required": [written]} for written in group]} for group in spread]
    return made


def _is_noise(key: str, value: object) -> bool:
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without(mapping: Schema, key: str) -> Schema:
    return {name: value for name, value in mapping.items() if name != key}


class Spelled(Struct, frozen=True, eq=False):
    """A mark that adds the spellings of keys to the schema of a settings class."""

    names: Names

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Return the schema with all spellings of the keys."""
        return with_spellings(handler.resolve_ref_schema(handler(schema)), self.names)


class SpelledValue(Struct, frozen=True, eq=False):
    """A mark for a text with other accepted spellings; `spellings` maps them to the canonical ones."""

    spellings: Mapping[str, str]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return the schema that replaces other spellings by the canonical ones."""
        return core_schema.no_info_before_validator_function(
            partial(translate, spellings=self.spellings), handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Return the schema that accepts other spellings, but lists only the canonical ones."""
        ours = handler(schema)
        annotations: Schema = {key: ours.pop(key) for key in ("default", "description") if key in ours}
        others = "|".join(map(re.escape, sorted(self.spellings)))
        return {**annotations, "anyOf": [ours, {"type": "string", "pattern": f"^({others})$"}]}


def joined(first: Schema, second: Schema) -> Schema:
    """Return the schema of an object with the keys of both; `second` has precedence."""
    patterns = {**first.get("patternProperties", {}), **second.get("patternProperties", {})}
    made: Schema = {
        "type": "object",
        "properties": {**first.get("properties", {}), **second.get("properties", {})},
        "required": list(dict.fromkeys([*first.get("required", []), *second.get("required", [])])),
        "allOf": [*first.get("allOf", []), *second.get("allOf", [])],
        "patternProperties": patterns,
        "additionalProperties": False,
    }
    if "description" in second:
        made["description"] = second["description"]
    return {key: value for key, value in made.items() if value or value is False}


def rewritten(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """Return a schema with `change` applied to every object in it, the innermost first."""
    if isinstance(schema, dict):
        return change({key: rewritten(value, change) for key, value in schema.items()})
    if isinstance(schema, list):
        return [rewritten(item, change) for item in schema]
    return schema


def finished(schema: Schema) -> Schema:
    """Return a schema with references to its definitions, without pydantic's titles and empty defaults."""

    def change(part: Schema) -> Schema:
        if _LATER in part:
            described = {key: part[key] for key in ("description",) if key in part}
            return {**described, "$ref": f"#/$defs/{part[_LATER]}"}
        return {key: value for key, value in part.items() if not _is_noise(key, value)}

    return cast(Schema, rewritten(schema, change))


# These types are built at run time; mypy would treat them as static annotations.
_ANNOTATED, _UNION, _TUPLE, _DICT = cast(Any, Annotated), cast(Any, Union), cast(Any, tuple), cast(Any, dict)
_LIST = cast(Any, list)
_REQUIRED, _NOT_REQUIRED, _TYPED_DICT = cast(Any, Required), cast(Any, NotRequired), cast(Any, TypedDict)

_CONFIG = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


@cache
def adapter_of(kind: type) -> TypeAdapter[object]:
    """Return the adapter that turns a mapping into an instance of a class, and gives its JSON Schema."""
    return TypeAdapter(_object_shape(kind))


def is_model(hint: Any) -> bool:
    """Return True if a type is a model of files, which gets a definition of its own inside other schemas."""
    return isinstance(hint, type) and issubclass(hint, FileModel)


def models_in(hint: Any) -> Iterator[type[FileModel]]:
    """Yield the models in a type, recursively."""
    if is_model(hint):
        yield hint
        for field in struct_fields(hint):
            yield from models_in(field.type)
    for inner in get_args(hint):
        yield from models_in(inner)


def _object_shape(kind: type) -> Any:
    """Return the pydantic type of a class: a strict TypedDict that is then turned into the class."""
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
    """Return the pydantic type of JSON for a type hint: lists for tuples, TypedDicts for Structs."""
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
    """Return pydantic's equivalent of a mark in `Annotated`; marks of pydantic itself unchanged."""
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
    """Return the type of a union; several Structs are distinguished by their literal `type`."""
    union = _UNION[tuple(choices)]
    classes = [hint for hint in hints if has_fields(hint)]
    return _ANNOTATED[union, Field(discriminator="type")] if len(classes) > 1 else union
