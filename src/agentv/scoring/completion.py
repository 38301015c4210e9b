"""The one border where what an evaluator returned becomes an EvaluationScore. NaN and infinity never pass it."""

from collections.abc import Sequence
from numbers import Real

from msgspec.structs import replace

from agentv.scoring.aggregation import is_met
from agentv.scoring.criteria_score import mean_over_criteria, weights_of
from agentv.scoring.criterion_results import criterion_named, failed_result, result_of
from agentv.scoring.plain_values import described, plain_text, unit_number
from agentv.scoring.scales import denormalize, normalize
from agentv.scoring.score_fields import checked_result, checked_score, is_plain
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.failures import Failure, FailureKind
from agentv.types.scales import EvaluationCriteria


def failed_score(message: str, *, kind: FailureKind = "evaluator_error") -> EvaluationScore:
    """Return the score of an evaluator that could not judge: 0.0 by decision, the error's text in `misses`."""
    return score_of_failure(Failure(kind=kind, message=message, stage="evaluator"))


def score_of_failure(failure: Failure) -> EvaluationScore:
    """Return the score that stands for a failure."""
    return EvaluationScore(score=0.0, misses=(failure.message,), status="error", error=failure)


def to_score(
    output: object,
    *,
    name: str = "",
    kind: str = "",
    criteria: Sequence[EvaluationCriteria] = (),
    negate: bool = False,
) -> EvaluationScore:
    """Complete what an evaluator returned: a score, a number, a bool, or results per criterion.

    `name` is the criterion when the evaluator names none, `kind` the evaluator's type, `criteria` the scales and
    weights of named criteria. Never raises: whatever is no judgement in 0..1, or has a field that is not of its
    type, becomes an `evaluator_error` score that says so.
    """
    try:
        score = output if is_plain(output) else _complete(output, name, kind, criteria)
        if score.status == "skipped":  # nothing was judged, so that there is no criterion with a value
            return score
        if negate and score.error is None:
            score = _negated(score, criteria)
        return score if score.results else replace(score, results=(_implicit_result(score, name, kind, criteria),))
    except EvaluatorError as error:
        failed = failed_score(str(error))
    except Exception as error:  # noqa: BLE001 - looking at a plug-in's object runs the plug-in's code
        failed = failed_score(f"what evaluator {name or kind!r} returned cannot be read: {_said(error)}")
    return replace(failed, results=(_implicit_result(failed, name, kind, criteria),))


def _complete(output: object, name: str, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationScore:
    if isinstance(output, EvaluationScore):
        return checked_score(output)
    if isinstance(output, EvaluationResult):
        return score_of_results((output,), kind, criteria)
    if isinstance(output, Real):
        return EvaluationScore(score=unit_number(output, name or kind or "evaluator"))
    results = tuple(output) if isinstance(output, Sequence) else ()
    if results and all(isinstance(item, EvaluationResult) for item in results):
        return score_of_results(results, kind, criteria)
    raise EvaluatorError(
        f"evaluator {name or kind!r} returned {described(output)}; allowed: an EvaluationScore, a number from 0 to 1, "
        "a bool, or EvaluationResults"
    )


def _said(error: Exception) -> str:
    """Return what an exception says, even of one that cannot be written out."""
    try:
        return plain_text(f"{type(error).__name__}: {error}", "message")
    except Exception:  # noqa: BLE001 - the exception is the plug-in's, too
        return "its own code fails"


def score_of_results(
    results: Sequence[EvaluationResult], kind: str, criteria: Sequence[EvaluationCriteria]
) -> EvaluationScore:
    """Return the score of results per criterion: the mean of their values, weighted by `criteria`.

    A result that cannot be placed on its scale has its error and makes the whole an `evaluator_error`; others stand.
    """
    placed = tuple(place_result(checked_result(result), kind=kind, criteria=criteria) for result in results)
    valued = [result for result in placed if result.value is not None]
    entries = ((result.criterion_name, 1.0, result.value or 0.0) for result in valued)
    broken = tuple(f"{result.criterion_name}: {result.error}" for result in placed if result.error is not None)
    misses = tuple(_line(result) for result in valued if not is_met(result.value))
    score = EvaluationScore(
        score=mean_over_criteria(entries, weights_of(criteria)),
        hits=tuple(_line(result) for result in valued if is_met(result.value)),
        misses=misses + broken,
        expected_aspect_count=len(placed),
        results=placed,
    )
    if not broken:
        return score
    failure = Failure(kind="evaluator_error", message="; ".join(broken), stage="evaluator")
    return replace(score, score=0.0, status="error", error=failure)


def place_result(result: EvaluationResult, *, kind: str, criteria: Sequence[EvaluationCriteria]) -> EvaluationResult:
    """Return one criterion's result with its 0..1 value, or with the error that says why it has none."""
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


def _line(result: EvaluationResult) -> str:
    return f"{result.criterion_name}: {result.reasoning}" if result.reasoning else result.criterion_name


def _negated(score: EvaluationScore, criteria: Sequence[EvaluationCriteria]) -> EvaluationScore:
    return replace(
        score,
        score=1.0 - score.score,
        hits=score.misses,
        misses=score.hits,
        verdict=None,
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
    """Return the judgement of the one criterion that an evaluator stands for when it names none."""
    if not criteria and score.error is None:  # on a scale without bounds that nobody defined a value is its own score
        return EvaluationResult(name or kind, score.score, score.score, "numeric", score.reasoning, kind)
    criterion = criterion_named(name or kind, criteria, scale="numeric")
    if score.error is not None:
        return failed_result(score.error.message, criterion, kind=kind, reasoning=score.reasoning)
    return result_of(score.score, criterion, kind=kind, reasoning=score.reasoning)
