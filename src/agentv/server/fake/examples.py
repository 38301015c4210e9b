"""A value that a JSON Schema allows, always the same one."""

from collections.abc import Mapping

from agentv.server.fake.fields import as_count, as_list, as_object, as_text, objects
from agentv.types.json_value import JsonObject, JsonValue

_DEPTH = 8
_JOINING = frozenset({"$ref", "anyOf", "oneOf", "allOf"})
_FORMATS: Mapping[str, str] = {
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example_object(schema: JsonObject) -> JsonObject:
    """Return the arguments that a tool is called with: every required property, or all when none is required."""
    made = example_of(schema)
    return made if isinstance(made, Mapping) else {}


def example_of(schema: JsonObject, *, name: str = "", root: JsonObject | None = None, depth: int = 0) -> JsonValue:
    """Return the value: `const`, the first of `enum` or `examples`, `default`, else something small of the type.

    `name` is the property it is for, which texts are made of. References within the schema are followed.
    """
    root = schema if root is None else root
    schema = _merged(schema, root)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    for key in ("enum", "examples"):
        if as_list(schema.get(key)):
            return as_list(schema[key])[0]
    kind = _type_of(schema)
    if depth >= _DEPTH:
        return None
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        count = as_count(schema.get("minItems")) or 1
        item = example_of(as_object(schema.get("items")), name=name, root=root, depth=depth + 1)
        return [item] * min(count, as_count(schema.get("maxItems")) or count)
    return _scalar(schema, kind, name)


def _object(schema: JsonObject, root: JsonObject, depth: int) -> JsonObject:
    properties = as_object(schema.get("properties"))
    required = [as_text(name) for name in as_list(schema.get("required"))]
    return {
        name: example_of(as_object(properties.get(name)), name=name, root=root, depth=depth + 1)
        for name in required or properties
    }


def _scalar(schema: JsonObject, kind: str, name: str) -> JsonValue:
    if kind in ("integer", "number"):
        for bound in ("minimum", "exclusiveMinimum", "maximum"):
            limit = schema.get(bound)
            if isinstance(limit, int | float):
                return limit + 1 if bound == "exclusiveMinimum" else limit
        return 1
    if kind in ("boolean", "null"):
        return True if kind == "boolean" else None
    text = _FORMATS.get(as_text(schema.get("format"))) or f"some {name or 'text'}"
    text = text.ljust(as_count(schema.get("minLength")) or 0, ".")
    return text[: as_count(schema.get("maxLength"))]


def _type_of(schema: JsonObject) -> str:
    kind = schema.get("type")
    named = as_text(kind if isinstance(kind, str) else next(iter(as_list(kind)), None)).lower()
    return named or ("object" if "properties" in schema else "array" if "items" in schema else "string")


def _merged(schema: JsonObject, root: JsonObject) -> JsonObject:
    """Put what a schema refers to, its first alternative and all its parts into one."""
    for _ in range(_DEPTH):
        parts = _parts(schema, root)
        if not parts:
            break
        schema = {key: value for key, value in schema.items() if key not in _JOINING}
        for part in parts:
            schema = {**schema, **part}
    return schema


def _parts(schema: JsonObject, root: JsonObject) -> list[JsonObject]:
    alternatives = [objects(schema.get(key))[:1] for key in ("anyOf", "oneOf")]
    parts = [part for some in (*alternatives, objects(schema.get("allOf"))) for part in some]
    place = as_text(schema.get("$ref"))
    if place.startswith("#/"):
        found: JsonObject = root
        for step in place[2:].split("/"):
            found = as_object(found.get(step))
        parts.append(found)
    return parts
