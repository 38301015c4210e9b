"""The `is_json` rule: strict JSON, and with a schema JSON of that shape."""

import json
from collections.abc import Iterator, Mapping
from typing import Annotated

from msgspec import Meta, Struct

from agentv.evaluators.json_schema import check_schema, make_schema_check
from agentv.evaluators.rules import Check, Finding, RuleEvaluator, quoted
from agentv.types.cases import EvaluatorConfig
from agentv.types.json_value import JsonValue
from agentv.types.protocols import EvaluatorTools

MAX_MISSES = 10
"""How many violations of a schema are listed."""


class JsonSettings(Struct, frozen=True):
    """Settings of `is_json`."""

    schema: Annotated[
        Mapping[str, JsonValue] | None, Meta(description="a JSON Schema (draft 2020-12) that the value must satisfy")
    ] = None
    fenced: Annotated[bool, Meta(description="look inside the first code fence, if there is one")] = False

    def __post_init__(self) -> None:
        """Refuse a schema that is none."""
        if self.schema is not None:
            check_schema(self.schema)


def make_is_json(config: EvaluatorConfig, settings: JsonSettings, _tools: EvaluatorTools) -> RuleEvaluator:
    """Make an `is_json`."""
    return RuleEvaluator("is_json", json_check(settings), source=config.source, inline=False)


def json_check(settings: JsonSettings) -> Check:
    """Return the check whether a text is JSON, and fits the schema if there is one."""
    fits = None if settings.schema is None else make_schema_check(settings.schema)

    def check(text: str) -> Finding:
        inner = fenced_text(text) if settings.fenced else text
        try:
            value = _strict_json(inner)
        except (ValueError, RecursionError) as error:
            return Finding(passed=False, misses=(f"expected JSON, got {quoted(inner)}: {_reason(error)}",))
        if fits is None:
            return Finding(passed=True, hits=("is JSON",))
        problems = list(first_problems(fits(value)))
        return Finding(not problems, () if problems else ("is JSON that fits the schema",), tuple(problems))

    return check


def fenced_text(text: str) -> str:
    """Return what stands in the first code fence of a text, or the whole text when there is none."""
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
    return "nested too deep" if isinstance(error, RecursionError) else str(error)


def first_problems(problems: Iterator[str]) -> Iterator[str]:
    """Yield the first ten of many problems, and that there are more."""
    for count, problem in enumerate(problems):
        if count == MAX_MISSES:
            yield "… and more"
            return
        yield problem
