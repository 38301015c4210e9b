"""The one border where what an evaluator returned becomes an EvaluationScore. NaN and infinity never pass it."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Real

from agentv.scoring.aggregation import TOLERANCE, is_met, weighted_mean
from agentv.scoring.scales import denormalize, normalize
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorStatus
from agentv.types.failures import Failure, FailureKind
from agentv.types.scales import EvaluationCriteria


def failed_score(message: str, *, kind: FailureKind = "evaluator_error") -> EvaluationScore:
    """Return the score of an evaluator that could not judge: 0.0 by decision, the error's text in `misses`."""
    return score_of_failure(Failure(kind=kind, message=message, stage="evaluator"))


def score_of_failure(failure: Failure) -> EvaluationScore:
    """Return the score that stands for a failure."""
    return EvaluationScore(score=0.0, misses=(failure.message,), status="error", error=failure)


def to_score(
    output: object, *, name: str = "", kind: str = "", criteria: Sequence[EvaluationCriteria] = (), negate: bool = False
) -> EvaluationScore:
    """Complete what an evaluator returned: a score, a number, a bool, or results per criterion.

    `name` is the criterion when the evaluator names none, `kind` the evaluator's type, `criteria` the scales and
    weights of named criteria. Anything that is no judgement, or not in 0..1, becomes an `evaluator_error` score.
    """
    try:
        score = _complete(output, name, kind, criteria)
    except EvaluatorError as error:
        score = score_of_failure(error.failure)
    if negate and score.error is None:
        score = _negated(score)
    if not score.results:
        score = replace(score, results=(_implicit_result(score, name, kind, criteria),))
    return score


def _complete(output: object, name: str, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationScore:
    if isinstance(output, EvaluationScore):
        return _checked(output)
    if isinstance(output, EvaluationResult):
        return _from_results((output,), kind, criteria)
    if isinstance(output, Real):
        return EvaluationScore(score=_unit(output, name or kind or "evaluator"))
    if isinstance(output, Sequence) and output and all(isinstance(item, EvaluationResult) for item in output):
        return _from_results(output, kind, criteria)
    raise EvaluatorError(
        f"evaluator {name or kind!r} returned {_described(output)}; allowed: an EvaluationScore, a number from 0 to 1, "
        "a bool, or EvaluationResults"
    )


def _described(output: object) -> str:
    return "nothing" if output is None else f"a {type(output).__name__}"


def _unit(value: object, what: str) -> float:
    # bool, int and NumPy's numbers are all Real; an integer may be too large for a float.
    if not isinstance(value, Real):
        raise EvaluatorError(f"the score of {what!r} is no number but {_described(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not -TOLERANCE <= number <= 1 + TOLERANCE:
        raise EvaluatorError(f"the score of {what!r} is {number:g}; allowed: 0 to 1")
    return min(1.0, max(0.0, number))


def _checked(score: EvaluationScore) -> EvaluationScore:
    results = tuple(_finite(result) for result in score.results)
    if score.error is not None:
        return replace(score, score=0.0, status="error", expected_aspect_count=_aspects(score), results=results)
    return replace(
        score,
        score=_unit(score.score, "evaluator"),
        hits=_texts(score.hits, "hits"),
        misses=_texts(score.misses, "misses"),
        expected_aspect_count=_aspects(score),
        results=results,
    )


def _aspects(score: EvaluationScore) -> int:
    return max(1, len(score.hits) + len(score.misses), score.expected_aspect_count)


def _texts(values: object, what: str) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise EvaluatorError(f"`{what}` must be a sequence of texts, got {_described(values)}")
    return tuple(str(value) for value in values)


def _finite(result: EvaluationResult) -> EvaluationResult:
    numbers = (result.score, result.value)
    if all(math.isfinite(number) for number in numbers if isinstance(number, float)):
        return result
    return replace(result, score=None, value=None, error=result.error or "the score is not a finite number")


def _from_results(
    results: Sequence[EvaluationResult], kind: str, criteria: Sequence[EvaluationCriteria]
) -> EvaluationScore:
    placed = tuple(place_result(result, kind=kind, criteria=criteria) for result in results)
    valued = [result for result in placed if result.value is not None]
    weights = {criterion.name: criterion.weight for criterion in criteria}
    broken = [result for result in placed if result.error is not None]
    status: EvaluatorStatus = "error" if broken else "scored"
    return EvaluationScore(
        score=_criteria_mean(valued, weights),
        hits=tuple(_line(result) for result in valued if is_met(result.value)),
        misses=tuple(_line(result) for result in valued if not is_met(result.value)),
        expected_aspect_count=max(1, len(placed)),
        status=status,
        error=_broken_criteria(broken),
        results=placed,
    )


def place_result(result: EvaluationResult, *, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    """Return one criterion's result with its 0..1 value, or with the error that says why it has none."""
    own = EvaluationCriteria(result.criterion_name, scale=result.scale)
    criterion = next((each for each in criteria if each.name == result.criterion_name), own)
    typed = replace(result, evaluator_type=result.evaluator_type or kind, scale=criterion.scale)
    if typed.error is not None:
        return replace(typed, value=None)
    try:
        return replace(typed, value=_value_of(typed, criterion))
    except (EvaluatorError, ValueError) as error:
        return replace(typed, value=None, error=str(error))


def _value_of(result: EvaluationResult, criterion: EvaluationCriteria) -> float | None:
    if result.value is not None:
        return _unit(result.value, result.criterion_name)
    if result.score is None:
        raise EvaluatorError("there is neither a score nor an error")
    return normalize(result.score, criterion)


def _criteria_mean(valued: Sequence[EvaluationResult], weights: Mapping[str, float]) -> float:
    """Return the weighted mean over criteria; several results for one criterion enter as their mean, once."""
    by_name: dict[str, list[float]] = defaultdict(list)
    for result in valued:
        by_name[result.criterion_name].append(result.value or 0.0)
    return weighted_mean(
        (weights.get(name, 1.0), weighted_mean((1.0, value) for value in values)) for name, values in by_name.items()
    )


def _line(result: EvaluationResult) -> str:
    return f"{result.criterion_name}: {result.reasoning}" if result.reasoning else result.criterion_name


def _broken_criteria(broken: Sequence[EvaluationResult]) -> Failure | None:
    if not broken:
        return None
    message = "; ".join(f"{result.criterion_name}: {result.error}" for result in broken)
    return Failure(kind="evaluator_error", message=message, stage="evaluator")


def _negated(score: EvaluationScore) -> EvaluationScore:
    return replace(
        score,
        score=1.0 - score.score,
        hits=score.misses,
        misses=score.hits,
        verdict=None,
        results=tuple(_negated_result(result) for result in score.results),
    )


def _negated_result(result: EvaluationResult) -> EvaluationResult:
    flipped = not result.score if isinstance(result.score, bool) else result.score
    return result if result.value is None else replace(result, score=flipped, value=1.0 - result.value)


def _implicit_result(
    score: EvaluationScore, name: str, kind: str, criteria: Sequence[EvaluationCriteria]
) -> EvaluationResult:
    """Return the judgement of the one criterion that an evaluator stands for when it names none."""
    own = EvaluationCriteria(name or kind, scale="numeric")
    criterion = next((each for each in criteria if each.name == own.name), own)
    failed = score.error is not None
    return EvaluationResult(
        criterion_name=criterion.name,
        score=None if failed else denormalize(score.score, criterion),
        value=None if failed else score.score,
        scale=criterion.scale,
        reasoning=score.reasoning,
        evaluator_type=kind,
        error=score.error.message if score.error is not None else None,
    )
