"""Scales of criteria, and the score over criteria, in which each criterion counts once, however many results it has.

The weight of a criterion is multiplied by the mean weight of the evaluators that scored it. With one result for each
evaluator the score is that of the case, in which each evaluator has the weight that `weight_in` returns.
"""

import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.results.aggregation import case_verdict, weighted_mean, zeroing_evaluators
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, Verdict
from agentv.types.json_value import JsonObject
from agentv.types.scales import NAMED_SCALES, EvaluationCriteria, EvaluationScale

_TRUE_WORDS = frozenset({"true", "pass", "yes", "1"})
_FALSE_WORDS = frozenset({"false", "fail", "no", "0"})
_NUMBER = re.compile(r"\s*([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)\s*(?:(%)|/\s*(\d+(?:\.\d+)?))?\s*", re.ASCII)


def normalize(score: float | str, criterion: EvaluationCriteria) -> float | None:
    """Return a score on its criterion's scale as 0..1; None for any score on a text scale.

    A text scale has a name of its own, and neither labels nor bounds. On every other scale a bool is 1 or 0, and so is
    a word such as `yes` or `fail` if there are no labels. Raises ValueError with the allowed scores for a score that is
    not on the scale.
    """
    if _is_text_scale(criterion):
        return None
    if isinstance(score, bool):
        return float(score)
    if criterion.labels:
        return _position_among(score, criterion.labels)
    if isinstance(score, str):
        return _text_value(score, criterion)
    return _number_value(float(score), criterion)


def _is_text_scale(criterion: EvaluationCriteria) -> bool:
    is_custom = criterion.scale not in NAMED_SCALES and not criterion.labels
    return is_custom and criterion.min is None and criterion.max is None


def denormalize(value: float, criterion: EvaluationCriteria) -> float | bool | str:
    """Return a 0..1 value on a criterion's own scale, the inverse of `normalize`: 1.0 is 5 on likert5.

    A value that has no equivalent on the scale is returned unchanged.
    """
    if criterion.labels:
        return criterion.labels[round(value * (len(criterion.labels) - 1))]
    match criterion.scale:
        case "numeric":
            return _number_between(_bounds(criterion), value)
        case "binary" if value in {0.0, 1.0}:
            return value == 1.0
        case "pass/fail" if value in {0.0, 1.0}:
            return "pass" if value == 1.0 else "fail"
        case "likert5":
            return 1 + 4 * value
        case "string" if value in {0.0, 1.0}:
            return "pass" if value == 1.0 else "fail"
        case "percent":
            return 100 * value
        case _:
            return value


def _number_between(bounds: tuple[float, float] | None, value: float) -> float:
    if bounds is None:
        return value
    low, high = bounds
    # low + value * (high - low) could overflow in the difference.
    return min(max(low * (1 - value) + high * value, low), high)


def _position_among(score: float | str, labels: tuple[str, ...]) -> float:
    """Return a score's position among labels, as 0..1; the numbers 0 and 1 are the ends unless they are labels."""
    written = score if isinstance(score, str) else f"{score:g}"
    if score in {0, 1} and written not in labels:
        return float(score)
    return _label_value(written, labels)


def _label_value(label: str, labels: tuple[str, ...]) -> float:
    folded = [known.casefold() for known in labels]
    if label.strip().casefold() not in folded:
        raise ValueError(f"{label!r} is not one of the labels {', '.join(labels)}")
    return folded.index(label.strip().casefold()) / (len(labels) - 1) if len(labels) > 1 else 1.0


def _text_value(text: str, criterion: EvaluationCriteria) -> float | None:
    number = _NUMBER.fullmatch(text) if criterion.scale in {"numeric", "likert5", "percent"} else None
    if number is not None:
        return _written_number(number, criterion)
    word = text.strip().casefold()
    if word in _TRUE_WORDS or word in _FALSE_WORDS:
        return float(word in _TRUE_WORDS)
    if criterion.scale not in NAMED_SCALES:
        return None
    raise ValueError(f"{text!r} cannot be read on the scale {criterion.scale}")


def _written_number(number: re.Match[str], criterion: EvaluationCriteria) -> float:
    value, percent, whole = float(number[1]), number[2], number[3]
    if percent is None and whole is None:
        return _number_value(value, criterion)
    if criterion.scale == "likert5":
        if whole is None or float(whole) != 5:  # noqa: PLR2004 - the five of likert5
            raise ValueError(f"{number[0]!r} cannot be read on the scale likert5; allowed: 1 to 5, or 4/5")
        return _number_value(value, criterion)
    share = value / 100 if whole is None else _share(value, float(whole))
    return _within(share, 0.0, 1.0, number[0].strip())


def _share(part: float, whole: float) -> float:
    if whole == 0:
        raise ValueError("a denominator of 0 is not allowed")
    return part / whole


def _number_value(value: float, criterion: EvaluationCriteria) -> float:
    match criterion.scale:
        case "binary" | "pass/fail":
            if value not in {0.0, 1.0}:
                raise ValueError(f"{value:g} is not 0 or 1, as the scale {criterion.scale} demands")
            return value
        case "likert5":
            return (_within(value, 1.0, 5.0, "likert5") - 1) / 4
        case "percent":
            return _within(value, 0.0, 100.0, "percent") / 100
        case _:
            return _numeric_value(value, criterion)


UNBOUNDED_ADVICE = "; for scores from 0 to 100, give the criterion `max: 100` or `scale: percent`"
"""The end of an error about a number on a numeric scale without bounds."""


def _numeric_value(value: float, criterion: EvaluationCriteria) -> float:
    if (bounds := _bounds(criterion)) is not None:
        low, high = bounds
        return (_within(value, low, high, criterion.name) / 2 - low / 2) / (high / 2 - low / 2)
    if not 0 <= value <= 100:  # noqa: PLR2004 - the two ranges of a numeric scale without bounds: 0..1 and 0..100
        raise ValueError(
            f"{value:g} is outside 0 to 100 ({criterion.name}); give the criterion bounds, such as `max: 100`, or "
            "`scale: percent`"
        )
    return value / 100 if value > 1 else value


def _bounds(criterion: EvaluationCriteria) -> tuple[float, float] | None:
    """Return the bounds of a numeric scale, with 0 or 1 for a missing one; None without either."""
    if criterion.min is None and criterion.max is None:
        return None
    low = 0.0 if criterion.min is None else criterion.min
    high = 1.0 if criterion.max is None else criterion.max
    if not -math.inf < low < high < math.inf:
        raise ValueError(f"the bounds {low:g} to {high:g} of {criterion.name!r} are not a range")
    return low, high


def _within(value: float, low: float, high: float, what: str) -> float:
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{value:g} is outside {low:g} to {high:g} ({what})")
    return value


ErrorPolicy: TypeAlias = Literal["exclude", "zero"]
"""The treatment of results with an error: `exclude` from the mean, or count as `zero`."""


class WeighedResult(Struct, frozen=True):
    """A result, and its evaluator's weight among those of the same criterion (finite, >= 0)."""

    result: EvaluationResult
    weight: float = 1.0


class CriteriaScore(Struct, frozen=True):
    """The score over criteria."""

    overall: float | None
    """0..1, None without a value."""
    scored: int
    """The number of `expected` results that are included."""
    expected: int


def criteria_score(
    weighed: Sequence[WeighedResult],
    criteria: Sequence[EvaluationCriteria],
    results: Sequence[EvaluatorResult] = (),
    *,
    error_policy: ErrorPolicy = "exclude",
) -> CriteriaScore:
    """Return the weighted mean over criteria; several results of one criterion are averaged first.

    An undefined criterion has weight 1. A result without a value and without an error is on a custom scale: it counts
    as expected, not as scored. An evaluator of weight 0 is not counted; if all have weight 0, the score is 0. `results`
    are the evaluators' results: one with `unmet: zero` whose `required` is not met makes the score 0.
    """
    valued = [
        (each.result.criterion_name, each.weight, value)
        for each in weighed
        if (value := _counted(each.result, error_policy)) is not None
    ]
    overall = mean_over_criteria(valued, weights_of(criteria)) if valued else None
    if any(each.error is None or error_policy == "zero" for each in zeroing_evaluators(results)):
        overall = None if overall is None else 0.0
    return CriteriaScore(overall, scored=sum(weight > 0 for _, weight, _ in valued), expected=len(weighed))


def criteria_verdict(
    score: CriteriaScore,
    weighed: Sequence[WeighedResult],
    criteria: Sequence[EvaluationCriteria],
    results: Sequence[EvaluatorResult],
) -> Verdict | None:
    """Return the verdict by the same rules as for a case, or None. `results` are the evaluators' results.

    A judge's failure never counts as a wrong answer: if a result that has weight or is required has an error, there is
    no verdict, whatever the error policy.
    """
    failed = [each.result.criterion_name for each in weighed if each.result.error is not None and each.weight > 0]
    if failed:
        weights = weights_of(criteria)
        failed = [name for name in failed if weights.get(name, 1.0) > 0]
    has_failed_evaluator = any(result.error is not None and result.required is not False for result in results)
    return None if score.overall is None or failed or has_failed_evaluator else case_verdict(score.overall, results)


def _counted(result: EvaluationResult, error_policy: ErrorPolicy) -> float | None:
    if result.error is not None:
        return 0.0 if error_policy == "zero" else None
    return result.value


def weights_of(criteria: Iterable[EvaluationCriteria]) -> Mapping[str, float]:
    """Return the weight of each criterion, by its name."""
    return {criterion.name: criterion.weight for criterion in criteria}


def mean_over_criteria(entries: Iterable[tuple[str, float, float]], weights: Mapping[str, float]) -> float:
    """Return the mean over criteria of entries (criterion, weight of the evaluator, value); weight 0 does not count."""
    by_name: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, weight, value in entries:
        if weight > 0:
            by_name[name].append((weight, value))
    if len({weight for pairs in by_name.values() for weight, _ in pairs}) > 1:  # equal weights cancel out
        weights = {
            name: weight_product(weights.get(name, 1.0), math.fsum(weight / len(pairs) for weight, _ in pairs))
            for name, pairs in by_name.items()
        }
    return weighted_mean((weights.get(name, 1.0), weighted_mean(pairs)) for name, pairs in by_name.items())


def weight_in(criteria: Iterable[EvaluationCriteria], config: EvaluatorConfig) -> float:
    """Return an evaluator's weight in its case: its own weight times that of the criterion that it scores."""
    criterion_name = config.criterion or config.name
    return next(
        (weight_product(config.weight, each.weight) for each in criteria if each.name == criterion_name), config.weight
    )


def weight_product(weight: float, other: float) -> float:
    """Return the product of two weights; finite and positive if both are, without overflow and underflow."""
    return min(max(weight * other, sys.float_info.min), sys.float_info.max) if weight > 0 and other > 0 else 0.0


def mixed_ranges(results: Iterable[EvaluationResult], criteria: Iterable[EvaluationCriteria]) -> tuple[str, ...]:
    """Return a warning for each `numeric` criterion without bounds that has scores both below and above 1.

    It is then unknown whether 0.9 means 90 % or 0.9 % (docs/how-to/criteria.md).
    """
    open_ended = [each.name for each in criteria if each.scale == "numeric" and each.min is None and each.max is None]
    if not open_ended:
        return ()
    scores: dict[str, list[float]] = defaultdict(list)
    for result in results:
        if isinstance(result.score, int | float) and not isinstance(result.score, bool):
            scores[result.criterion_name].append(result.score)
    return tuple(
        f"criterion {name!r} got scores on both sides of 1 ({min(scores[name]):g} and {max(scores[name]):g}); set its "
        "highest score with `max`"
        for name in open_ended
        if any(0 < score < 1 for score in scores[name]) and any(score > 1 for score in scores[name])
    )


def criterion_named(
    name: str, criteria: Sequence[EvaluationCriteria], *, scale: EvaluationScale = "binary"
) -> EvaluationCriteria:
    """Return the criterion of that name; an undefined one is on `scale`."""
    for each in criteria:
        if each.name == name:
            return each
    return _undefined_criterion(name, scale)


@lru_cache(maxsize=1024)
def _undefined_criterion(name: str, scale: EvaluationScale) -> EvaluationCriteria:
    return EvaluationCriteria(name, scale=scale)


def result_of(
    value: float,
    criterion: EvaluationCriteria,
    *,
    kind: str,
    reasoning: str | None = None,
    metadata: JsonObject | None = None,
) -> EvaluationResult:
    """Return the result of a 0..1 value, with the matching score on the criterion's scale (pass is 5 on likert5).

    `kind` is the evaluator's type.
    """
    score = denormalize(value, criterion)
    blank = blank_result(criterion.name, criterion.scale, kind)
    return replace(blank, score=score, value=value, reasoning=reasoning, metadata=metadata)


@lru_cache(maxsize=1024)
def blank_result(name: str, scale: EvaluationScale, kind: str) -> EvaluationResult:
    """Return the result of a criterion before it has a score; the same object for all cases."""
    return EvaluationResult(criterion_name=name, scale=scale, evaluator_type=kind)


def failed_result(
    error: str, criterion: EvaluationCriteria, *, kind: str, reasoning: str | None = None
) -> EvaluationResult:
    """Return the result of a criterion that could not be judged: an error without a score, on every scale."""
    return EvaluationResult(
        criterion_name=criterion.name,
        score=None,
        scale=criterion.scale,
        reasoning=reasoning,
        evaluator_type=kind,
        error=error,
    )
