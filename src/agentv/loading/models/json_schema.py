"""JSON Schemas, derived from the schemas that read files."""

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias, cast, get_args

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from agentv.loading.models.core_schema import NOTE, ListNote, ObjectNote, SpellingsNote, object_schema
from agentv.loading.models.file_model import DefinedAs, FileModel, Names
from agentv.types.structs.struct_fields import StructField, struct_fields

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or a part of one: JSON whose shape is the standard's, not ours."""

_LATER = "x-defined-as"


def with_spellings(schema: Schema, names: Names) -> Schema:
    """Return an object's schema that accepts every spelling of its keys, and lists only ours."""
    others: dict[str, set[str]] = {name: set() for name in names.canonical}
    for spelling, name in names.spellings.items():
        if spelling != name:
            others[name].add(spelling)
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
        made["allOf"] = [{"anyOf": [{"required": [spelling]} for spelling in group]} for group in spread]
    return made


def _is_noise(key: str, value: object) -> bool:
    return (key == "title" and isinstance(value, str)) or (key == "default" and value is None)


def _without(mapping: Schema, key: str) -> Schema:
    return {name: value for name, value in mapping.items() if name != key}


def joined(first: Schema, second: Schema) -> Schema:
    """Return the schema of an object that has the keys of both; `second` wins."""
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
    """Return a schema with every object in it changed, the innermost first."""
    if isinstance(schema, dict):
        return change({key: rewritten(value, change) for key, value in schema.items()})
    if isinstance(schema, list):
        return [rewritten(item, change) for item in schema]
    return schema


def finished(schema: Schema) -> Schema:
    """Return a schema whose parts refer to their definitions, without pydantic's titles and empty defaults."""

    def change(part: Schema) -> Schema:
        if _LATER in part:
            described = {key: part[key] for key in ("description",) if key in part}
            return {**described, "$ref": f"#/$defs/{part[_LATER]}"}
        return {key: value for key, value in part.items() if not _is_noise(key, value)}

    return cast(Schema, rewritten(schema, change))


def describe(kind: type) -> Schema:
    """Return the JSON Schema of a class: of the very schema that reads it."""
    return finished(_Describer().generate(object_schema(kind)))


class _Describer(GenerateJsonSchema):
    """Writes what the notes in a schema say beside its types."""

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        """Return the JSON Schema of a part."""
        note = schema.get("metadata", {}).get(NOTE)
        match note:
            case DefinedAs(name):
                return {_LATER: name}
            case ListNote():
                return super().generate_inner(schema["choices"][0])
            case ObjectNote(doc, names):
                described = with_spellings(super().generate_inner(schema), names)
                return described if doc is None else {"description": inspect.cleandoc(doc), **described}
            case SpellingsNote(spellings):
                others = "|".join(map(re.escape, sorted(spellings)))
                ours = super().generate_inner(schema)
                return {"anyOf": [ours, {"type": "string", "pattern": f"^({others})$"}]}
            case StructField():
                return {**super().generate_inner(schema), **_said_of(note)}
            case _:
                return super().generate_inner(schema)


def _said_of(field: StructField) -> Schema:
    """Return what a field says of itself: its help text, its default, and whether it is deprecated."""
    said: Schema = {} if field.description is None else {"description": field.description}
    if isinstance(field.default, bool | int | float | str):
        said["default"] = field.default
    return {**said, "deprecated": True} if "deprecated" in field.extra else said


def models_in(hint: Any) -> Iterator[type[FileModel]]:
    """Yield the models in a type, and in these."""
    if isinstance(hint, type) and issubclass(hint, FileModel):
        yield hint
        for field in struct_fields(hint):
            yield from models_in(field.type)
    for inner in get_args(hint):
        yield from models_in(inner)
