"""The assignment of criteria to evaluators before they run, and the results per criterion afterwards."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.criteria.plan import CriteriaPlan, PlannedEvaluator
from agentv.loading.models.settings import criteria_named_by
from agentv.scoring.counting.tallies import has_unpriced_call, is_clamped, is_unverified
from agentv.scoring.results.criteria import WeighedResult, criterion_named, failed_result, result_of
from agentv.types.aggregated_result import EvaluationRunError
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import nearest
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import FailureKind
from agentv.types.fields import Problems
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import names_of_fields
from agentv.types.usage import Usage, total_usage


class FittedEvaluator(Struct, frozen=True):
    """An evaluator with the criteria that it `scores`; None if they are not known before its results."""

    config: EvaluatorConfig
    given: EvaluatorLike
    scores: tuple[str, ...] | None


class FittedPlan(Struct, frozen=True):
    """The selected evaluators, fitted to the criteria of an input. `names` are the criteria's names.

    `unclaimed` are the criteria left to evaluators whose criteria are not known in advance.
    """

    evaluators: tuple[FittedEvaluator, ...]
    criteria: tuple[EvaluationCriteria, ...]
    names: frozenset[str]
    unclaimed: tuple[str, ...] = ()


def fit(plan: CriteriaPlan, criteria: tuple[EvaluationCriteria, ...]) -> FittedPlan:
    """Return the plan for these criteria, or for those of the configuration if there are none.

    Raises EvalFileError with every problem at once: those of the configuration, an invalid or duplicate criterion, an
    evaluator whose criterion does not exist or that names none of several, a criterion that no evaluator scores.
    """
    criteria = criteria or plan.criteria
    problems, config_problems = Problems("EvaluationInput"), Problems(plan.where, list(plan.problems))
    counts = Counter(str(criterion.name) for criterion in criteria)  # a name that is not text is reported below
    for index, criterion in enumerate(criteria):
        for fault in criterion.faults():
            key = fault.split("`")[1]  # each fault quotes its key first
            problems.add(f"$.criteria[{index}].{key}", fault)
    for name in (name for name, count in counts.items() if count > 1):
        problems.add("$.criteria", f"two criteria are named {name!r}")
    names = tuple(counts)
    fitted = {planned.at: _fit_evaluator(planned, names, config_problems) for planned in plan.evaluators}
    scored = {name for evaluator in fitted.values() for name in evaluator.scores or ()}
    if not plan.problems and all(evaluator.scores is not None for evaluator in fitted.values()):
        for name in (name for name in names if name not in scored):
            problems.add("$.criteria", f"no evaluator scores the criterion {name!r}", allowed="name it in an evaluator")
    config_problems.found += problems.found
    config_problems.raise_any()
    selected = tuple(fitted[planned.at] for planned in plan.selected)
    unselected = fitted.keys() - {planned.at for planned in plan.selected}
    # A criterion that an unselected evaluator might have scored is not missing.
    are_others_known = all(fitted[at].scores is not None for at in unselected)
    unclaimed = tuple(name for name in names if name not in scored) if are_others_known else ()
    return FittedPlan(evaluators=selected, criteria=criteria, names=frozenset(names), unclaimed=unclaimed)


def settled_criteria(plan: CriteriaPlan) -> frozenset[str] | None:
    """Return the criteria of every judgement by this plan; None if an input may bring others.

    An input's criteria replace the configuration's, but each must be scored. If all evaluators name their criteria,
    the criteria of every input are therefore known.
    """
    names: set[str] = set()
    for planned in plan.evaluators:
        named = criteria_named_by(planned.settings)
        own = planned.config.criterion
        if own is None and (not named or None in named):
            return None
        names.update(_without_none((*(named or ()), own)))
    return frozenset(names)


def _fit_evaluator(planned: PlannedEvaluator, names: Sequence[str], problems: Problems) -> FittedEvaluator:
    """Return an evaluator with the criteria that it scores among those of an input, `names`.

    They are the criteria that its settings or its `criterion` name, else all for an evaluator that accepts several,
    else the criterion with its own name, else the only one.
    """
    config = planned.config
    named = criteria_named_by(planned.settings)
    if named is None and config.criterion is None and not _has_implied_criterion(planned, names):
        return FittedEvaluator(config, planned.given, None)
    for name in (*(named or ()), config.criterion) if names else ():
        if name is not None and name not in names:
            _add_unknown_criterion(planned, name, names, problems)
    if named and None not in named:
        return _with_scored_criteria(planned, _without_none(named))
    if config.criterion is not None:
        return _with_scored_criteria(planned, _without_none((*(named or ()), config.criterion)))
    if scores_several(planned.settings):
        if names:
            return _with_scored_criteria(planned, tuple(names), fill="criteria")
        return FittedEvaluator(config, planned.given, None)
    own = config.name if not names or config.name in names else None
    if own is None and len(names) == 1:
        own = names[0]
    if own is not None:
        return _with_scored_criteria(planned, _without_none((*(named or ()), own)), fill="criterion")
    if planned.settings is not None:
        message = f"evaluator {config.name!r} does not name the criterion it scores"
        problems.add(planned.at, message, allowed=f"write `criterion:`; known: {', '.join(names)}")
    return FittedEvaluator(config, planned.given, None)


def _has_implied_criterion(planned: PlannedEvaluator, names: Sequence[str]) -> bool:
    """Return True if an evaluator object scores the criterion with its own name, or the only criterion."""
    if planned.settings is not None or getattr(planned.given, "names_its_criteria", False):
        return False
    return planned.config.name in names or len(names) == 1


def _without_none(names: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _with_scored_criteria(
    planned: PlannedEvaluator, names: tuple[str, ...], *, fill: Literal["criterion", "criteria"] | None = None
) -> FittedEvaluator:
    """Return an evaluator with the criteria it scores; they are also written to the key `fill` of its config."""
    config = planned.config
    if fill == "criteria":
        config = replace(config, settings={**config.settings, "criteria": names})
    elif fill == "criterion":
        config = replace(config, criterion=names[-1])
    return FittedEvaluator(config, config if planned.given is planned.config else planned.given, names)


def _add_unknown_criterion(planned: PlannedEvaluator, name: str, names: Sequence[str], problems: Problems) -> None:
    message = f"evaluator {planned.config.name!r} scores {name!r}, which is not a criterion of the input"
    problems.add(planned.at, message, allowed=f"known: {', '.join(names)}", suggestion=nearest(name, names))


def scores_several(settings: object) -> bool:
    """Return True if an evaluator accepts several criteria: its settings have a field `criteria`.

    A property `takes_criteria` of the settings can switch this off.
    """
    has_field = "criteria" in names_of_fields(type(settings))
    return has_field and bool(getattr(settings, "takes_criteria", True))


class JudgedCriteria(Struct, frozen=True):
    """The results per criterion with the weights of their evaluators, the errors, and the usage of judges.

    `evaluators` has the results of the evaluators, each with its `results` per criterion. `unassigned` are failures of
    evaluators whose criteria are not known. `unverified` counts the evaluators whose judge gave a verdict that could
    not be verified, `clamped` those with a judge's number that was clamped to 0..1.
    """

    weighed: tuple[WeighedResult, ...]
    evaluators: tuple[EvaluatorResult, ...]
    errors: tuple[EvaluationRunError, ...]
    warnings: tuple[str, ...]
    usage: Usage | None
    cost_usd: float | None
    unassigned: tuple[WeighedResult, ...] = ()
    unverified: int = 0
    clamped: int = 0


def judged_criteria(plan: FittedPlan, results: Sequence[EvaluatorResult]) -> JudgedCriteria:
    """Return the results per criterion of every evaluator, in order."""
    weighed: list[WeighedResult] = []
    errors: list[EvaluationRunError] = []
    unassigned: list[EvaluatorResult] = []
    evaluators: list[EvaluatorResult] = []
    for fitted, result in zip(plan.evaluators, results, strict=True):
        by_criterion = _results_by_criterion(plan, fitted, result)
        broken = [
            EvaluationRunError(result.name, scored.error, _error_kind(result), scored.criterion_name)
            for scored in by_criterion
            if scored.error
        ]
        weighed += [WeighedResult(scored, result.weight) for scored in by_criterion]
        errors += broken
        evaluators.append(replace(result, results=by_criterion))
        if result.error is not None and not broken:
            unassigned.append(result)
    unscored = tuple(_unscored_criteria(plan, results, weighed)) if plan.unclaimed else ()
    for position, failed, error in unscored:
        weighed.append(failed)
        errors.append(error)
        evaluators[position] = replace(evaluators[position], results=(*evaluators[position].results, failed.result))
    if not unscored:
        errors += [
            EvaluationRunError(failed.name, _error_message(failed), _error_kind(failed)) for failed in unassigned
        ]
    # Rules, which call no judge, have no usage, no cost and no verdict of a judge.
    judged = [
        result for result in results if result.judge_calls or result.evaluator_results or result.status == "unverified"
    ]
    usages = [result.usage for result in judged if result.usage is not None]
    unverified = [result.name for result in judged if is_unverified(result)]
    return JudgedCriteria(
        weighed=tuple(weighed),
        evaluators=tuple(evaluators),
        errors=tuple(errors),
        warnings=tuple(f"evaluator {name!r}: the judge's verdict could not be verified" for name in unverified),
        usage=total_usage(usages) if usages else None,
        cost_usd=_cost_usd(judged),
        unassigned=() if unscored else tuple(_failure_of_evaluator(failed, plan) for failed in unassigned),
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


def _cost_usd(results: Sequence[EvaluatorResult]) -> float | None:
    """Return the cost of judges in dollars; None if there is none, or a price is not known."""
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    is_incomplete = any(result.usage is not None and result.cost_usd is None for result in results)
    is_incomplete = is_incomplete or any(map(has_unpriced_call, results))
    return sum(costs) if costs and not is_incomplete else None


def _unscored_criteria(
    plan: FittedPlan, results: Sequence[EvaluatorResult], weighed: Sequence[WeighedResult]
) -> Iterator[tuple[int, WeighedResult, EvaluationRunError]]:
    """Yield an error for each unclaimed criterion that no evaluator scored.

    The evaluators to blame are those whose criteria are not known in advance and that failed, or all of them if none
    failed. An error comes with the position of the first one.
    """
    candidates = [position for position, fitted in enumerate(plan.evaluators) if fitted.scores is None]
    if any(results[position].status == "skipped" for position in candidates):
        return
    positions = [position for position in candidates if results[position].error is not None] or candidates
    blamed = [results[position] for position in positions]
    weight, names = max(result.weight for result in blamed), ", ".join(result.name for result in blamed)
    reasons = [result.error.message for result in blamed if result.error is not None]
    reason = "; ".join(reasons) or "no evaluator scored it"
    scored = {result.result.criterion_name for result in weighed}
    for name in plan.unclaimed:
        if name not in scored:
            failed = failed_result(reason, criterion_named(name, plan.criteria), kind=blamed[0].type)
            error = EvaluationRunError(names, reason, _error_kind(blamed[0]), name)
            yield positions[0], WeighedResult(failed, weight), error


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
