"""The assignment of criteria to the evaluators of a configuration, before they run."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from agentv.engine.criteria.plan import CriteriaPlan, PlannedEvaluator
from agentv.loading.models.settings import criteria_named_by
from agentv.scoring.results.by_criterion import FittedEvaluator, FittedPlan
from agentv.types.errors import nearest
from agentv.types.fields import Problems
from agentv.types.scales import EvaluationCriteria
from agentv.types.structs import names_of_fields


def fit(plan: CriteriaPlan, criteria: tuple[EvaluationCriteria, ...]) -> FittedPlan:
    """Return the plan for these criteria, or for those of the configuration if there are none.

    Raises EvalFileError with every problem at once: those of the configuration, an invalid or duplicate criterion, an
    evaluator whose criterion does not exist or that names none of several. A criterion that no evaluator scores is not
    a problem: it becomes a result without a score, and a warning.
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
    config_problems.found += problems.found
    config_problems.raise_any()
    selected = tuple(fitted[planned.at] for planned in plan.selected)
    unselected = fitted.keys() - {planned.at for planned in plan.selected}
    # A criterion that an unselected evaluator might have scored is not missing.
    are_others_known = all(fitted[at].scores is not None for at in unselected)
    unclaimed = tuple(name for name in names if name not in scored) if are_others_known else ()
    return FittedPlan(
        evaluators=selected,
        criteria=criteria,
        names=frozenset(names),
        unclaimed=unclaimed,
        error_policy=plan.error_policy,
        concurrency=plan.concurrency,
    )


def settled_criteria(plan: CriteriaPlan) -> frozenset[str] | None:
    """Return the criteria that every judgement by this plan scores; None if they depend on the input.

    An input's criteria replace the configuration's, but must include all that evaluators name. If all evaluators name
    their criteria, those that are scored are therefore known.
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
