"""What our JSON Schemas need beyond pydantic's: other spellings of keys, parts that are put together later."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, cast

from msgspec import Struct
from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, WithJsonSchema
from pydantic_core import CoreSchema, core_schema

from agentv.loading.shape_fields import translate
from agentv.loading.spellings import Names

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema, or a part of one: JSON whose shape is the standard's, not ours."""

_LATER = "x-defined-as"


def defined_as(name: str) -> WithJsonSchema:
    """Mark a type whose schema stands under `$defs` with that name, once the whole is put together."""
    return WithJsonSchema({_LATER: name})


def with_spellings(schema: Schema, names: Names) -> Schema:
    """Return an object's schema that accepts every spelling of its keys, and lists only ours."""
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
    """Gives the shape of a settings dataclass the spellings of its keys."""

    names: Names

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Describe the keys with all their spellings."""
        return with_spellings(handler.resolve_ref_schema(handler(schema)), self.names)


class SpelledValue(Struct, frozen=True, eq=False):
    """Lets a text be spelled as others spell it; `spellings` are their words and ours."""

    spellings: Mapping[str, str]

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Read the other spellings as ours."""
        return core_schema.no_info_before_validator_function(
            partial(translate, spellings=self.spellings), handler(source)
        )

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Schema:
        """Accept the other spellings, and list only ours."""
        ours = handler(schema)
        kept: Schema = {key: ours.pop(key) for key in ("default", "description") if key in ours}
        others = "|".join(map(re.escape, sorted(self.spellings)))
        return {**kept, "anyOf": [ours, {"type": "string", "pattern": f"^({others})$"}]}


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
