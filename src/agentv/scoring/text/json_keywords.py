"""Checks of the JSON Schema keywords that the jsonschema package may take unlimited time to check.

Here the match of a pattern may take one second, as in the `regex` rule, and `uniqueItems` compares items by their
hashes instead of pair by pair.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from jsonschema import ValidationError

from agentv.scoring.text.patterns import compile_pattern
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonObject, JsonValue

PATTERN_TIMEOUT_S = 1.0

Problems: TypeAlias = Iterator[ValidationError]
Schema: TypeAlias = Mapping[str, Any]  # `check_schema` has checked the types


def _pattern(_validator: Any, pattern: str, instance: JsonValue, _schema: Schema) -> Problems:
    if isinstance(instance, str) and not _matches(pattern, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Schema, instance: JsonValue, _schema: Schema) -> Problems:
    if not isinstance(instance, Mapping):
        return
    for pattern, subschema in patterns.items():
        for key, value in instance.items():
            if _matches(pattern, key):
                yield from validator.descend(value, subschema, path=key, schema_path=pattern)


def _additional_properties(validator: Any, allowed: JsonValue, instance: JsonValue, schema: Schema) -> Problems:
    if not isinstance(instance, Mapping):
        return
    extra = sorted(set(instance) - set(_named_keys(instance, schema)))
    if isinstance(allowed, Mapping):
        for key in extra:
            yield from validator.descend(instance[key], allowed, path=key)
    elif allowed is False and extra:
        yield ValidationError(f"Additional properties are not allowed ({_unexpected(extra)})")


def _unevaluated_properties(validator: Any, allowed: JsonValue, instance: JsonValue, schema: Schema) -> Problems:
    if not isinstance(instance, Mapping):
        return
    known = set(_evaluated_keys(validator, instance, schema))
    extra = [key for key in sorted(set(instance) - known) if any(validator.descend(instance[key], allowed))]
    if extra:
        yield ValidationError(f"Unevaluated properties are not allowed ({_unexpected(extra)})")


def _unique_items(_validator: Any, unique: JsonValue, instance: JsonValue, _schema: Schema) -> Problems:
    if unique is True and isinstance(instance, list) and len(set(map(_hashable, instance))) < len(instance):
        yield ValidationError(f"{instance!r} has non-unique elements")


KEYWORDS: Mapping[str, Callable[[Any, Any, JsonValue, Schema], Problems]] = {
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}
"""The keywords by name, with the signature that jsonschema calls."""


def _named_keys(instance: JsonObject, schema: Schema) -> Iterator[str]:
    """Yield the keys of an object that match `properties` or `patternProperties` of a schema."""
    properties, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in instance:
        if key in properties or any(_matches(pattern, key) for pattern in patterns):
            yield key


def _evaluated_keys(validator: Any, instance: JsonObject, schema: JsonValue) -> Iterator[str]:
    """Yield the keys that a schema, or a subschema that applies in place, evaluates (JSON Schema 2020-12, 11.3)."""
    if not isinstance(schema, Mapping):
        return
    yield from _named_keys(instance, schema)
    # The other keys are evaluated if their values match this subschema.
    others = schema.get("additionalProperties", schema.get("unevaluatedProperties", False))
    yield from (key for key, value in instance.items() if _fits(validator, value, others))
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema:
            found = validator._resolver.lookup(schema[keyword])  # noqa: SLF001 - the keywords of jsonschema do the same
            referred = validator.evolve(schema=found.contents, _resolver=found.resolver)
            yield from _evaluated_keys(referred, instance, found.contents)
    for subschema in _applicable_subschemas(validator, instance, schema):
        yield from _evaluated_keys(validator, instance, subschema)


def _applicable_subschemas(validator: Any, instance: JsonObject, schema: Schema) -> Iterator[JsonValue]:
    """Yield the subschemas that evaluate keys of the same object; None where `then` or `else` is missing."""
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (each for each in schema.get(keyword, ()) if _fits(validator, instance, each))
    yield from (each for key, each in schema.get("dependentSchemas", {}).items() if key in instance)
    if "if" in schema:
        is_met = _fits(validator, instance, schema["if"])
        yield schema["if"] if is_met else schema.get("else")
        yield schema.get("then") if is_met else None


def _fits(validator: Any, instance: JsonValue, schema: JsonValue) -> bool:
    return not any(True for _ in validator.descend(instance, schema))


def _unexpected(keys: list[str]) -> str:
    return f"{', '.join(map(repr, keys))} {'was' if len(keys) == 1 else 'were'} unexpected"


def _hashable(value: JsonValue) -> object:
    """Return a hashable value that is equal for equal JSON: 1 equals 1.0, but not true; key order does not matter."""
    if isinstance(value, Mapping):
        return frozenset((key, _hashable(item)) for key, item in value.items())
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    return (value, isinstance(value, bool)) if isinstance(value, int | float) else value


def _matches(pattern: str, text: str) -> bool:
    try:
        return compile_pattern(pattern).search(text, timeout=PATTERN_TIMEOUT_S) is not None
    except TimeoutError as error:
        message = f"the pattern {pattern!r} of the schema did not finish within {PATTERN_TIMEOUT_S:g} s"
        raise EvaluatorError(message, kind="regex_timeout") from error
    except ValueError as error:
        raise EvaluatorError(f"the pattern {pattern!r} of the schema {error}") from error
