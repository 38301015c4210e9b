"""Schemas of pydantic-core made from Structs, to validate models of files and settings of plug-ins."""

import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from agentv.loading.models import file_model as shape_fields
from agentv.loading.models.file_model import Checked, DefinedAs, Limits, SpellingNotes
from agentv.types.struct_fields import StructField, has_fields, struct_fields

_STRICT = CoreConfig(extra_fields_behavior="forbid", strict=True, allow_inf_nan=False)


class UnknownHintError(TypeError):
    """A type that only pydantic itself can validate."""


_PLAIN: Mapping[object, Callable[[], CoreSchema]] = {
    Any: core_schema.any_schema,
    object: core_schema.any_schema,
    str: core_schema.str_schema,
    int: core_schema.int_schema,
    float: core_schema.float_schema,
    bool: core_schema.bool_schema,
    type(None): core_schema.none_schema,
}


def object_schema(kind: type) -> CoreSchema:
    """Return a schema that turns a mapping into a Struct or dataclass. Raises UnknownHintError."""
    names = shape_fields.names_of(kind)
    fields = {
        shape_fields.key_of(kind, each.name): core_schema.typed_dict_field(
            _field_schema(each), required=each.is_required
        )
        for each in struct_fields(kind)
    }
    spelled = core_schema.with_info_before_validator_function(
        lambda raw, info: shape_fields.spell(raw, info.context, names),
        core_schema.typed_dict_schema(fields, config=_STRICT),
    )
    return core_schema.no_info_after_validator_function(partial(shape_fields.make, kind), spelled)


def _field_schema(field: StructField) -> CoreSchema:
    schema = _schema(tuple[Any, ...] if shape_fields.has_members(field) else field.type)
    if "nested" in field.extra:
        key = field.extra["nested"]
        schema = core_schema.with_info_before_validator_function(
            lambda raw, info: shape_fields.flatten(raw, info.context, key), schema
        )
    if "spellings" in field.extra:
        ours = partial(shape_fields.translate, spellings=field.extra["spellings"])
        schema = core_schema.no_info_before_validator_function(ours, schema)
    return schema


def _schema(hint: Any) -> CoreSchema:
    """Return the schema of JSON for a type: lists for tuples, objects for Structs."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None and hint in _PLAIN:
        return _PLAIN[hint]()
    if shape_fields.is_json(hint):
        return core_schema.any_schema()
    if has_fields(hint):
        return object_schema(cast(type, hint))
    if origin is Annotated:
        return _marked(_schema(arguments[0]), arguments[1:])
    if origin is Literal:
        return core_schema.literal_schema(list(arguments))
    if origin in (Union, types.UnionType):
        return _choice(arguments)
    return _container(hint, origin, arguments)


def _container(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> CoreSchema:
    if not arguments:
        raise UnknownHintError(str(hint))
    if origin is tuple:
        items = [_schema(item) for item in arguments if item is not ...]
        variadic = 0 if ... in arguments else None
        return core_schema.tuple_schema(items, variadic_item_index=variadic, strict=False)
    if origin is list:
        return core_schema.list_schema(_schema(arguments[0]))
    if origin is Sequence:
        item = _schema(arguments[0])
        several = core_schema.tuple_schema([item], variadic_item_index=0)
        return core_schema.union_schema([core_schema.list_schema(item), several])
    if origin is Callable:
        return core_schema.callable_schema()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return core_schema.dict_schema(core_schema.str_schema(), _schema(arguments[1]))
    raise UnknownHintError(str(hint))


def _marked(schema: CoreSchema, marks: Sequence[object]) -> CoreSchema:
    made: Any = schema
    for mark in marks:
        match mark:
            case Limits() if made["type"] in ("str", "int", "float", "list"):
                made = {**made, **mark.given()}
            case Checked(check):
                made = core_schema.no_info_after_validator_function(check, made)
            case DefinedAs():
                pass
            case _:
                raise UnknownHintError(str(mark))
    return cast(CoreSchema, made)


def _choice(hints: tuple[Any, ...]) -> CoreSchema:
    """Return the schema of a union; several Structs are distinguished by their literal `type`."""
    members = [hint for hint in hints if hint is not type(None)]
    kinds = [cast(type, hint) for hint in members if has_fields(hint)]
    schema: CoreSchema
    if len(kinds) > 1:
        schema = core_schema.tagged_union_schema(_by_tag(kinds, of=len(members)), "type")
    elif len(members) > 1:
        schema = core_schema.union_schema([_schema(hint) for hint in members])
    else:
        schema = _schema(members[0])
    return schema if len(members) == len(hints) else core_schema.nullable_schema(schema)


def _by_tag(kinds: Sequence[type], *, of: int) -> dict[Hashable, CoreSchema]:
    """Return the schemas of Structs by the literals of their `type`. Raises UnknownHintError if these do not differ."""
    types_of = [{each.name: each.type for each in struct_fields(kind)}.get("type") for kind in kinds]
    tags = [get_args(each) if get_origin(each) is Literal else () for each in types_of]
    listed = [tag for each in tags for tag in each]
    if len(kinds) != of or not all(tags) or len(set(listed)) != len(listed):
        raise UnknownHintError(f"a choice of {', '.join(kind.__name__ for kind in kinds)}")
    schemas = [object_schema(kind) for kind in kinds]
    return {tag: schema for schema, each in zip(schemas, tags, strict=True) for tag in each}


T = TypeVar("T")


def reader_of(kind: type[T]) -> Callable[[object, SpellingNotes], T]:
    """Return a function that turns a mapping into an instance of `kind`, and records unknown keys.

    The function raises pydantic_core.ValidationError with all errors.
    """
    return _reader_of(cast(type, kind))


@cache
def _reader_of(kind: type) -> Callable[[object, SpellingNotes], Any]:
    try:
        validator: Any = SchemaValidator(object_schema(kind))
    except UnknownHintError:
        from agentv.loading.models.json_schema import adapter_of  # noqa: PLC0415 - few plug-ins have such settings

        validator = adapter_of(kind)
    return lambda raw, notes: validator.validate_python(raw, context=notes)
