"""From what each evaluator said to one list of results per criterion, in which nothing is lost."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agentv.pipeline.criteria_fit import FittedEvaluator, FittedPlan
from agentv.scoring.criteria_score import WeighedResult
from agentv.scoring.criterion_results import criterion_named, failed_result, result_of
from agentv.types.aggregated_result import EvaluationRunError
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import FailureKind
from agentv.types.usage import Usage, total_usage


@dataclass(frozen=True, slots=True)
class JudgedCriteria:
    """Every result with its evaluator's weight, what went wrong, and what judging models used."""

    weighed: tuple[WeighedResult, ...]
    errors: tuple[EvaluationRunError, ...]
    warnings: tuple[str, ...]
    usage: Usage | None
    cost_usd: float | None


def judged_criteria(plan: FittedPlan, results: Sequence[EvaluatorResult]) -> JudgedCriteria:
    """Return the results per criterion of every evaluator, in order."""
    weighed: list[WeighedResult] = []
    errors: list[EvaluationRunError] = []
    warnings: list[str] = []
    for fitted, result in zip(plan.evaluators, results, strict=True):
        if result.status == "skipped":  # what it was to judge is expected, and not scored
            weighed.extend(WeighedResult(each, result.weight) for each in result.results)
            continue
        if result.status == "unverified":
            warnings.append(f"evaluator {result.name!r}: the judge's verdict could not be verified")
        kind: FailureKind = result.error.kind if result.error is not None else "evaluator_error"
        told = tuple(_told(plan, fitted, result))
        if result.error is not None and not any(each.error for each in told):
            errors.append(EvaluationRunError(result.name, result.error.message, kind))
        for each in told:
            weighed.append(WeighedResult(each, result.weight))
            if each.error is not None:
                errors.append(EvaluationRunError(result.name, each.error, kind, each.criterion_name))
    usage = total_usage(result.usage for result in results)
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    unknown = any(result.usage is not None and result.cost_usd is None for result in results)
    return JudgedCriteria(
        tuple(weighed), tuple(errors), tuple(warnings), usage, sum(costs) if costs and not unknown else None
    )


def _told(plan: FittedPlan, fitted: FittedEvaluator, result: EvaluatorResult) -> Iterator[EvaluationResult]:
    """Yield an evaluator's results for the criteria it should score; what it left out is an error of its own.

    The results of a rubric are its items, those of a composite its members: the evaluator's score then stands for
    its one criterion.
    """
    scores = fitted.scores
    if scores is None:
        yield from (_known(plan, each, result) for each in result.results)
        return
    if result.error is None and [each.criterion_name for each in result.results] == list(scores):
        yield from (_explained(each, result) for each in result.results)
        return
    named = [each for each in result.results if each.criterion_name in scores]
    if result.error is not None and not any(each.value is not None or each.error for each in named):
        named = []
    if not named and len(scores) == 1 and result.error is None:
        yield _whole(plan, scores[0], result)
        return
    yield from (_explained(each, result) for each in named)
    for missing in (name for name in scores if name not in {each.criterion_name for each in named}):
        said = f"evaluator {result.name!r} gave no result for it" if result.error is None else result.error.message
        yield failed_result(said, criterion_named(missing, plan.criteria), kind=result.type)
    for stray in result.results:
        if plan.names and stray.criterion_name not in plan.names and len(scores) > 1:
            yield _known(plan, stray, result)


def _explained(each: EvaluationResult, result: EvaluatorResult) -> EvaluationResult:
    """Return a result with a reason: that of an evaluator that says one thing only is its own."""
    if each.reasoning is not None or each.error is not None or len(result.results) > 1:
        return each
    # Written out: `replace` takes three times as long, and this is done for every result of every answer.
    return EvaluationResult(
        each.criterion_name,
        each.score,
        each.value,
        each.scale,
        _reason(result),
        each.evaluator_type,
        None,
        each.metadata,
    )


def _reason(result: EvaluatorResult) -> str | None:
    return result.reasoning or "; ".join((*result.misses, *result.hits)) or None


def _whole(plan: FittedPlan, name: str, result: EvaluatorResult) -> EvaluationResult:
    parts = [each.to_dict() for each in result.results]
    return result_of(
        result.score,
        criterion_named(name, plan.criteria, scale="numeric"),
        kind=result.type,
        reasoning=_reason(result),
        metadata={"results": parts} if parts else None,
    )


def _known(plan: FittedPlan, each: EvaluationResult, result: EvaluatorResult) -> EvaluationResult:
    """Return a result as it is, or as the error that its criterion is nobody's."""
    if not plan.names or each.criterion_name in plan.names:
        return each
    said = f"evaluator {result.name!r} scored {each.criterion_name!r}, which is no criterion of the input"
    return replace(each, value=None, error=each.error or said)
