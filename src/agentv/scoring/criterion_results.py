"""One criterion's result on its own scale: from a 0..1 value, or from the error that says why there is none."""

from collections.abc import Sequence
from functools import lru_cache

from agentv.scoring.scales import denormalize
from agentv.types.evaluation import EvaluationResult
from agentv.types.json_value import JsonObject
from agentv.types.scales import EvaluationCriteria, EvaluationScale


def criterion_named(
    name: str, criteria: Sequence[EvaluationCriteria], *, scale: EvaluationScale = "binary"
) -> EvaluationCriteria:
    """Return the criterion of that name; one that nobody defined is on `scale`."""
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
    """Return the result of a 0..1 value, with the score that this is on the criterion's scale (pass is 5 on likert5).

    `kind` is the evaluator's type.
    """
    score = denormalize(value, criterion)
    return EvaluationResult(criterion.name, score, value, criterion.scale, reasoning, kind, None, metadata)


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
