"""The `is_json` rule: a text is strict JSON and matches a JSON Schema, if one is given."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import Check, Finding, RuleEvaluator, quoted
from agentv.scoring.judge_replies.json_objects import (
    MAX_FAILED_TRIES,
    MAX_OBJECT_CHARS,
    FoundObjects,
    find_objects,
)
from agentv.scoring.text.json_schema import SchemaCheck, check_schema, make_schema_check
from agentv.types.cases import EvaluatorConfig
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonValue
from agentv.types.protocols import EvaluatorTools

MAX_MISSES = 10
"""The maximum number of violations that are listed."""


class JsonSettings(Struct, frozen=True):
    """Settings of `is_json`."""

    schema: Annotated[
        Mapping[str, JsonValue] | None, Meta(description="a JSON Schema (draft 2020-12) that the value must match")
    ] = None
    fenced: Annotated[bool, Meta(description="use the content of the first code fence, if there is one")] = False
    inside: Annotated[
        bool, Meta(description="find JSON objects inside the text; with `schema`, one of them must match it")
    ] = False

    def __post_init__(self) -> None:
        """Raise ValueError for an invalid schema, or if both `inside` and `fenced` are set."""
        if self.inside and self.fenced:
            raise ValueError("`inside` and `fenced` cannot be combined; `inside` finds objects in code fences too")
        if self.schema is not None:
            check_schema(self.schema)


def make_is_json(config: EvaluatorConfig, settings: JsonSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Return an `is_json` evaluator."""
    return RuleEvaluator("is_json", json_check(settings), source=config.source, inline=False)


def json_check(settings: JsonSettings) -> Check:
    """Return a check that a text is JSON and matches the schema, if there is one."""
    violations_of = None if settings.schema is None else make_schema_check(settings.schema)

    def check(text: str) -> Finding:
        if settings.inside:
            return _check_inside(text, violations_of)
        json_text = fenced_text(text) if settings.fenced else text
        try:
            value = _strict_json(json_text)
        except (ValueError, RecursionError) as error:
            return Finding(passed=False, misses=(f"expected JSON, got {quoted(json_text)}: {_reason(error)}",))
        if violations_of is None:
            return Finding(passed=True, hits=("is JSON",))
        problems = tuple(first_problems(violations_of(value)))
        if problems:
            return Finding(passed=False, misses=problems)
        return Finding(passed=True, hits=("is JSON that matches the schema",))

    return check


def _check_inside(text: str, violations_of: SchemaCheck | None) -> Finding:
    """Check that one of the JSON objects in a text matches; if none does, report the problems of the first object.

    Raises EvaluatorError if no object matches and the search did not cover the whole text.
    """
    search = _objects_in(text)
    problems = [() if violations_of is None else tuple(first_problems(violations_of(each))) for each in search.objects]
    if () in problems:
        matching = "" if violations_of is None else " that matches the schema"
        return Finding(passed=True, hits=(f"contains a JSON object{matching}",))
    _refuse_incomplete(search)
    if not problems:
        return Finding(passed=False, misses=(f"expected a JSON object inside the text, got {quoted(text)}",))
    return Finding(passed=False, misses=problems[0])


def _objects_in(text: str) -> FoundObjects:
    """Return the JSON objects in a text. Their length is limited, unless the whole text is one object."""
    try:
        whole = _strict_json(text)
    except (ValueError, RecursionError):
        return find_objects(text)
    return FoundObjects((whole,)) if isinstance(whole, Mapping) else find_objects(text)


def _refuse_incomplete(search: FoundObjects) -> None:
    """Raise EvaluatorError if the search for objects did not cover the whole text."""
    if not search.complete:
        raise EvaluatorError(f"the search for JSON objects stopped after {MAX_FAILED_TRIES:,} braces without an object")
    if search.skipped_long:
        raise EvaluatorError(
            f"the text may have a JSON object of over {MAX_OBJECT_CHARS:,} characters, which is only read if it is the "
            "whole text"
        )


def fenced_text(text: str) -> str:
    """Return the content of the first code fence in a text, or the whole text when there is none."""
    _, fence, rest = text.partition("```")
    inside, closing, _ = rest.partition("```")
    if not fence or not closing:
        return text
    first_line, newline, body = inside.partition("\n")
    # The line of the opening fence may name a language, which is not part of the code.
    return body if newline and not first_line.strip().startswith(("{", "[", '"')) else inside


def _strict_json(text: str) -> JsonValue:
    value: JsonValue = json.loads(text, parse_constant=_refuse_constant)
    return value


def _refuse_constant(name: str) -> JsonValue:
    raise ValueError(f"{name} is not JSON")


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def first_problems(problems: Iterator[str]) -> Iterator[str]:
    """Yield the first `MAX_MISSES` problems, then a note if there are more."""
    for count, problem in enumerate(problems):
        if count == MAX_MISSES:
            yield "… and more"
            return
        yield problem
