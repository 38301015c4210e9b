"""What a tool was called with, or returned, checked by a JSON Schema or by a function of the user's."""

import copy
import inspect
import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from agentv.evaluators.json_rule import first_problems
from agentv.evaluators.json_schema import check_schema, make_schema_check, plain_json
from agentv.execution.callables import load_callable, raised_at
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonObject, JsonValue

ValueCheck: TypeAlias = Callable[[JsonValue], str | None]
"""Returns what is wrong with a value, None when nothing is. Raises EvaluatorError when it cannot tell."""

ArgsSetting: TypeAlias = JsonObject | str | Callable[..., object]
"""A JSON Schema, the name of a function (`python:path.py:function`), or from Python the function itself."""

_KEYWORDS = frozenset(
    """$anchor $comment $defs $dynamicAnchor $dynamicRef $id $ref $schema $vocabulary additionalProperties allOf anyOf
    const contains contentEncoding contentMediaType contentSchema default definitions dependentRequired
    dependentSchemas deprecated description else enum examples exclusiveMaximum exclusiveMinimum format if items
    maxContains maxItems maxLength maxProperties maximum minContains minItems minLength minProperties minimum
    multipleOf not oneOf pattern patternProperties prefixItems properties propertyNames readOnly required then title
    type unevaluatedItems unevaluatedProperties uniqueItems writeOnly""".split()  # noqa: SIM905 - as a list these words would be sixty lines
)


def check_args_setting(args: object) -> None:
    """Raise ValueError for `args` that are no JSON Schema and name no function."""
    if isinstance(args, str):
        if ":" not in function_name(args):
            raise ValueError("`args` must be a JSON Schema, or name a function: python:path.py:function")
    elif isinstance(args, Mapping):
        check_value_schema(args, name="args")


def check_value_schema(schema: JsonObject, *, name: str) -> None:
    """Raise ValueError for what is no JSON Schema, or looks like the wanted value itself: that would allow anything."""
    unknown = next((key for key in schema if key not in _KEYWORDS and not key.startswith("x-")), None)
    if unknown is not None:
        raise ValueError(
            f"`{name}` is a JSON Schema, and {unknown!r} is no keyword of one; for a wanted value write "
            f"{{properties: {{{unknown}: {{const: …}}}}}}"
        )
    check_schema(schema, name=name)


def function_name(args: str) -> str:
    """Return the function that a text names, without the `python:` that may stand before it."""
    return args.removeprefix("python:")


def make_args_check(args: ArgsSetting, *, base_dir: str) -> ValueCheck:
    """Return the check of a call's arguments; a function that a text names is loaded from `base_dir`, once."""
    if isinstance(args, str):
        return _function_check(load_callable(function_name(args), base_dir))
    return _function_check(args) if callable(args) else make_value_check(args)


def make_value_check(schema: JsonObject) -> ValueCheck:
    """Return the check of a value by a JSON Schema. JSON that came as a text is looked into, too."""
    problems = make_schema_check(schema)

    def check(value: JsonValue) -> str | None:
        inner = _parsed(value)
        try:
            found = list(first_problems(problems(plain_json(value))))
        except RecursionError as error:
            raise EvaluatorError("nested too deep to compare with the schema") from error
        if found and inner is not None:
            found = list(first_problems(problems(inner)))
        return "; ".join(found) or None

    return check


def _parsed(value: JsonValue) -> JsonValue:
    """Return the object or list that a text is, None for anything else."""
    if not isinstance(value, str):
        return None
    try:
        parsed: JsonValue = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict | list) else None


def _function_check(function: Callable[..., object]) -> ValueCheck:
    name = getattr(function, "__name__", type(function).__name__)

    def check(value: JsonValue) -> str | None:
        inner = _parsed(value)
        try:
            # A copy: whatever the function does to it, nobody else sees.
            returned = function(copy.deepcopy(value if inner is None else inner))
        except (Exception, SystemExit) as error:
            raise EvaluatorError(f"{name} raised {type(error).__name__}: {error}{raised_at(error)}") from error
        return _said(returned, name)

    return check


def _said(returned: object, name: str) -> str | None:
    """Return why a function refuses what it was given: it returns a bool, or `{isValid, reason}`."""
    if inspect.iscoroutine(returned):
        returned.close()
        raise EvaluatorError(f"{name} is a coroutine function; a check must be a plain one")
    reason: object = None
    verdict = returned
    if isinstance(returned, Mapping):
        fields = cast(Mapping[str, object], returned)
        verdict = fields.get("is_valid", fields.get("isValid"))
        reason = fields.get("reason")
    if not isinstance(verdict, bool):
        raise EvaluatorError(f"{name} returned {returned!r:.100}; it must return a bool or {{isValid, reason}}")
    return None if verdict else str(reason or f"refused by {name}")
