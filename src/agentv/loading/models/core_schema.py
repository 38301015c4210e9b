"""Structs as schemas of pydantic's core, which read and describe models of files and settings of plug-ins.

schemas.py makes JSON Schemas of them. For that purpose, the metadata of a schema may contain a note with information
that is not part of the type, such as the docstring and the spellings of keys.
"""

import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from msgspec import Meta, Struct
from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

from agentv.loading.models import file_model
from agentv.loading.models.file_model import Checked, DefinedAs, Names, SpellingNotes
from agentv.registry import UnknownSettings
from agentv.types.structs import StructField, has_fields, struct_fields

NOTE_KEY = "agentv"
"""The key of the note in the metadata of a schema."""

_STRICT = CoreConfig(extra_fields_behavior="forbid", strict=True, allow_inf_nan=False)


class ObjectNote(Struct, frozen=True, eq=False):
    """An object: its docstring, and the spellings of its keys."""

    doc: str | None
    names: Names


class SpellingsNote(Struct, frozen=True, eq=False):
    """A string with other accepted spellings."""

    spellings: Mapping[str, str]
    """Maps each other spelling to the canonical value."""


class ListNote(Struct, frozen=True, eq=False):
    """A list; from Python, a tuple is accepted too."""


class _ForeignHintError(TypeError):
    """A type that only pydantic can read."""


_SCALAR_SCHEMAS: Mapping[object, Callable[[], CoreSchema]] = {
    Any: core_schema.any_schema,
    object: core_schema.any_schema,
    str: core_schema.str_schema,
    int: core_schema.int_schema,
    float: core_schema.float_schema,
    bool: core_schema.bool_schema,
    type(None): core_schema.none_schema,
}


def object_schema(kind: type) -> CoreSchema:
    """Return the schema that reads a mapping as an instance of `kind`, a Struct or dataclass.

    Raises TypeError for a choice of classes that cannot be distinguished.
    """
    names = file_model.names_of(kind)
    listed = {file_model.key_of(each): each for each in file_model.file_fields(kind)}
    fields = {
        key: core_schema.typed_dict_field(
            _field_schema(each),
            required=each.is_required and "derived" not in each.extra,
            metadata={NOTE_KEY: each},
        )
        for key, each in listed.items()
    }
    spelled = core_schema.with_info_before_validator_function(
        lambda raw, info: file_model.with_canonical_keys(file_model.as_written(raw, kind), info.context, names),
        core_schema.typed_dict_schema(fields, config=_STRICT),
    )
    note = ObjectNote(kind.__doc__, names)
    names_of_fields = {key: each.name for key, each in listed.items()}
    return core_schema.no_info_after_validator_function(
        partial(file_model.make_instance, kind, names_of_fields), spelled, metadata={NOTE_KEY: note}
    )


def _field_schema(field: StructField) -> CoreSchema:
    """Return the schema of a field: that of its type, preceded by the conversions that the field declares.

    `written` is the type of the value in files, if it is not that of the field. `defined_as` names the definition of a
    value that is read separately; `evaluators` are, too. `nested` moves the entries under a key of each listed object
    up into the object; `numbered` gives each listed object without an `id` one with this prefix; `spellings` replaces
    other spellings of a value by the canonical one.

    The keys are those of file_model.py: `file_key`, if it is not the field's name, and `aliases`. A field that is
    `not_in_files` has none, and one that is `derived` may be absent.
    """
    if file_model.has_members(field):  # evaluators, which are checked elsewhere
        schema = _noted(_schema(tuple[Any, ...]), DefinedAs("Evaluators"))
    else:
        schema = _schema(field.extra.get("written", field.type))
    if "defined_as" in field.extra:
        schema = _noted(schema, DefinedAs(field.extra["defined_as"]))
    if "numbered" in field.extra:
        prefix = field.extra["numbered"]
        schema = core_schema.with_info_before_validator_function(
            lambda raw, info: file_model.number_items(raw, info.context, prefix), schema
        )
    if "nested" in field.extra:
        key = field.extra["nested"]
        schema = core_schema.with_info_before_validator_function(
            lambda raw, info: file_model.lift_nested(raw, info.context, key), schema
        )
    if "spellings" in field.extra:
        to_canonical = partial(file_model.canonical_value, spellings=field.extra["spellings"])
        note = SpellingsNote(field.extra["spellings"])
        schema = core_schema.no_info_before_validator_function(to_canonical, schema, metadata={NOTE_KEY: note})
    return schema


def _noted(schema: CoreSchema, note: object) -> CoreSchema:
    return cast(CoreSchema, {**schema, "metadata": {NOTE_KEY: note}})


def _schema(hint: Any) -> CoreSchema:
    """Return the schema of a type hint: our own if the type is known here, else that of pydantic."""
    try:
        return _known_schema(hint)
    except _ForeignHintError:
        return _foreign_schema(hint)


def _known_schema(hint: Any) -> CoreSchema:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is None and hint in _SCALAR_SCHEMAS:
        return _SCALAR_SCHEMAS[hint]()
    if file_model.is_json(hint):
        return core_schema.any_schema()
    if has_fields(hint):
        schema = object_schema(cast(type, hint))
        return _noted(schema, DefinedAs(hint.__name__)) if file_model.is_shared(hint) else schema
    if origin is Annotated:
        return _annotated(_schema(arguments[0]), arguments[1:])
    if origin is Literal:
        return core_schema.literal_schema(list(arguments))
    if origin in (Union, types.UnionType):
        return _choice(arguments)
    return _container(hint, origin, arguments)


def _foreign_schema(hint: Any) -> CoreSchema:
    """Return pydantic's own schema of a plug-in's type: an Enum, a Path, a model."""
    from pydantic import ConfigDict, PydanticUserError, TypeAdapter  # noqa: PLC0415 - few plug-ins have such settings

    try:
        return TypeAdapter(hint, config=ConfigDict(strict=True, allow_inf_nan=False)).core_schema
    except PydanticUserError:  # a model, which has a configuration of its own
        return TypeAdapter(hint).core_schema


def _container(hint: Any, origin: Any, arguments: tuple[Any, ...]) -> CoreSchema:
    if not arguments:
        raise _ForeignHintError(str(hint))
    if origin is tuple:
        items = [_schema(item) for item in arguments if item is not ...]
        variadic = 0 if ... in arguments else None
        return core_schema.tuple_schema(items, variadic_item_index=variadic, strict=False)
    if origin is list:
        return core_schema.list_schema(_schema(arguments[0]))
    if origin is Sequence:
        item = _schema(arguments[0])
        as_tuple = core_schema.tuple_schema([item], variadic_item_index=0)
        return core_schema.union_schema([core_schema.list_schema(item), as_tuple], metadata={NOTE_KEY: ListNote()})
    if origin is Callable:
        return core_schema.callable_schema()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return core_schema.dict_schema(core_schema.str_schema(), _schema(arguments[1]))
    raise _ForeignHintError(str(hint))


def _annotated(schema: CoreSchema, marks: Sequence[object]) -> CoreSchema:
    annotated: Any = schema
    for mark in marks:
        match mark:
            case Meta() if annotated["type"] in ("str", "int", "float", "list", "tuple"):
                annotated = {**annotated, **_bounds(mark)}
            case Checked(check):
                annotated = core_schema.no_info_after_validator_function(check, annotated)
            case DefinedAs():
                annotated = _noted(annotated, mark)
            case _:
                raise _ForeignHintError(str(mark))
    return cast(CoreSchema, annotated)


def _bounds(mark: Meta) -> dict[str, float]:
    """Return the bounds of a number, or of the length of a string or list, under the names that pydantic has."""
    bounds = {name: getattr(mark, name) for name in ("ge", "gt", "le", "lt", "min_length", "max_length")}
    return {name: bound for name, bound in bounds.items() if bound is not None}


def _choice(hints: tuple[Any, ...]) -> CoreSchema:
    """Return the schema of a union; several Structs are distinguished by their literal `type`."""
    wanted = [hint for hint in hints if hint is not type(None)]
    kinds = [cast(type, hint) for hint in wanted if has_fields(hint)]
    schema: CoreSchema
    if len(kinds) > 1:
        schema = core_schema.tagged_union_schema(_schemas_by_tag(kinds, count=len(wanted)), "type")
    elif len(wanted) > 1:
        schema = core_schema.union_schema([_schema(hint) for hint in wanted])
    else:
        schema = _schema(wanted[0])
    return schema if len(wanted) == len(hints) else core_schema.nullable_schema(schema)


def _schemas_by_tag(kinds: Sequence[type], *, count: int) -> dict[Hashable, CoreSchema]:
    """Return the schemas of Structs by the literal values of their `type`.

    Raises TypeError for fewer Structs than `count`, the number of choices, or if their values are not distinct.
    """
    types_of = [{each.name: each.type for each in struct_fields(kind)}.get("type") for kind in kinds]
    tags = [get_args(each) if get_origin(each) is Literal else () for each in types_of]
    listed = [tag for each in tags for tag in each]
    if len(kinds) != count or not all(tags) or len(set(listed)) != len(listed):
        choice = ", ".join(kind.__name__ for kind in kinds)
        rule = "each class needs a field `type` with literal values of its own, and only None may be added"
        raise TypeError(f"the choices of the union {choice} cannot be distinguished: {rule}")
    schemas = [object_schema(kind) for kind in kinds]
    return {tag: schema for schema, each in zip(schemas, tags, strict=True) for tag in each}


T = TypeVar("T")


def reader_of(kind: type[T]) -> Callable[[object, SpellingNotes], T]:
    """Return a function that reads a mapping as an instance of a class and notes its unknown keys.

    The function raises pydantic_core.ValidationError with every problem.
    """
    return _reader_of(cast(type, kind))


@cache
def _reader_of(kind: type) -> Callable[[object, SpellingNotes], Any]:
    if kind is UnknownSettings:
        return lambda _raw, _notes: UnknownSettings()
    validator = SchemaValidator(object_schema(kind))
    return lambda raw, notes: validator.validate_python(raw, context=notes)
