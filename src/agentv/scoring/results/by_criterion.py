"""The results of evaluators, per criterion: which evaluator scores which criteria, and what each criterion got."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.counting.tallies import has_unpriced_call, is_clamped, is_unverified
from agentv.scoring.results.criteria import (
    CriteriaScore,
    ErrorPolicy,
    WeighedResult,
    criteria_score,
    criteria_verdict,
    criterion_named,
    failed_result,
    mixed_ranges,
    result_of,
)
from agentv.types.aggregated_result import EvaluationRunError
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, Verdict
from agentv.types.failures import FailureKind
from agentv.types.scales import EvaluationCriteria
from agentv.types.usage import Usage, total_usage

UNSCORED = "no evaluator scores this criterion"
"""The reason of a criterion without a score."""


class FittedEvaluator(Struct, frozen=True):
    """An evaluator with the criteria that it `scores`; None if they are not known before its results."""

    config: EvaluatorConfig
    given: EvaluatorLike
    scores: tuple[str, ...] | None


class FittedPlan(Struct, frozen=True):
    """The selected evaluators, fitted to the criteria of an input."""

    evaluators: tuple[FittedEvaluator, ...]
    criteria: tuple[EvaluationCriteria, ...]
    names: frozenset[str]
    """The names of the criteria."""
    unclaimed: tuple[str, ...] = ()
    """The criteria that no evaluator names; those whose criteria are not known in advance may score them."""
    error_policy: ErrorPolicy = "exclude"
    concurrency: int = 1
    """The number of evaluators that judge one answer at once."""


class JudgedCriteria(Struct, frozen=True):
    """The results of one answer per criterion, with their score."""

    results: tuple[EvaluationResult, ...]
    evaluators: tuple[EvaluatorResult, ...]
    """The results of the evaluators, each with its `results` per criterion."""
    errors: tuple[EvaluationRunError, ...]
    warnings: tuple[str, ...]
    usage: Usage | None
    cost_usd: float | None
    score: CriteriaScore
    verdict: Verdict | None
    unverified: int
    """The number of evaluators with a verdict of a judge that could not be verified."""
    clamped: int
    """The number of evaluators with a judge's number that was clamped to 0..1."""


def judged_criteria(plan: FittedPlan, results: Sequence[EvaluatorResult]) -> JudgedCriteria:
    """Return the results per criterion of every evaluator, in order."""
    weighed: list[WeighedResult] = []
    errors: list[EvaluationRunError] = []
    unassigned: list[EvaluatorResult] = []
    evaluators: list[EvaluatorResult] = []
    for fitted, result in zip(plan.evaluators, results, strict=True):
        own = _results_by_criterion(plan, fitted, result)
        broken = [
            EvaluationRunError(result.name, scored.error, _error_kind(result), scored.criterion_name)
            for scored in own
            if scored.error
        ]
        weighed += [WeighedResult(scored, result.weight) for scored in own]
        errors += broken
        evaluators.append(replace(result, results=own))
        if result.error is not None and not broken:
            unassigned.append(result)
    lost = tuple(_lost_criteria(plan, results, weighed)) if plan.unclaimed else ()
    for position, failed, error in lost:
        weighed.append(failed)
        errors.append(error)
        evaluators[position] = replace(evaluators[position], results=(*evaluators[position].results, failed.result))
    unscored = _unscored_results(plan) if plan.unclaimed else ()
    weighed += [WeighedResult(each, 0.0) for each in unscored]
    if not lost:
        errors += [
            EvaluationRunError(failed.name, _error_message(failed), _error_kind(failed)) for failed in unassigned
        ]
    # Rules, which call no judge, have no usage, no cost and no verdict of a judge.
    judged = [
        result for result in results if result.judge_calls or result.evaluator_results or result.status == "unverified"
    ]
    usages = [result.usage for result in judged if result.usage is not None]
    unverified = [result.name for result in judged if is_unverified(result)]
    # The failure of an evaluator whose criteria are not known counts as one result, under the evaluator's own name.
    failures = () if lost else [_failure_of_evaluator(failed, plan) for failed in unassigned]
    counted = (*weighed, *failures)
    score = criteria_score(counted, plan.criteria, results, error_policy=plan.error_policy)
    by_criterion = tuple([each.result for each in weighed])
    return JudgedCriteria(
        results=by_criterion,
        evaluators=tuple(evaluators),
        errors=tuple(errors),
        warnings=(
            *_unscored_warning(unscored),
            *(f"evaluator {name!r}: the judge's verdict could not be verified" for name in unverified),
            *mixed_ranges(by_criterion, plan.criteria),
        ),
        usage=total_usage(usages) if usages else None,
        cost_usd=judges_cost_usd(judged),
        score=score,
        verdict=criteria_verdict(score, counted, plan.criteria, results),
        unverified=len(unverified),
        clamped=sum(map(is_clamped, results)),
    )


def _error_message(result: EvaluatorResult) -> str:
    return "" if result.error is None else result.error.message


def _failure_of_evaluator(result: EvaluatorResult, plan: FittedPlan) -> WeighedResult:
    """Return the failure of an evaluator as one result, under the evaluator's own name."""
    failed = failed_result(_error_message(result), criterion_named(result.name, plan.criteria), kind=result.type)
    return WeighedResult(failed, result.weight)


def _error_kind(result: EvaluatorResult) -> FailureKind:
    return "evaluator_error" if result.error is None else result.error.kind


def judges_cost_usd(results: Sequence[EvaluatorResult]) -> float | None:
    """Return what the judges of these evaluators cost in dollars; None if nothing, or if a price is not known."""
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    is_incomplete = any(result.usage is not None and result.cost_usd is None for result in results)
    is_incomplete = is_incomplete or any(map(has_unpriced_call, results))
    return sum(costs) if costs and not is_incomplete else None


def _lost_criteria(
    plan: FittedPlan, results: Sequence[EvaluatorResult], weighed: Sequence[WeighedResult]
) -> Iterator[tuple[int, WeighedResult, EvaluationRunError]]:
    """Yield an error for each unclaimed criterion that no evaluator scored, though one might have.

    The evaluators to blame are those whose criteria are not known in advance and that failed, or all of them if none
    failed. An error comes with the position of the first one.
    """
    candidates = _open_evaluators(plan)
    if not candidates or any(results[position].status == "skipped" for position in candidates):
        return
    positions = [position for position in candidates if results[position].error is not None] or candidates
    blamed = [results[position] for position in positions]
    weight, names = max(result.weight for result in blamed), ", ".join(result.name for result in blamed)
    reasons = [result.error.message for result in blamed if result.error is not None]
    reason = "; ".join(reasons) or "no evaluator scored it"
    scored = {each.result.criterion_name for each in weighed}
    for name in (name for name in plan.unclaimed if name not in scored):
        failed = failed_result(reason, criterion_named(name, plan.criteria), kind=blamed[0].type)
        error = EvaluationRunError(names, reason, _error_kind(blamed[0]), name)
        yield positions[0], WeighedResult(failed, weight), error


def _unscored_results(plan: FittedPlan) -> tuple[EvaluationResult, ...]:
    """Return a result without a score for each criterion that none of the evaluators can score."""
    if _open_evaluators(plan):
        return ()
    scales = ((name, criterion_named(name, plan.criteria).scale) for name in plan.unclaimed)
    return tuple(EvaluationResult(name, scale=scale, reasoning=UNSCORED) for name, scale in scales)


def _unscored_warning(unscored: Sequence[EvaluationResult]) -> Iterator[str]:
    names = [repr(each.criterion_name) for each in unscored]
    if names:
        yield f"no evaluator scores the {'criterion' if len(names) == 1 else 'criteria'} {', '.join(names)}"


def _open_evaluators(plan: FittedPlan) -> list[int]:
    """Return the positions of the evaluators whose criteria are not known in advance."""
    return [position for position, fitted in enumerate(plan.evaluators) if fitted.scores is None]


def _results_by_criterion(
    plan: FittedPlan, fitted: FittedEvaluator, result: EvaluatorResult
) -> tuple[EvaluationResult, ...]:
    """Return an evaluator's results, one per criterion."""
    if result.status == "skipped":
        return tuple(_skipped_results(plan, fitted, result))
    if result.error is None and fitted.scores == tuple([scored.criterion_name for scored in result.results]):
        return tuple([_with_reasoning(scored, result) for scored in result.results])
    return tuple(_match_criteria(plan, fitted, result))


def _skipped_results(plan: FittedPlan, fitted: FittedEvaluator, result: EvaluatorResult) -> Iterator[EvaluationResult]:
    """Yield an unscored result for each criterion of a skipped evaluator."""
    yield from result.results
    for name in () if result.results else fitted.scores or ():
        scale = criterion_named(name, plan.criteria).scale
        yield EvaluationResult(name, None, scale=scale, reasoning=_reason(result), evaluator_type=result.type)


def _match_criteria(plan: FittedPlan, fitted: FittedEvaluator, result: EvaluatorResult) -> Iterator[EvaluationResult]:
    """Yield an evaluator's results for the criteria it should score, and an error for each that it left out.

    A rubric returns one result per item, a composite one per member. If such an evaluator scores a single criterion,
    its overall score is that criterion's score.
    """
    scores = fitted.scores
    if scores is None:
        # An evaluator that fails as a whole returns one result under its own name; drop it, as that is not a criterion.
        own_error = None if result.error is None or not plan.names else result.error.message
        for scored in result.results:
            if scored.criterion_name in plan.names or own_error is None or scored.error != own_error:
                yield _with_unknown_criterion_error(plan, scored, result)
        return
    named = [scored for scored in result.results if scored.criterion_name in scores]
    if result.error is not None and not any(scored.value is not None or scored.error for scored in named):
        named = []
    if not named and len(scores) == 1 and result.error is None:
        yield _result_from_own_score(plan, scores[0], result)
        return
    yield from (_with_reasoning(scored, result) for scored in named)
    found = {scored.criterion_name for scored in named}
    for missing in (name for name in scores if name not in found):
        reason = f"evaluator {result.name!r} gave no result for it" if result.error is None else result.error.message
        yield failed_result(reason, criterion_named(missing, plan.criteria), kind=result.type)
    # Members of a composite may have the names of criteria that the composite does not score.
    if result.evaluator_results or not (named or len(scores) > 1):
        return
    for scored in result.results:
        if scored.criterion_name not in scores:
            yield _with_unknown_criterion_error(plan, scored, result)


def _with_reasoning(scored: EvaluationResult, result: EvaluatorResult) -> EvaluationResult:
    """Return a criterion's result with the evaluator's reasoning, if it has none and is the evaluator's only result."""
    if scored.reasoning is not None or scored.error is not None or len(result.results) > 1:
        return scored
    return replace(scored, reasoning=_reason(result))


def _reason(result: EvaluatorResult) -> str | None:
    return result.reasoning or "; ".join((*result.misses, *result.hits)) or None


def _result_from_own_score(plan: FittedPlan, name: str, result: EvaluatorResult) -> EvaluationResult:
    parts = [part.to_dict() for part in result.results]
    return result_of(
        result.score,
        criterion_named(name, plan.criteria, scale="numeric"),
        kind=result.type,
        reasoning=_reason(result),
        metadata={"results": parts} if parts else None,
    )


def _with_unknown_criterion_error(
    plan: FittedPlan, scored: EvaluationResult, result: EvaluatorResult
) -> EvaluationResult:
    """Return a criterion's result, with an error if the input does not have this criterion."""
    if not plan.names or scored.criterion_name in plan.names:
        return scored
    reason = f"evaluator {result.name!r} scored {scored.criterion_name!r}, which is not a criterion of the input"
    return replace(scored, value=None, error=scored.error or reason)
