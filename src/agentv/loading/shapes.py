"""Dataclasses as the shapes of what people write: models of files and settings of plug-ins alike.

A value is held against a shape by pydantic's core alone (`reader_of`). The rest of pydantic takes as long to import as
all else that reads a file, so it is left to JSON Schemas (json_shapes.py), and to types that are not known here.
"""

import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from agentv.loading.file_model import FileModel
from agentv.loading.marks import Checked, DefinedAs, Limits
from agentv.loading.spellings import Names, SpellingNotes, make_names
from agentv.types.json_value import JsonValue

T = TypeVar("T")

_STRICT = CoreConfig(extra_fields_behavior="forbid", strict=True, allow_inf_nan=False)


class UnknownHintError(TypeError):
    """A type that is left to the whole of pydantic."""


class _HasJson:
    value: JsonValue


_JSON_VALUE = get_type_hints(_HasJson, localns={"JsonValue": Any})["value"]
"""What JsonValue becomes when hints are read: JSON of any shape."""

_PLAIN: Mapping[object, Callable[[], CoreSchema]] = {
    Any: core_schema.any_schema,
    object: core_schema.any_schema,
    str: core_schema.str_schema,
    int: core_schema.int_schema,
    float: core_schema.float_schema,
    bool: core_schema.bool_schema,
    type(None): core_schema.none_schema,
}


def reader_of(kind: type[T]) -> Callable[[object, SpellingNotes], T]:
    """Return what reads a mapping as an instance of a dataclass; it notes keys that nobody knows.

    It raises pydantic_core.ValidationError with every problem.
    """
    return _reader_of(cast(type, kind))


@cache
def _reader_of(kind: type) -> Callable[[object, SpellingNotes], Any]:
    try:
        validator: Any = SchemaValidator(_object_schema(kind))
    except UnknownHintError:
        from agentv.loading.json_shapes import adapter_of  # noqa: PLC0415 - few plug-ins have such settings

        validator = adapter_of(kind)
    return lambda raw, notes: validator.validate_python(raw, context=notes)


@cache
def names_of(kind: type) -> Names:
    """Return the keys of a model, or of a settings dataclass with the aliases in its fields' metadata."""
    if issubclass(kind, FileModel):
        return kind.names()
    listed = dataclasses.fields(cast(Any, kind))
    aliases = {alias: each.name for each in listed for alias in each.metadata.get("aliases", ())}
    return make_names([each.name for each in listed], aliases)


def hints_of(kind: type) -> dict[str, Any]:
    """Return the types of a dataclass' fields, with what they say beside."""
    return get_type_hints(kind, localns={"JsonValue": Any}, include_extras=True)


def key_of(field: "dataclasses.Field[object]") -> str:
    """Return how a field's key is written."""
    key: str = field.metadata.get("key", field.name)
    return key


def is_required(field: "dataclasses.Field[object]") -> bool:
    """Whether a field has no default."""
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def is_json(hint: object) -> bool:
    """Whether a type is JSON of any shape."""
    return bool(hint == _JSON_VALUE)


def has_members(field: "dataclasses.Field[object]") -> bool:
    """Whether a field holds evaluators: loading.evaluator_configs reads them, which knows every type."""
    return bool(field.metadata.get("evaluators"))


def spell(raw: object, notes: SpellingNotes, names: Names) -> object:
    """Return an object with our names for its keys; anything else as it is."""
    return notes.rename(cast(Mapping[str, JsonValue], raw), names) if isinstance(raw, Mapping) else raw


def flatten(raw: object, notes: SpellingNotes, key: str) -> object:
    """Return a list with the entries under `key` of each object beside its other keys, as some write them."""
    if not isinstance(raw, list | tuple):
        return raw
    return [notes.join(item, key) if isinstance(item, Mapping) else item for item in raw]


def translate(raw: object, spellings: Mapping[str, str]) -> object:
    """Return our word for a text that others spell otherwise; anything else as it is."""
    return spellings.get(raw, raw) if isinstance(raw, str) else raw


def make(kind: type, values: Mapping[str, object]) -> object:
    """Return the instance of a dataclass whose keys have these values."""
    listed = dataclasses.fields(cast(Any, kind))
    return kind(**{each.name: values[key] for each in listed if (key := key_of(each)) in values})


def tags_of(kinds: Sequence[type]) -> dict[str, type]:
    """Return dataclasses by what stands in their literal `type`, by which several in one choice are told apart."""
    return {tag: kind for kind in kinds for tag in get_args(hints_of(kind)["type"])}


def _object_schema(kind: type) -> CoreSchema:
    hints, names = hints_of(kind), names_of(kind)
    fields = {
        key_of(each): core_schema.typed_dict_field(_field_schema(each, hints[each.name]), required=is_required(each))
        for each in dataclasses.fields(cast(Any, kind))
    }
    spelled = core_schema.with_info_before_validator_function(
        lambda raw, info: spell(raw, info.context, names), core_schema.typed_dict_schema(fields, config=_STRICT)
    )
    return core_schema.no_info_after_validator_function(partial(make, kind), spelled)


def _field_schema(field: "dataclasses.Field[object]", hint: Any) -> CoreSchema:
    schema = _schema(tuple[Any, ...] if has_members(field) else hint)
    if "nested" in field.metadata:
        key = field.metadata["nested"]
        schema = core_schema.with_info_before_validator_function(
            lambda raw, info: flatten(raw, info.context, key), schema
        )
    if "spellings" in field.metadata:
        ours = partial(translate, spellings=field.metadata["spellings"])
        schema = core_schema.no_info_before_validator_function(ours, schema)
    return schema


def _schema(hint: Any) -> CoreSchema:
    """Return what a type demands of JSON: lists for tuples, objects for dataclasses."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None and hint in _PLAIN:
        return _PLAIN[hint]()
    if is_json(hint):
        return core_schema.any_schema()
    if dataclasses.is_dataclass(hint):
        return _object_schema(cast(type, hint))
    if origin is Annotated:
        return _marked(_schema(arguments[0]), arguments[1:])
    if origin is Literal:
        return core_schema.literal_schema(list(arguments))
    if origin in (Union, types.UnionType):
        return _choice(arguments)
    return _container(hint, origin, arguments)


def _container(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> CoreSchema:
    if origin is tuple:
        items = [_schema(item) for item in arguments if item is not ...]
        variadic = 0 if ... in arguments else None
        return core_schema.tuple_schema(items, variadic_item_index=variadic, strict=False)
    if origin is list:
        return core_schema.list_schema(_schema(arguments[0]))
    if origin is Sequence:
        return core_schema.list_schema(_schema(arguments[0]), strict=False)
    if origin is Callable:
        return core_schema.callable_schema()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return core_schema.dict_schema(core_schema.str_schema(), _schema(arguments[1]))
    raise UnknownHintError(str(hint))


def _marked(schema: CoreSchema, marks: Sequence[object]) -> CoreSchema:
    made: Any = schema
    for mark in marks:
        match mark:
            case Limits():
                made = {**made, **mark.given()}
            case Checked(check):
                made = core_schema.no_info_after_validator_function(check, made)
            case DefinedAs():
                pass
            case _:
                raise UnknownHintError(str(mark))
    return cast(CoreSchema, made)


def _choice(hints: tuple[Any, ...]) -> CoreSchema:
    """Return a choice; several dataclasses are told apart by their literal `type`."""
    wanted = [hint for hint in hints if hint is not type(None)]
    kinds = [hint for hint in wanted if dataclasses.is_dataclass(hint)]
    schema: CoreSchema
    if len(kinds) > 1:
        schemas = {kind: _object_schema(cast(type, kind)) for kind in kinds}
        tags = tags_of(cast(list[type], kinds))
        schema = core_schema.tagged_union_schema({tag: schemas[kind] for tag, kind in tags.items()}, "type")
    elif len(wanted) > 1:
        schema = core_schema.union_schema([_schema(hint) for hint in wanted])
    else:
        schema = _schema(wanted[0])
    return schema if len(wanted) == len(hints) else core_schema.nullable_schema(schema)
