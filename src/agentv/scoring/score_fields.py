"""Every field of what an evaluator returned, held to its type: what passes can be averaged, stored and read back."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeGuard, TypeVar, get_args

from msgspec.structs import replace

from agentv.scoring.plain_values import (
    finite_or_none,
    plain_count,
    plain_flag,
    plain_name,
    plain_number,
    plain_object,
    plain_text,
    plain_texts,
    plain_weight,
    refused,
    unit_number,
)
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import (
    EvaluationResult,
    EvaluationScore,
    EvaluatorResult,
    EvaluatorStatus,
    JudgeCall,
    JudgeRole,
    Verdict,
)
from agentv.types.failures import FAILURE_KINDS, Failure, Stage
from agentv.types.records.fields import TOLERANCE
from agentv.types.usage import Usage

Part = TypeVar("Part")
# Where an interpreter has several of these, a score is merely looked at twice.
_NOTHING: object = ()
_SCORED: object = "scored"
# What a check returns goes into a field by its name, which no type checker can follow.
Check: TypeAlias = Callable[[object, str], Any]


def checked_score(score: EvaluationScore) -> EvaluationScore:
    """Return a score of plain types and finite numbers, with as many aspects as it has hits and misses, or more.

    Its number is 0.0 when it carries an error. Raises EvaluatorError that names the first field which is not what
    EvaluationScore says.
    """
    checked = _fields(score, EvaluationScore, "")
    named = len(checked["hits"]) + len(checked["misses"])
    checked["expected_aspect_count"] = max(checked["expected_aspect_count"], named)
    if checked["error"] is not None:
        return EvaluationScore(**{**checked, "score": 0.0, "status": "error"})
    if checked["status"] == "error":
        raise EvaluatorError("`status` is 'error' and `error` does not say which; give it a Failure")
    return EvaluationScore(**checked, score=unit_number(score.score, "evaluator"))


def is_plain(score: object) -> TypeGuard[EvaluationScore]:
    """Whether something is a score as rules give it: exact types, nothing nested. Most are, and need no second look."""
    if type(score) is not EvaluationScore:
        return False
    number, hits, misses, aspects = score.score, score.hits, score.misses, score.expected_aspect_count
    return (
        type(number) is float
        and 0.0 <= number <= 1.0
        and type(hits) is tuple
        and type(misses) is tuple
        and type(aspects) is int
        and aspects >= (len(lines := hits + misses) or 1)
        and not [line for line in lines if type(line) is not str]
        and (score.reasoning is None or type(score.reasoning) is str)
        and score.raw_aspects is None
        and score.evaluator_raw_request is None
        and score.verdict is None
        and score.status is _SCORED
        and score.error is None
        and score.results is _NOTHING
        and score.judge_calls is _NOTHING
        and score.members is _NOTHING
    )


def checked_result(result: EvaluationResult, at: str = "") -> EvaluationResult:
    """Return one criterion's result in plain types. A number that is not finite, or outside 0..1, is its error."""
    checked = EvaluationResult(**_fields(result, EvaluationResult, at))
    value = checked.value
    numbers = [number for number in (checked.score, value) if isinstance(number, float)]
    if not all(map(math.isfinite, numbers)):
        return _without_score(checked, "the score is not a finite number")
    if value is None or -TOLERANCE <= value <= 1 + TOLERANCE:
        return checked if value is None else replace(checked, value=min(1.0, max(0.0, value)))
    return _without_score(checked, f"the value {value:g} is outside 0 to 1")


def _without_score(result: EvaluationResult, reason: str) -> EvaluationResult:
    return replace(result, score=None, value=None, error=result.error or reason)


def _fields(part: object, sort: type, at: str) -> dict[str, Any]:
    prefix = f"{at}." if at else ""
    return {name: check(getattr(part, name), f"{prefix}{name}") for name, check in _FIELDS[sort].items()}


def _whole(sort: type[Part], value: object, at: str) -> Part:
    if not isinstance(value, sort):
        raise refused(value, at, f"of class {sort.__name__}")
    return sort(**_fields(value, sort, at))


def _all(check: Check, values: object, at: str) -> tuple[Any, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise refused(values, at, "a tuple")
    return tuple(check(value, f"{at}[{index}]") for index, value in enumerate(values))


def _maybe(check: Check, value: object, at: str) -> object:
    return None if value is None else check(value, at)


def _result(value: object, at: str) -> EvaluationResult:
    if not isinstance(value, EvaluationResult):
        raise refused(value, at, "of class EvaluationResult")
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


_maybe_text = partial(_maybe, plain_text)
_maybe_number = partial(_maybe, finite_or_none)
_maybe_object = partial(_maybe, plain_object)
_maybe_usage = partial(_maybe, partial(_whole, Usage))
_members = partial(_all, partial(_whole, EvaluatorResult))

_JUDGED: Mapping[str, Check] = {
    "hits": plain_texts,
    "misses": plain_texts,
    "expected_aspect_count": _aspects,
    "reasoning": _maybe_text,
    "raw_aspects": partial(_maybe, plain_texts),
    "verdict": partial(_maybe, partial(plain_name, get_args(Verdict))),
    "status": partial(plain_name, get_args(EvaluatorStatus)),
    "error": partial(_maybe, partial(_whole, Failure)),
    "results": partial(_all, _result),
    "judge_calls": partial(_all, partial(_whole, JudgeCall)),
}
_FIELDS: Mapping[type, Mapping[str, Check]] = {
    # The score's own number is read with its error in view.
    EvaluationScore: {**_JUDGED, "evaluator_raw_request": _maybe_object, "members": _members},
    EvaluatorResult: {
        **_JUDGED,
        "name": plain_text,
        "type": plain_text,
        "score": unit_number,
        "weight": plain_weight,
        "required": _required,
        "evaluator_provider_request": _maybe_object,
        "duration_ms": _maybe_number,
        "usage": _maybe_usage,
        "cost_usd": _maybe_number,
        "evaluator_results": _members,
    },
    EvaluationResult: {
        "criterion_name": plain_text,
        "score": _scale_score,
        "value": partial(_maybe, plain_number),
        "scale": plain_text,
        "reasoning": _maybe_text,
        "evaluator_type": plain_text,
        "error": _maybe_text,
        "metadata": _maybe_object,
    },
    JudgeCall: {
        "judge": plain_text,
        "role": partial(plain_name, get_args(JudgeRole)),
        "reply": plain_text,
        "score": _maybe_number,
        "usage": _maybe_usage,
        "cost_usd": _maybe_number,
        "duration_ms": _maybe_number,
        "cached": plain_flag,
    },
    Failure: {
        "kind": partial(plain_name, FAILURE_KINDS),
        "message": plain_text,
        "stage": partial(plain_name, get_args(Stage)),
        "retryable": plain_flag,
        "http_status": partial(_maybe, plain_count),
        "retry_after_s": _maybe_number,
        "details": _maybe_object,
    },
    Usage: dict.fromkeys(Usage.__struct_fields__, plain_count),
}
