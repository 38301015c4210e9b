"""JSON Schemas: their validity, and the violations in a value. References are not fetched, patterns are timed."""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from agentv.types.errors import EvaluatorError, nearest
from agentv.types.json_value import JsonValue

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


SchemaCheck: TypeAlias = Callable[[JsonValue], Iterator[str]]
"""A function that yields every violation in a value as `$.path: message`."""


_SCHEMA_KEYWORDS = frozenset(
    """$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalProperties allOf anyOf
    const contains contentEncoding contentMediaType contentSchema default definitions dependentRequired
    dependentSchemas deprecated description else enum examples exclusiveMaximum exclusiveMinimum format if items
    maxContains maxItems maxLength maxProperties maximum minContains minItems minLength minProperties minimum
    multipleOf not oneOf pattern patternProperties prefixItems properties propertyNames readOnly required then title
    type unevaluatedItems unevaluatedProperties uniqueItems writeOnly
    discriminator example externalDocs nullable xml""".split()  # noqa: SIM905 - as a list these words would be sixty lines
)
"""The keywords of draft 2020-12, and those of OpenAPI, which add no demand."""
_KEYWORDS_WITH_A_SCHEMA = frozenset(
    """additionalProperties contains contentSchema else if items not propertyNames then unevaluatedItems
    unevaluatedProperties""".split()  # noqa: SIM905 - as above
)
_KEYWORDS_WITH_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_KEYWORDS_WITH_NAMED_SCHEMAS = frozenset(
    {"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}
)


def check_schema(schema: Mapping[str, JsonValue], *, name: str = "schema") -> None:
    """Raise ValueError, with the place of the error, if a schema is not valid; `name` is the setting's name.

    A key that is no keyword is an error, because JSON Schema ignores it: it may be misspelt, or the schema may be an
    object of expected values, as `{city: Oslo}`.
    """
    import jsonschema  # noqa: PLC0415 - imported only for suites with a schema

    _check_keywords(schema, "$", name)
    try:
        jsonschema.Draft202012Validator.check_schema(_plain(schema))
    except jsonschema.SchemaError as error:
        raise ValueError(f"`{name}` is not a valid JSON Schema: {error.json_path}: {error.message}") from error
    _check_patterns(schema, "$", name)


def _check_keywords(schema: JsonValue, path: str, name: str) -> None:
    """Raise ValueError for a key that is no keyword in the schema at `path` or in one of its subschemas."""
    if not isinstance(schema, Mapping):
        return
    for key, value in schema.items():
        if key not in _SCHEMA_KEYWORDS and not key.startswith("x-"):
            where = "" if path == "$" else f"at {path}: "
            near = nearest(key, (each for each in _SCHEMA_KEYWORDS if not each.startswith("$")))
            raise ValueError(
                f"`{name}` must be a JSON Schema, but {where}{key!r} is not one of its keywords; "
                f"{f'did you mean {near!r}? ' if near else ''}to require a value of {key!r}, write "
                f"{{properties: {{{key}: {{const: …}}}}}}"
            )
        for place, subschema in _subschemas(key, value):
            _check_keywords(subschema, path + place, name)


def _subschemas(key: str, value: JsonValue) -> Iterator[tuple[str, JsonValue]]:
    """Yield the schemas under a keyword, with their places below the schema."""
    if key in _KEYWORDS_WITH_A_SCHEMA:
        yield f".{key}", value
    elif key in _KEYWORDS_WITH_SCHEMAS and isinstance(value, list | tuple):
        yield from ((f".{key}[{index}]", each) for index, each in enumerate(value))
    elif key in _KEYWORDS_WITH_NAMED_SCHEMAS and isinstance(value, Mapping):
        yield from ((f".{key}.{each}", subschema) for each, subschema in value.items())


_VALUE_KEYWORDS = frozenset({"const", "enum", "default", "examples"})
"""The keywords whose content is a value, not a schema."""


def _check_patterns(value: JsonValue, path: str, name: str) -> None:
    """Raise ValueError for a pattern in the part of a schema at `path` that cannot be compiled.

    If a `$ref` makes a value under `_VALUE_KEYWORDS` a schema, its patterns are compiled only when they are used.
    """
    if isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _check_patterns(item, f"{path}[{index}]", name)
    if not isinstance(value, Mapping):
        return
    named = value.get("patternProperties")
    for pattern in (value.get("pattern"), *(named if isinstance(named, Mapping) else ())):
        if isinstance(pattern, str):
            _check_pattern(pattern, path, name)
    for key, item in value.items():
        if key not in _VALUE_KEYWORDS:
            _check_patterns(item, f"{path}.{key}", name)


def _check_pattern(pattern: str, path: str, name: str) -> None:
    from agentv.scoring.text.patterns import compile_pattern  # noqa: PLC0415 - as above

    try:
        compile_pattern(pattern)
    except ValueError as error:
        raise ValueError(f"`{name}` is not a valid JSON Schema: {path}: the pattern {pattern!r} {error}") from error


def make_schema_check(schema: Mapping[str, JsonValue], *, any_draft: bool = False) -> SchemaCheck:
    """Return a function that yields the violations in a value, or raises EvaluatorError if the schema is unusable.

    With `any_draft`, the schema may name another draft than 2020-12 in `$schema`.
    """
    import jsonschema  # noqa: PLC0415 - as above
    import referencing  # noqa: PLC0415
    import referencing.exceptions  # noqa: PLC0415

    latest = jsonschema.Draft202012Validator
    draft = jsonschema.validators.validator_for(schema, default=latest) if any_draft else latest
    validator = _limited(draft)(_plain(schema), registry=referencing.Registry())

    def violations_of(value: JsonValue) -> Iterator[str]:
        try:
            for error in validator.iter_errors(value):
                yield f"{error.json_path}: {_shortened(error.message)}"
        except referencing.exceptions.Unresolvable as error:
            raise EvaluatorError(f"the schema has a $ref that cannot be resolved: {error.ref}") from error
        except (jsonschema.exceptions.UndefinedTypeCheck, RecursionError, OverflowError) as error:
            raise EvaluatorError(f"the schema cannot be applied: {type(error).__name__}") from error

    return violations_of


@functools.cache
def _limited(draft: "type[Validator]") -> "type[Validator]":
    """Return the validator of a draft with our checks of the keywords that can take unlimited time."""
    import jsonschema  # noqa: PLC0415 - as above

    from agentv.scoring.text.json_keywords import KEYWORDS  # noqa: PLC0415

    extend: Callable[..., type[Validator]] = jsonschema.validators.extend
    return extend(draft, {name: check for name, check in KEYWORDS.items() if name in draft.VALIDATORS})


def _plain(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema as dicts and lists; the jsonschema package accepts no other mappings."""
    plain: dict[str, JsonValue] = {key: plain_json(value) for key, value in schema.items()}
    return plain


def plain_json(value: JsonValue) -> JsonValue:
    """Return JSON made of dicts and lists only, copied."""
    if isinstance(value, Mapping):
        return _plain(value)
    return [plain_json(item) for item in value] if isinstance(value, list | tuple) else value


def _shortened(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:200]} …"  # noqa: PLR2004 - one line on a screen
