"""Validation of an evaluator's output, and its conversion to an EvaluationScore without NaN and infinity.

Plug-ins may return objects of any type. The `plain_…` functions return a value as its exact built-in type. They raise
EvaluatorError for a value of the wrong type or out of range; `at` is the path of the field, for the message.
"""

import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

from msgspec.structs import replace

from agentv.scoring.results.aggregation import is_met
from agentv.scoring.results.criteria import (
    blank_result,
    criterion_named,
    denormalize,
    failed_result,
    mean_over_criteria,
    normalize,
    result_of,
    weights_of,
)
from agentv.scoring.results.unit_scores import unit_score
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import (
    VERDICTS,
    EvaluationResult,
    EvaluationScore,
    EvaluatorResult,
)
from agentv.types.failures import Failure, FailureKind
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.scales import EvaluationCriteria
from agentv.types.stored import TOLERANCE
from agentv.types.structs import struct_fields
from agentv.types.usage import Usage, known_cost, known_usage

# Limits on the work for an object that contains itself.
_MAX_DEPTH = 100
_MAX_CONTAINERS = 100_000
# A longer integer does not fit into a float.
_INTEGER_BITS = 1024


def type_text(value: object) -> str:
    """Return a description of a value's type, for messages."""
    return "nothing" if value is None else f"a {type(value).__name__}"


def type_error(value: object, at: str, wanted: str) -> EvaluatorError:
    """Return the error for a field of the wrong type; `wanted` describes the right one."""
    return EvaluatorError(f"`{at}` must be {wanted}, got {type_text(value)}")


def plain_text(value: object, at: str) -> str:
    """Return a plain str. The methods of a subclass are not called, because they may return another text each time."""
    if type(value) is str:
        return value
    if not isinstance(value, str):
        raise type_error(value, at, "a string")
    return str.__str__(value)


def plain_texts(values: object, at: str) -> tuple[str, ...]:
    """Return a tuple of texts; `str` converts the values among them that are not texts."""
    if type(values) is tuple and not values:
        return ()
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise type_error(values, at, "a sequence of texts")
    return tuple(plain_text(value if isinstance(value, str) else str(value), at) for value in values)


def plain_flag(value: object, at: str) -> bool:
    """Return True or False."""
    if not isinstance(value, bool):
        raise type_error(value, at, "True or False")
    return value


def plain_number(value: object, at: str) -> float:
    """Return a number, infinite if it is too large for a float. Bools and NumPy's numbers are accepted."""
    if type(value) is float:
        return value
    if not isinstance(value, Real):
        raise type_error(value, at, "a number")
    try:
        return float.__float__(float(value))
    except OverflowError:
        return math.inf


def finite_or_none(value: object, at: str) -> float | None:
    """Return a number, or None when it is not finite."""
    number = plain_number(value, at)
    return number if math.isfinite(number) else None


def plain_weight(value: object, at: str) -> float:
    """Return a number, which must be finite and at least 0."""
    number = plain_number(value, at)
    if not 0 <= number < math.inf:
        raise EvaluatorError(f"`{at}` must be finite and at least 0, got {number:g}")
    return number


def finite_score(value: object, what: str) -> float:
    """Return the score of `what`, the judged criterion or evaluator, or the path of the field.

    Raises EvaluatorError for NaN and infinity, and for other types.
    """
    if not isinstance(value, Real):
        raise EvaluatorError(f"the score of {what!r} is not a number but {type_text(value)}")
    number = plain_number(value, what)
    if not math.isfinite(number):
        raise EvaluatorError(f"the score of {what!r} is {number:g}; allowed: 0 to 1")
    return number


def unit_number(value: object, what: str) -> float:
    """Return the score of `what`, a number from 0 to 1. A number up to 1e-9 outside is clamped.

    Raises EvaluatorError for other numbers, and as `finite_score` does.
    """
    number = finite_score(value, what)
    if not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise EvaluatorError(f"the score of {what!r} is {number:g}; allowed: 0 to 1")
    return min(1.0, max(0.0, number))


def plain_count(value: object, at: str) -> int:
    """Return an integer, which must be at least 0 and have at most 1,024 bits."""
    if type(value) is int and 0 <= value <= sys.maxsize:
        return value
    if not isinstance(value, Integral):
        raise type_error(value, at, "a whole number")
    number = int.__int__(int(value))
    if number < 0 or number.bit_length() > _INTEGER_BITS:
        raise EvaluatorError(f"`{at}` must be at least 0, and small enough for a float")
    return number


def plain_name(names: Sequence[str], value: object, at: str) -> str:
    """Return a string that is one of `names`."""
    text = plain_text(value, at)
    if text not in names:
        raise EvaluatorError(f"`{at}` must be one of {', '.join(names)}, got {text[:40]!r}")
    return text


def plain_object(value: object, at: str) -> JsonValue:
    """Return a JSON object in built-in types. A number that is not finite, or too large for a float, becomes None."""
    if not isinstance(value, Mapping):
        raise type_error(value, at, "a mapping")
    return _plain_json(value, at, _MAX_DEPTH, iter(range(_MAX_CONTAINERS)))


def _plain_json(value: object, at: str, levels: int, remaining: Iterator[int]) -> JsonValue:
    """Return JSON in built-in types, at most `levels` deep. Each list and each object takes one item of `remaining`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value, at)
    if isinstance(value, int):
        return int.__int__(value) if value.bit_length() <= _INTEGER_BITS else None
    if isinstance(value, Real):
        return finite_or_none(value, at)
    if levels == 0 or next(remaining, None) is None:
        raise EvaluatorError(
            f"`{at}` is nested more than {_MAX_DEPTH} levels deep, or has over {_MAX_CONTAINERS:,} lists and objects"
        )
    if isinstance(value, Mapping):
        return {
            plain_text(key, f"{at} (a key)"): _plain_json(item, at, levels - 1, remaining)
            for key, item in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
        return [_plain_json(item, at, levels - 1, remaining) for item in value]
    raise type_error(value, at, "JSON")


Part = TypeVar("Part")
# Compared by identity: if an equal object is not identical, the score is checked in full, which is only slower.
_EMPTY: object = ()
_SCORED: object = "scored"
# Any, because the result of a check is assigned to a field by name, which type checkers cannot follow.
Check: TypeAlias = Callable[[object, str], Any]


def checked_score(score: EvaluationScore) -> EvaluationScore:
    """Return a score of plain types and finite numbers, with at least as many aspects as it has hits and misses.

    With an error there is no verdict, and the score is 0.0 unless it was clamped. A score outside 0..1 is clamped, and
    becomes a `judge_error` if it is on another scale. Raises EvaluatorError that names the first unusable field.
    """
    checked = _fields(score, EvaluationScore, "")
    line_count = len(checked["hits"]) + len(checked["misses"])
    checked["expected_aspect_count"] = max(checked["expected_aspect_count"], line_count)
    if checked["error"] is not None:
        number = unit_number(score.score, "evaluator") if checked["clamped"] else 0.0
        return EvaluationScore(**{**checked, "score": number, "verdict": None, "status": "error"})
    if checked["status"] == "error":
        raise EvaluatorError("`status` is 'error' but `error` is missing; give it a Failure")
    unit = unit_score(finite_score(score.score, "evaluator"))
    checked |= {"score": unit.value, "clamped": checked["clamped"] or unit.is_clamped}
    if unit.failure is not None:
        checked |= {"verdict": None, "status": "error", "error": unit.failure}
    return EvaluationScore(**checked)


def is_plain(score: object) -> TypeGuard[EvaluationScore]:
    """Return True for a score of exact types with nothing nested, as rules return; such scores need no full check."""
    if type(score) is not EvaluationScore or type(score.hits) is not tuple or type(score.misses) is not tuple:
        return False
    number, lines, aspects = score.score, score.hits + score.misses, score.expected_aspect_count
    for line in lines:
        if type(line) is not str:
            return False
    return (
        type(number) is float
        and 0.0 <= number <= 1.0
        and type(aspects) is int
        and aspects >= (len(lines) or 1)
        and (score.reasoning is None or type(score.reasoning) is str)
        and score.raw_aspects is None
        and score.evaluator_raw_request is None
        and score.verdict in VERDICTS
        and score.must_fail is False
        and score.clamped is False
        and score.status is _SCORED
        and score.error is None
        and score.results is _EMPTY
        and score.judge_calls is _EMPTY
        and score.members is _EMPTY
    )


def checked_result(result: EvaluationResult, at: str = "") -> EvaluationResult:
    """Return one criterion's result in plain types. Raises EvaluatorError for a field of the wrong type.

    A score or value that is not finite, or a value outside 0..1, is replaced by an error in the result.
    """
    checked = EvaluationResult(**_fields(result, EvaluationResult, at))
    value = checked.value
    numbers = [number for number in (checked.score, value) if isinstance(number, float)]
    if not all(map(math.isfinite, numbers)):
        return _without_score(checked, "the score is not a finite number")
    if value is None:
        return checked
    if not -TOLERANCE <= value <= 1 + TOLERANCE:
        return _without_score(checked, f"the value {value:g} is outside 0 to 1")
    return replace(checked, value=min(1.0, max(0.0, value)))


def _without_score(result: EvaluationResult, reason: str) -> EvaluationResult:
    return replace(result, score=None, value=None, error=result.error or reason)


def _fields(part: object, cls: type, at: str) -> dict[str, Any]:
    """Return the fields of an object by name, each checked; `at` is the object's path."""
    prefix = f"{at}." if at else ""
    return {name: check(getattr(part, name), f"{prefix}{name}") for name, check in _checks_of(cls).items()}


def _checked_instance(cls: type[Part], value: object, at: str) -> Part:
    if not isinstance(value, cls):
        raise type_error(value, at, f"of class {cls.__name__}")
    return cls(**_fields(value, cls, at))


def _each(check: Check, values: object, at: str) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise type_error(values, at, "a tuple")
    return tuple(check(value, f"{at}[{index}]") for index, value in enumerate(values))


def _optional(check: Check, value: object, at: str) -> object:
    return None if value is None else check(value, at)


def _result(value: object, at: str) -> EvaluationResult:
    if not isinstance(value, EvaluationResult):
        raise type_error(value, at, "of class EvaluationResult")
    return checked_result(value, at)


def _aspects(value: object, at: str) -> int:
    return max(1, plain_count(value, at))


def _required(value: object, at: str) -> bool | float:
    return value if isinstance(value, bool) else plain_weight(value, at)


def _scale_score(value: object, at: str) -> float | bool | str | None:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain_text(value, at)
    number = plain_number(value, at)
    return int(number) if isinstance(value, int) and number.is_integer() else number


def _optional_number(value: object, at: str) -> float | None:
    return None if value is None else finite_or_none(value, at)


def _cost(value: object, at: str) -> float | None:
    return None if value is None else known_cost(plain_number(value, at))


def _usage(value: object, at: str) -> Usage | None:
    return known_usage(_checked_instance(Usage, value, at))


_CHECKS_OF_TYPES: Mapping[object, Check] = {
    str: plain_text,
    bool: plain_flag,
    int: plain_count,
    float: plain_number,
    tuple[str, ...]: plain_texts,
    JsonObject: plain_object,
    EvaluationResult: _result,
    Usage: _usage,
}
_CHECKS_OF_FIELDS: Mapping[str, Check] = {
    "cost_usd": _cost,
    "expected_aspect_count": _aspects,
    "required": _required,
    "weight": plain_weight,
}
"""Fields with a rule of their own, in every class."""
_OWN_CHECKS: Mapping[type, Mapping[str, Check]] = {
    EvaluationScore: {"score": lambda value, _at: value},  # `checked_score` checks it, since it depends on `error`
    EvaluatorResult: {"score": unit_number},
    EvaluationResult: {"score": _scale_score, "value": partial(_optional, plain_number)},
}


@cache
def _checks_of(cls: type) -> Mapping[str, Check]:
    """Return the check of each field of a class: a rule of its own, or that of its type."""
    own = {**_CHECKS_OF_FIELDS, **_OWN_CHECKS.get(cls, {})}
    return {each.name: own.get(each.name) or _check_of(each.type) for each in struct_fields(cls)}


def _check_of(hint: Any) -> Check:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _check_of(arguments[0])
    if origin in (Union, UnionType):
        (kind,) = (_check_of(each) for each in arguments if each is not NoneType)
        return _optional_number if kind is plain_number else partial(_optional, kind)
    if hint in _CHECKS_OF_TYPES:
        return _CHECKS_OF_TYPES[hint]
    if origin is Literal:
        return partial(plain_name, arguments)
    return partial(_each, _check_of(arguments[0])) if origin is tuple else partial(_checked_instance, hint)


def failed_score(message: str, *, kind: FailureKind = "evaluator_error") -> EvaluationScore:
    """Return the score of an evaluator that could not judge: 0.0, with the message in `misses`."""
    return score_of_failure(Failure(kind=kind, message=message, stage="evaluator"))


def score_of_failure(failure: Failure) -> EvaluationScore:
    """Return the score of an evaluator that failed: 0.0, with the failure's message in `misses`."""
    return EvaluationScore(score=0.0, misses=(failure.message,), status="error", error=failure)


def to_score(
    output: object,
    *,
    name: str = "",
    kind: str = "",
    criteria: Sequence[EvaluationCriteria] = (),
    negate: bool = False,
) -> EvaluationScore:
    """Complete the output of an evaluator: a score, a number, a bool, or results per criterion.

    `name` is the criterion if the output names none, `kind` the evaluator's type, `criteria` the scales and weights of
    named criteria. With `negate`, a score of 1 becomes 0, and hits become misses. Never raises: an output of another
    type or with a field of the wrong type becomes a score with an `evaluator_error`, a score on another scale than 0..1
    one with a `judge_error`.
    """
    try:
        score = output if is_plain(output) else _complete(output, name, kind, criteria)
        if score.status == "skipped":  # nothing was judged, so no criterion gets a result
            return score
        if negate and score.error is None:
            score = _negated(score, criteria)
        return score if score.results else replace(score, results=(_implicit_result(score, name, kind, criteria),))
    except EvaluatorError as error:
        failed = failed_score(str(error))
    except Exception as error:  # noqa: BLE001 - looking at a plug-in's object runs the plug-in's code
        failed = failed_score(f"what evaluator {name or kind!r} returned cannot be read: {_error_text(error)}")
    return replace(failed, results=(_implicit_result(failed, name, kind, criteria),))


def _complete(output: object, name: str, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationScore:
    """Return an output of any allowed type as a checked score. Raises EvaluatorError for other outputs."""
    if isinstance(output, EvaluationScore):
        return checked_score(output)
    if isinstance(output, EvaluationResult):
        return score_of_results((output,), kind, criteria)
    if isinstance(output, Real):
        return checked_score(EvaluationScore(score=finite_score(output, name or kind or "evaluator")))
    results = tuple(map(_as_result, output)) if isinstance(output, Sequence) else ()
    named = [item for item in results if isinstance(item, EvaluationResult)]
    if results and len(named) == len(results):
        return score_of_results(named, kind, criteria)
    raise EvaluatorError(
        f"evaluator {name or kind!r} returned {type_text(output)}; allowed: an EvaluationScore, a number from 0 to 1, "
        "a bool, or EvaluationResults"
    )


def _as_result(item: object) -> object:
    """Return a dict as a result per criterion, keys in snake_case or camelCase; anything else unchanged."""
    if not isinstance(item, Mapping):
        return item
    try:
        return EvaluationResult.from_dict(dict(item))
    except EvalFileError as error:
        problems = "; ".join(problem.render() for problem in error.problems)
        raise EvaluatorError(f"a result that was returned as a dict cannot be read: {problems}") from error


def _error_text(error: Exception) -> str:
    """Return an exception's type and message; a substitute if its `__str__` raises."""
    try:
        return plain_text(f"{type(error).__name__}: {error}", "message")
    except Exception:  # noqa: BLE001 - the exception is the plug-in's, too
        return "the text of the error cannot be read"


def score_of_results(
    results: Sequence[EvaluationResult], kind: str, criteria: Sequence[EvaluationCriteria]
) -> EvaluationScore:
    """Return the score of results per criterion: the mean of their values, weighted by `criteria`.

    A result that is not on its scale gets an error. If any result has an error, the score is 0.0 with an
    `evaluator_error`; all results are kept. If all results are on text scales, which have no values, nothing is scored
    and the evaluator counts as skipped. Raises EvaluatorError if a result has a field of the wrong type.
    """
    placed = tuple(place_result(checked_result(result), kind=kind, criteria=criteria) for result in results)
    with_value = [result for result in placed if result.value is not None]
    entries = ((result.criterion_name, 1.0, result.value or 0.0) for result in with_value)
    failed = tuple(f"{result.criterion_name}: {result.error}" for result in placed if result.error is not None)
    misses = tuple(_criterion_line(result) for result in with_value if not is_met(result.value))
    score = EvaluationScore(
        score=mean_over_criteria(entries, weights_of(criteria)),
        hits=tuple(_criterion_line(result) for result in with_value if is_met(result.value)),
        misses=misses + failed,
        expected_aspect_count=len(placed),
        status="scored" if with_value or failed else "skipped",
        results=placed,
    )
    if not failed:
        return score
    failure = Failure(kind="evaluator_error", message="; ".join(failed), stage="evaluator")
    return replace(score, score=0.0, verdict=None, status="error", error=failure)


def place_result(result: EvaluationResult, *, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    """Return one criterion's result with its 0..1 value; with an error if its score is missing or not on the scale."""
    criterion = criterion_named(result.criterion_name, criteria, scale=result.scale)
    typed = replace(result, evaluator_type=result.evaluator_type or kind, scale=criterion.scale)
    if typed.error is not None:
        return replace(typed, value=None)
    try:
        return replace(typed, value=_value_of(typed, criterion))
    except (EvaluatorError, ValueError) as error:
        return replace(typed, value=None, error=str(error))


def _value_of(result: EvaluationResult, criterion: EvaluationCriteria) -> float | None:
    if result.value is not None:
        return unit_number(result.value, result.criterion_name)
    if result.score is None:
        raise EvaluatorError("there is neither a score nor an error")
    return normalize(result.score, criterion)


def _criterion_line(result: EvaluationResult) -> str:
    return f"{result.criterion_name}: {result.reasoning}" if result.reasoning else result.criterion_name


def _negated(score: EvaluationScore, criteria: Sequence[EvaluationCriteria]) -> EvaluationScore:
    """Return the opposite of a score; its verdict follows from the new score."""
    return replace(
        score,
        score=1.0 - score.score,
        hits=score.misses,
        misses=score.hits,
        verdict=None,
        must_fail=False,
        results=tuple(_negated_result(result, criteria) for result in score.results),
    )


def _negated_result(result: EvaluationResult, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    if result.value is None:
        return result
    value = 1.0 - result.value
    criterion = criterion_named(result.criterion_name, criteria, scale=result.scale)
    return replace(result, score=denormalize(value, criterion), value=value)


def _implicit_result(
    score: EvaluationScore, name: str, kind: str, criteria: Sequence[EvaluationCriteria]
) -> EvaluationResult:
    """Return the result for an output that names no criterion: its score or error, under `name`, else `kind`."""
    if not criteria and score.error is None:
        # Without criteria the scale is `numeric` without bounds, on which a score of 0..1 is its own value.
        blank = blank_result(name or kind, "numeric", kind)
        return replace(blank, score=score.score, value=score.score, reasoning=score.reasoning)
    criterion = criterion_named(name or kind, criteria, scale="numeric")
    if score.error is not None:
        return failed_result(score.error.message, criterion, kind=kind, reasoning=score.reasoning)
    return result_of(score.score, criterion, kind=kind, reasoning=score.reasoning)
