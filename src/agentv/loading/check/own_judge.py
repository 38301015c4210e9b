"""Targets that judge their own answers because no judge is set, as `agentv check` and the head of a run report them."""

from collections.abc import Iterator, Sequence

from agentv.loading.models.settings import read_settings
from agentv.loading.targets.choice import choose_target
from agentv.loading.targets.targets import JUDGE_KEYS
from agentv.registry import Specs, names_model
from agentv.scoring.results.applicable import all_evaluators, evaluators_of_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorConfig, EvaluatorLike, targets_of
from agentv.types.errors import AgentvError, TargetError
from agentv.types.targets import TargetConfig


def own_judge_text(names: Sequence[str]) -> str:
    """Return the sentence on targets that judge their own answers."""
    several = len(names) > 1
    listed = ", ".join(map(repr, names))
    subject = f"targets {listed} judge their" if several else f"target {listed} judges its"
    return f"no judge is set: {subject} own answers; name one with `judge: NAME` in the target or the eval file"


def own_judges(suite: EvalSuite, targets: Sequence[TargetConfig], specs: Specs) -> tuple[str, ...]:
    """Return the targets of a suite that judge their own answers, which a target without a `judge` does if it can.

    Targets with canned answers, which stand in for a judge as well, are left out.
    """
    distinct = {id(each): each for each in _evaluators(suite)}  # the cases of a file share its evaluators
    if suite.judge is not None or not any(_needs_judge(each, specs) for each in distinct.values()):
        return ()
    return tuple(filter(None, (_own_judge(name, targets, specs) for name in targets_of(suite))))


def _own_judge(name: str | None, targets: Sequence[TargetConfig], specs: Specs) -> str | None:
    """Return the name of the chosen target if it has no judge and can judge, else None."""
    try:
        target = choose_target(targets, name)
    except TargetError:
        return name if name is not None and names_model(name, specs.providers) else None
    if target.provider not in specs.providers or any(target.settings.get(key) for key in JUDGE_KEYS):
        return None
    provider = specs.providers.get(target.provider)
    return target.name if provider.can_judge and not provider.is_canned else None


def _evaluators(suite: EvalSuite) -> Iterator[EvaluatorLike]:
    """Yield the evaluators of all cases; of a stream, those that the suite names."""
    if suite.cases.count is None:
        yield from evaluators_of_suite(suite)
        return
    for case in suite.cases:
        if isinstance(case, EvalCase) and case.skip is None:
            yield from all_evaluators(case, suite)


def _needs_judge(evaluator: object, specs: Specs) -> bool:
    """Return True if an evaluator or a member of it is judged by the target's own judge."""
    if not isinstance(evaluator, EvaluatorConfig):
        return False
    try:
        settings = read_settings(specs.evaluators.get(evaluator.type), evaluator.settings, where=evaluator.name)
    except AgentvError:  # an unknown type and wrong settings are reported elsewhere
        return False
    members = (each for value in evaluator.settings.values() if isinstance(value, tuple) for each in value)
    return bool(getattr(settings, "needs_judge", False)) or any(_needs_judge(each, specs) for each in members)
