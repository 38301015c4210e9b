"""Score over criteria: each criterion's weight counts once, however many results it has."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from msgspec import Struct

from agentv.scoring.results.aggregation import case_verdict, weighted_mean
from agentv.scoring.results.scales import denormalize
from agentv.types.criteria.scales import EvaluationCriteria, EvaluationScale
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, Verdict
from agentv.types.json_value import JsonObject

ErrorPolicy: TypeAlias = Literal["exclude", "zero"]
"""Results with an error are left out, or count as 0."""


class WeighedResult(Struct, frozen=True):
    """A result, and its evaluator's weight among those of the same criterion (finite, >= 0)."""

    result: EvaluationResult
    weight: float = 1.0


class CriteriaScore(Struct, frozen=True):
    """`overall` is 0..1, None when nothing could be scored; `scored` of `expected` results were included."""

    overall: float | None
    scored: int
    expected: int


def criteria_score(
    weighed: Sequence[WeighedResult], criteria: Sequence[EvaluationCriteria], *, error_policy: ErrorPolicy = "exclude"
) -> CriteriaScore:
    """Return the weighted mean over criteria; several results of one criterion are averaged first.

    An undefined criterion has weight 1. A result without a value and without an error is on a custom scale: it is
    expected, but not scored. An evaluator of weight 0 is reported but not counted.
    """
    weighing = [
        (each.result.criterion_name, each.weight, value)
        for each in weighed
        if each.weight > 0 and (value := _counted(each.result, error_policy)) is not None
    ]
    overall = mean_over_criteria(weighing, weights_of(criteria)) if weighing else None
    return CriteriaScore(overall, scored=len(weighing), expected=len(weighed))


def criteria_verdict(
    score: CriteriaScore,
    weighed: Sequence[WeighedResult],
    criteria: Sequence[EvaluationCriteria],
    said: Sequence[EvaluatorResult],
    *,
    is_unplaced: bool = False,
) -> Verdict | None:
    """Return the verdict of a judgement by the same rules as for a case; None when it is not clean.

    A judge's failure never counts as a wrong answer: an error of a result that has weight or is required leaves no
    verdict, whatever the error policy makes of the score. `said` are the evaluators' results; `is_unplaced` says that
    there was such an error without a criterion.
    """
    weights = weights_of(criteria)
    broken = any(
        each.result.error is not None and each.weight > 0 and weights.get(each.result.criterion_name, 1.0) > 0
        for each in weighed
    )
    unheard = any(result.error is not None and result.required is not False for result in said)
    return None if score.overall is None or broken or unheard or is_unplaced else case_verdict(score.overall, said)


def _counted(result: EvaluationResult, error_policy: ErrorPolicy) -> float | None:
    if result.error is not None:
        return 0.0 if error_policy == "zero" else None
    return result.value


def weights_of(criteria: Iterable[EvaluationCriteria]) -> Mapping[str, float]:
    """Return the weight of each criterion, by its name."""
    return {criterion.name: criterion.weight for criterion in criteria}


def mean_over_criteria(entries: Iterable[tuple[str, float, float]], weights: Mapping[str, float]) -> float:
    """Return the mean over criteria of `(criterion, weight among its results, value)`."""
    by_name: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for name, weight, value in entries:
        by_name[name].append((weight, value))
    return weighted_mean((weights.get(name, 1.0), weighted_mean(pairs)) for name, pairs in by_name.items())


def mixed_ranges(results: Iterable[EvaluationResult], criteria: Iterable[EvaluationCriteria]) -> tuple[str, ...]:
    """Return a warning for each `numeric` criterion without bounds whose results lie on both sides of 1.

    It is then unknown whether 0.9 is out of 1 or out of 100 (docs/how-to/criteria.md).
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
    return _undefined(name, scale)


@lru_cache(maxsize=1024)
def _undefined(name: str, scale: EvaluationScale) -> EvaluationCriteria:
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
    return EvaluationResult(
        criterion_name=criterion.name,
        score=score,
        value=value,
        scale=criterion.scale,
        reasoning=reasoning,
        evaluator_type=kind,
        error=None,
        metadata=metadata,
    )


def failed_result(
    error: str, criterion: EvaluationCriteria, *, kind: str, reasoning: str | None = None
) -> EvaluationResult:
    """Return the result of a criterion that could not be judged: an error on every scale, never a 1 of 5."""
    return EvaluationResult(
        criterion_name=criterion.name,
        score=None,
        scale=criterion.scale,
        reasoning=reasoning,
        evaluator_type=kind,
        error=error,
    )
