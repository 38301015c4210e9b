"""The assignment of criteria to evaluators, made and checked before anything runs."""

from collections import Counter
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.criteria.plan import CriteriaPlan, PlannedEvaluator
from agentv.loading.models.settings import criteria_named_by
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import nearest
from agentv.types.fields import Problems
from agentv.types.structs import names_of_fields


class FittedEvaluator(Struct, frozen=True):
    """An evaluator with the criteria that it scores; None if only its results will show which."""

    config: EvaluatorConfig
    given: EvaluatorLike
    scores: tuple[str, ...] | None


class FittedPlan(Struct, frozen=True):
    """The selected evaluators, fitted to the criteria of an input. `names` is empty if there are no criteria.

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
    problems, unfit = Problems("EvaluationInput"), Problems(plan.where, list(plan.problems))
    counts = Counter(str(criterion.name) for criterion in criteria)  # a name that is not text is reported below
    for index, criterion in enumerate(criteria):
        for fault in criterion.faults():
            problems.add(f"$.criteria[{index}].{fault.split('`')[1]}", fault)
    for name in (name for name, count in counts.items() if count > 1):
        problems.add("$.criteria", f"two criteria are named {name!r}")
    names = tuple(counts)
    fitted = {each.at: _fitted(each, names, unfit) for each in plan.evaluators}
    scored = {name for each in fitted.values() for name in each.scores or ()}
    if not plan.problems and all(each.scores is not None for each in fitted.values()):
        for name in (name for name in names if name not in scored):
            problems.add("$.criteria", f"no evaluator scores the criterion {name!r}", allowed="name it in an evaluator")
    unfit.found += problems.found
    unfit.raise_any()
    chosen = tuple(fitted[each.at] for each in plan.selected)
    left_out = fitted.keys() - {each.at for each in plan.selected}
    # A criterion that an unselected evaluator might have scored is not missing.
    is_whole = all(fitted[at].scores is not None for at in left_out)
    unclaimed = tuple(name for name in names if name not in scored) if is_whole else ()
    return FittedPlan(
        evaluators=chosen,
        criteria=criteria,
        names=frozenset(names),
        unclaimed=unclaimed,
    )


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
        names.update(_present((*(named or ()), own)))
    return frozenset(names)


def _fitted(planned: PlannedEvaluator, names: Sequence[str], problems: Problems) -> FittedEvaluator:
    config = planned.config
    named = criteria_named_by(planned.settings)
    if named is None and config.criterion is None and not _is_named(planned, names):
        return FittedEvaluator(config, planned.given, None)
    for name in (*(named or ()), config.criterion) if names else ():
        if name is not None and name not in names:
            _add_unknown(planned, name, names, problems)
    if named and None not in named:
        return _scoring(planned, _present(named))
    if config.criterion is not None:
        return _scoring(planned, _present((*(named or ()), config.criterion)))
    if scores_several(planned.settings):
        named = tuple(names)
        return _scoring(planned, named, fill="criteria") if named else FittedEvaluator(config, planned.given, None)
    own = config.name if not names or config.name in names else names[0] if len(names) == 1 else None
    if own is not None:
        return _scoring(planned, _present((*(named or ()), own)), fill="criterion")
    if planned.settings is not None:
        message = f"evaluator {config.name!r} does not name the criterion it scores"
        problems.add(planned.at, message, allowed=f"write `criterion:`; known: {', '.join(names)}")
    return FittedEvaluator(config, planned.given, None)


def _is_named(planned: PlannedEvaluator, names: Sequence[str]) -> bool:
    """Return True if an object without a `criterion` scores one all the same: by its name, or as there is only one."""
    if planned.settings is not None or getattr(planned.given, "names_its_criteria", False):
        return False
    return planned.config.name in names or len(names) == 1


def _present(names: Sequence[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name is not None))


def _scoring(
    planned: PlannedEvaluator, names: tuple[str, ...], *, fill: Literal["criterion", "criteria"] | None = None
) -> FittedEvaluator:
    """Return an evaluator with the criteria it scores; `fill` is the key of its config to write them to."""
    config = planned.config
    if fill == "criteria":
        config = replace(config, settings={**config.settings, "criteria": names})
    elif fill == "criterion":
        config = replace(config, criterion=names[-1])
    return FittedEvaluator(config, config if planned.given is planned.config else planned.given, names)


def _add_unknown(planned: PlannedEvaluator, name: str, names: Sequence[str], problems: Problems) -> None:
    message = f"evaluator {planned.config.name!r} scores {name!r}, which is not a criterion of the input"
    problems.add(planned.at, message, allowed=f"known: {', '.join(names)}", suggestion=nearest(name, names))


def scores_several(settings: object) -> bool:
    """Return True if an evaluator accepts several criteria: its settings have a field `criteria`.

    A property `takes_criteria` of the settings can switch this off.
    """
    has_field = "criteria" in names_of_fields(type(settings))
    return has_field and bool(getattr(settings, "takes_criteria", True))
