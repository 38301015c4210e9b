"""The assignment of criteria to evaluators before they run, and the results per criterion afterwards."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.criteria.plan import CriteriaPlan, PlannedEvaluator
from agentv.loading.models.settings import criteria_named_by
from agentv.scoring.counting.tallies import has_unpriced_call, is_unverified
from agentv.scoring.results.criteria import WeighedResult, criterion_named, failed_result, result_of
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.criteria.aggregated_result import EvaluationRunError
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import nearest
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import FailureKind
from agentv.types.fields import Problems
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
    config = planned.config
    named = criteria_named_by(planned.settings)
    if named is None and config.criterion is None and not _is_named(planned, names):
        return FittedEvaluator(config, planned.given, None)
    for name in (*(named or ()), config.criterion) if names else ():
        if name is not None and name not in names:
            _add_unknown_criterion(planned, name, names, problems)
    if named and None not in named:
        return _with_scored_criteria(planned, _without_none(named))
    if config.criterion is not None:
        return _with_scored_criteria(planned, _without_none((*(named or ()), config.criterion)))
    if scores_several(planned.settings):
        named = tuple(names)
        return (
            _with_scored_criteria(planned, named, fill="criteria")
            if named
            else FittedEvaluator(config, planned.given, None)
        )
    own = config.name if not names or config.name in names else None
    if own is None and len(names) == 1:
        own = names[0]
    if own is not None:
        return _with_scored_criteria(planned, _without_none((*(named or ()), own)), fill="criterion")
    if planned.settings is not None:
        message = f"evaluator {config.name!r} does not name the criterion it scores"
        problems.add(planned.at, message, allowed=f"write `criterion:`; known: {', '.join(names)}")
    return FittedEvaluator(config, planned.given, None)


def _is_named(planned: PlannedEvaluator, names: Sequence[str]) -> bool:
    """Return True if an object without a `criterion` scores the criterion of its own name, or the only criterion."""
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
    """Every result with its evaluator's weight, the errors, and the usage of judges.

    `evaluators` has the results of the evaluators, each with its `results` per criterion. `unassigned` are failures of
    evaluators whose criteria are not known. `unverified` is the number of evaluators whose judge's verdict could not
    be verified.
    """

    weighed: tuple[WeighedResult, ...]
    evaluators: tuple[EvaluatorResult, ...]
    errors: tuple[EvaluationRunError, ...]
    warnings: tuple[str, ...]
    usage: Usage | None
    cost_usd: float | None
    unassigned: tuple[WeighedResult, ...] = ()
    unverified: int = 0


def judged_criteria(plan: FittedPlan, results: Sequence[EvaluatorResult]) -> JudgedCriteria:
    """Return the results per criterion of every evaluator, in order."""
    weighed: list[WeighedResult] = []
    errors: list[EvaluationRunError] = []
    unassigned: list[EvaluatorResult] = []
    evaluators: list[EvaluatorResult] = []
    for fitted, result in zip(plan.evaluators, results, strict=True):
        placed = _results_of(plan, fitted, result)
        broken = [
            EvaluationRunError(result.name, each.error, _error_kind(result), each.criterion_name)
            for each in placed
            if each.error
        ]
        weighed += [WeighedResult(each, result.weight) for each in placed]
        errors += broken
        evaluators.append(replace(result, results=placed))
        if result.error is not None and not broken:
            unassigned.append(result)
    unscored = tuple(_unscored_criteria(plan, results, weighed)) if plan.unclaimed else ()
    for place, each, error in unscored:
        weighed.append(each)
        errors.append(error)
        evaluators[place] = replace(evaluators[place], results=(*evaluators[place].results, each.result))
    if not unscored:
        errors += [EvaluationRunError(each.name, _error_message(each), _error_kind(each)) for each in unassigned]
    # Rules, which call no judge, have no usage, no cost and no verdict of a judge.
    judged = [each for each in results if each.judge_calls or each.evaluator_results or each.status == "unverified"]
    usages = [result.usage for result in judged if result.usage is not None]
    unverified = [result.name for result in judged if is_unverified(result)]
    return JudgedCriteria(
        weighed=tuple(weighed),
        evaluators=tuple(evaluators),
        errors=tuple(errors),
        warnings=tuple(f"evaluator {name!r}: the judge's verdict could not be verified" for name in unverified),
        usage=total_usage(usages) if usages else None,
        cost_usd=_cost_usd(judged),
        unassigned=() if unscored else tuple(_failed_whole(each, plan) for each in unassigned),
        unverified=len(unverified),
    )


def _error_message(result: EvaluatorResult) -> str:
    return "" if result.error is None else result.error.message


def _failed_whole(result: EvaluatorResult, plan: FittedPlan) -> WeighedResult:
    """Return the failure of an evaluator as one result, under the evaluator's own name."""
    failed = failed_result(_error_message(result), criterion_named(result.name, plan.criteria), kind=result.type)
    return WeighedResult(failed, result.weight)


def _error_kind(result: EvaluatorResult) -> FailureKind:
    return "evaluator_error" if result.error is None else result.error.kind


def _cost_usd(results: Sequence[EvaluatorResult]) -> float | None:
    """Return the cost of judges in dollars; None if there is none, or a price is not known."""
    costs = [result.cost_usd for result in results if result.cost_usd is not None]
    unknown = any(result.usage is not None and result.cost_usd is None for result in results)
    unknown = unknown or any(map(has_unpriced_call, results))
    return sum(costs) if costs and not unknown else None


def _unscored_criteria(
    plan: FittedPlan, results: Sequence[EvaluatorResult], weighed: Sequence[WeighedResult]
) -> Iterator[tuple[int, WeighedResult, EvaluationRunError]]:
    """Yield an error for each unscored criterion that belongs to no evaluator in particular.

    Such a criterion was left to the evaluators whose criteria are not known in advance, but none scored it. An error
    comes with the position of the first evaluator to blame.
    """
    candidates = [place for place, fitted in enumerate(plan.evaluators) if fitted.scores is None]
    if any(results[place].status == "skipped" for place in candidates):
        return
    blamed = [place for place in candidates if results[place].error is not None] or candidates
    to_blame = [results[place] for place in blamed]
    weight, names = max(result.weight for result in to_blame), ", ".join(result.name for result in to_blame)
    reason = "; ".join(each.error.message for each in to_blame if each.error is not None) or "no evaluator scored it"
    scored = {each.result.criterion_name for each in weighed}
    for name in plan.unclaimed:
        if name not in scored:
            failed = failed_result(reason, criterion_named(name, plan.criteria), kind=to_blame[0].type)
            yield (
                blamed[0],
                WeighedResult(failed, weight),
                EvaluationRunError(names, reason, _error_kind(to_blame[0]), name),
            )


def _results_of(plan: FittedPlan, fitted: FittedEvaluator, result: EvaluatorResult) -> tuple[EvaluationResult, ...]:
    """Return an evaluator's results, one per criterion."""
    if result.status == "skipped":
        return tuple(_skipped_results(plan, fitted, result))
    if result.error is None and fitted.scores == tuple([each.criterion_name for each in result.results]):
        return tuple([_with_reasoning(each, result) for each in result.results])
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
        placed = (
            each
            for each in result.results
            if each.criterion_name in plan.names or own_error is None or each.error != own_error
        )
        yield from (_with_unknown_criterion_error(plan, each, result) for each in placed)
        return
    named = [each for each in result.results if each.criterion_name in scores]
    if result.error is not None and not any(each.value is not None or each.error for each in named):
        named = []
    if not named and len(scores) == 1 and result.error is None:
        yield _result_from_own_score(plan, scores[0], result)
        return
    yield from (_with_reasoning(each, result) for each in named)
    for missing in (name for name in scores if name not in {each.criterion_name for each in named}):
        reason = f"evaluator {result.name!r} gave no result for it" if result.error is None else result.error.message
        yield failed_result(reason, criterion_named(missing, plan.criteria), kind=result.type)
    # Members of a composite may have the names of criteria that the composite does not score.
    for stray in result.results if (named or len(scores) > 1) and not result.evaluator_results else ():
        if stray.criterion_name not in scores:
            yield _with_unknown_criterion_error(plan, stray, result)


def _with_reasoning(each: EvaluationResult, result: EvaluatorResult) -> EvaluationResult:
    """Return a result with the evaluator's reasoning, if the result has none and is the only one."""
    if each.reasoning is not None or each.error is not None or len(result.results) > 1:
        return each
    return replace(each, reasoning=_reason(result))


def _reason(result: EvaluatorResult) -> str | None:
    return result.reasoning or "; ".join((*result.misses, *result.hits)) or None


def _result_from_own_score(plan: FittedPlan, name: str, result: EvaluatorResult) -> EvaluationResult:
    parts = [each.to_dict() for each in result.results]
    return result_of(
        result.score,
        criterion_named(name, plan.criteria, scale="numeric"),
        kind=result.type,
        reasoning=_reason(result),
        metadata={"results": parts} if parts else None,
    )


def _with_unknown_criterion_error(
    plan: FittedPlan, each: EvaluationResult, result: EvaluatorResult
) -> EvaluationResult:
    """Return a result, with an error if its criterion is not one of the input's."""
    if not plan.names or each.criterion_name in plan.names:
        return each
    reason = f"evaluator {result.name!r} scored {each.criterion_name!r}, which is not a criterion of the input"
    return replace(each, value=None, error=each.error or reason)
