"""`field_accuracy`: the fields of a JSON answer compared with those of the reference answer."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct

from agentv.evaluators.rules.base import judged_text, quoted
from agentv.evaluators.rules.json import fenced_text
from agentv.scoring.results.aggregation import weighted_mean
from agentv.scoring.results.sources import expected_answer
from agentv.scoring.tools.tool_calls import json_equal
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json
from agentv.types.protocols import EvaluatorTools

KIND = "field_accuracy"
Match: TypeAlias = Literal["exact", "numeric_tolerance", "date"]


class ExpectedField(Struct, frozen=True, kw_only=True):
    """One field that is compared."""

    path: Annotated[str, Meta(description="the field's path, such as `invoice.lines[0].amount`")]
    match: Annotated[Match, Meta(description="how values are compared: exact, numeric_tolerance or date")] = "exact"
    tolerance: Annotated[float, Meta(description="the allowed difference of two numbers")] = 0.0
    relative: Annotated[bool, Meta(description="true: the tolerance is a share of the expected number")] = False
    formats: Annotated[
        tuple[str, ...], Meta(description="date formats such as DD/MM/YYYY, which decide between day and month")
    ] = ()
    weight: Annotated[float, Meta(description="how much the field counts")] = 1.0
    required: Annotated[bool, Meta(description="false: the field is not counted if the answer leaves it out")] = True

    def __post_init__(self) -> None:
        """Raise ValueError for a field that cannot be compared."""
        if not self.path.strip():
            raise ValueError("`path` must not be empty")
        if not (math.isfinite(self.weight) and self.weight >= 0):
            raise ValueError("`weight` must be a finite number of at least 0")
        if not (math.isfinite(self.tolerance) and self.tolerance >= 0):
            raise ValueError("`tolerance` must be a finite number of at least 0")


class FieldAccuracySettings(Struct, frozen=True, kw_only=True):
    """Settings of `field_accuracy`."""

    fields: Annotated[tuple[ExpectedField, ...], Meta(description="the fields to compare: [{path, match, …}]")]
    aggregation: Annotated[
        Literal["weighted_average", "all_or_nothing"], Meta(description="how the fields' scores become one score")
    ] = "weighted_average"

    def __post_init__(self) -> None:
        """Raise ValueError without fields."""
        if not self.fields:
            raise ValueError("`fields` must list at least one field")


class _FieldScore(Struct, frozen=True):
    line: str
    met: bool
    weight: float


class FieldAccuracyEvaluator:
    """An evaluator that compares fields of a JSON answer with those of the reference answer."""

    kind = KIND
    reads_workspace = False
    reusable = True

    def __init__(self, settings: FieldAccuracySettings, *, source: str = "response") -> None:
        self._settings = settings
        self._source = source

    def evaluate(self, context: EvaluationContext) -> EvaluationScore:
        """Compare all fields. An answer that is not JSON, or a case without a reference answer in JSON, scores 0."""
        fields = self._settings.fields
        text = judged_text(context, self._source)
        given = read_json(text)
        if given is None:
            return _zero_score(f"expected JSON, got {quoted(text)}", len(fields))
        expected = _expected_json(context)
        if expected is None:
            return _zero_score("the case has no reference answer in JSON to compare with", len(fields))
        scores = [_compare(each, value_at(given, each.path), value_at(expected, each.path)) for each in fields]
        hits = tuple(each.line for each in scores if each.met)
        misses = tuple(each.line for each in scores if not each.met)
        score = weighted_mean((each.weight, float(each.met)) for each in scores)
        if self._settings.aggregation == "all_or_nothing":
            score = float(not misses)
        return EvaluationScore(score, hits, misses, len(scores))


def _zero_score(miss: str, aspects: int) -> EvaluationScore:
    return EvaluationScore(0.0, misses=(miss,), expected_aspect_count=aspects)


def read_json(text: str) -> JsonObject | Sequence[JsonValue] | None:
    """Return the JSON object or list in a text: the whole text, a code fence, or the outermost braces; else None."""
    in_braces = text[text.find("{") : text.rfind("}") + 1]
    for candidate in (text, fenced_text(text), in_braces):
        try:
            value = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict | list):
            return value
    return None


def _expected_json(context: EvaluationContext) -> JsonObject | Sequence[JsonValue] | None:
    """Return the JSON in the last expected assistant message that has any, else in the reference answer; else None."""
    for message in reversed(context.eval_case.expected_messages):
        found = _json_of(message)
        if found is not None:
            return found
    reference = expected_answer(context)
    if isinstance(reference, str):
        return read_json(reference)
    return reference if isinstance(reference, Mapping | list | tuple) else None


def _json_of(message: Message) -> JsonObject | Sequence[JsonValue] | None:
    if message.role != "assistant" or not message.content:
        return None
    if isinstance(message.content, Mapping):
        return message.content
    return read_json(message.content) if isinstance(message.content, str) else None


class _Missing:
    """The value of an absent field, as opposed to null."""


MISSING = _Missing()


def value_at(value: JsonValue, path: str) -> JsonValue | _Missing:
    """Return the value at a path such as `a.b[0].c`; MISSING if there is none."""
    for part in filter(None, re.split(r"[.\[\]]", path)):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, list | tuple) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return MISSING
    return value


def _compare(field: ExpectedField, given: JsonValue | _Missing, expected: JsonValue | _Missing) -> _FieldScore:
    if isinstance(expected, _Missing):
        return _FieldScore(f"{field.path}: nothing expected", met=True, weight=field.weight)
    if isinstance(given, _Missing):
        weight = field.weight if field.required else 0.0
        return _FieldScore(f"{field.path}: missing", met=not field.required, weight=weight)
    difference = _difference(field, given, expected)
    line = field.path if difference is None else f"{field.path}: {difference}"
    return _FieldScore(line, met=difference is None, weight=field.weight)


def _difference(field: ExpectedField, given: JsonValue, expected: JsonValue) -> str | None:
    """Describe how two values differ; None if they match."""
    values = f"expected {_shown(expected)}, got {_shown(given)}"
    if field.match == "exact":
        return None if json_equal(given, expected) else values
    if field.match == "date":
        given_day, expected_day = (read_date(_to_text(value), field.formats) for value in (given, expected))
        if given_day is None or expected_day is None:
            return f"{values}, which are not both dates"
        return None if given_day == expected_day else values
    number, expected_number = _number(given), _number(expected)
    if number is None or expected_number is None:
        return f"{values}, which are not both numbers"
    is_relative = field.relative and expected_number != 0
    allowed = field.tolerance * abs(expected_number) if is_relative else field.tolerance
    rounding = 1e-12 * max(1.0, abs(expected_number))
    is_near = abs(number - expected_number) <= allowed + rounding
    return None if is_near else f"{values} (tolerance: {field.tolerance:g})"


def _shown(value: JsonValue) -> str:
    return quoted(compact_json(value)) if isinstance(value, Mapping | list | tuple) else json.dumps(value)[:120]


def _to_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value)


_LEADING_NUMBER = re.compile(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def _number(value: JsonValue) -> float | None:
    """Return a number as it is, and of a text the number at its start; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    match = _LEADING_NUMBER.match(value) if isinstance(value, str) else None
    return None if match is None else float(match[0])


_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_NAMED_MONTH = re.compile(r"(\d{1,2})[-\s]([A-Za-z]{3,9})[-\s](\d{4})")
_THREE_NUMBERS = re.compile(r"(\d{1,2})[/-](\d{1,2})[/-](\d{4})")
_MONTHS_IN_YEAR = 12


def read_date(text: str, formats: Sequence[str] = ()) -> date | None:
    """Return the date in a text such as `2025-01-15`, `15-JAN-2025` or `15/01/2025`; None for anything else.

    In a date such as `03/04/2025` the first number is the month if `formats` name only MM/DD, and the day if they name
    only DD/MM. Otherwise a number above 12 is the day; if both are at most 12, the first is the month.
    """
    text = text.strip()
    try:
        return datetime.fromisoformat(text).date()
    except ValueError:
        pass
    if (named := _NAMED_MONTH.fullmatch(text)) is not None:
        name = named[2].lower()[:3]
        return _to_date(int(named[3]), _MONTHS.index(name) + 1, int(named[1])) if name in _MONTHS else None
    numbers = _THREE_NUMBERS.fullmatch(text)
    if numbers is None:
        return None
    first, second, year = (int(number) for number in numbers.groups())
    names_month_first = any(re.search(r"MM[/-]DD", each) for each in formats)
    names_day_first = any(re.search(r"DD[/-]MM", each) for each in formats)
    is_decided = names_month_first != names_day_first
    is_day_first = names_day_first if is_decided else first > _MONTHS_IN_YEAR >= second
    return _to_date(year, second, first) if is_day_first else _to_date(year, first, second)


def _to_date(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def make_field_accuracy(
    config: EvaluatorConfig, settings: FieldAccuracySettings, _tools: EvaluatorTools
) -> FieldAccuracyEvaluator:
    """Return a `field_accuracy` evaluator."""
    return FieldAccuracyEvaluator(settings, source=config.source)
