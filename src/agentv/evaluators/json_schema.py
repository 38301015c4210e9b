"""JSON Schema, by the reference implementation, imported when the first schema is met.

Patterns in a schema run under the same one-second limit as the `regex` rule, and nothing is ever fetched: a `$ref` to
an address is an error.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonValue

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

SchemaCheck: TypeAlias = Callable[[JsonValue], Iterator[str]]
"""Yields every violation of a value as `$.path: what is wrong`."""


def check_schema(schema: Mapping[str, JsonValue], *, name: str = "schema") -> None:
    """Raise ValueError, saying what is wrong and where, for a schema that is none; `name` is the setting's."""
    import jsonschema  # noqa: PLC0415 - only suites with a schema pay for it

    try:
        _validator_class().check_schema(_plain(schema))
    except jsonschema.SchemaError as error:
        raise ValueError(f"`{name}` is no JSON Schema: {error.json_path}: {error.message}") from error


def make_schema_check(schema: Mapping[str, JsonValue]) -> SchemaCheck:
    """Return what tells the violations of a value. It raises EvaluatorError when the schema cannot be applied."""
    import jsonschema  # noqa: PLC0415 - as above
    import referencing  # noqa: PLC0415
    import referencing.exceptions  # noqa: PLC0415

    validator = _validator_class()(_plain(schema), registry=referencing.Registry())

    def problems(value: JsonValue) -> Iterator[str]:
        try:
            for error in validator.iter_errors(value):
                yield f"{error.json_path}: {_shortened(error.message)}"
        except referencing.exceptions.Unresolvable as error:
            raise EvaluatorError(f"the schema refers to what it does not hold: {error.ref}") from error
        except (jsonschema.exceptions.UndefinedTypeCheck, RecursionError, OverflowError) as error:
            raise EvaluatorError(f"the schema cannot be applied: {type(error).__name__}") from error

    return problems


@functools.cache
def _validator_class() -> "type[Validator]":
    import jsonschema  # noqa: PLC0415 - as above

    from agentv.evaluators.json_keywords import KEYWORDS  # noqa: PLC0415

    extend: Callable[..., type[Validator]] = jsonschema.validators.extend
    return extend(jsonschema.Draft202012Validator, KEYWORDS)


def _plain(schema: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the schema as dicts and lists: the reference implementation knows no other mappings."""
    plain: dict[str, JsonValue] = {key: plain_json(value) for key, value in schema.items()}
    return plain


def plain_json(value: JsonValue) -> JsonValue:
    """Return JSON made of dicts and lists only, copied."""
    if isinstance(value, Mapping):
        return _plain(value)
    return [plain_json(item) for item in value] if isinstance(value, list | tuple) else value


def _shortened(message: str) -> str:
    return message if len(message) <= 200 else f"{message[:200]} …"  # noqa: PLR2004 - one line on a screen
