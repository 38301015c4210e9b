"""Targets of an eval file that judge their own answers because no judge is set, as written: nothing is resolved."""

from collections.abc import Iterator, Sequence

from agentv.loading.models.judges import judges_itself, needs_judge, settings_with_members
from agentv.loading.targets.choice import choose_target
from agentv.loading.targets.targets import JUDGE_KEYS
from agentv.registry import Specs, names_model
from agentv.scoring.results.applicable import all_evaluators, evaluators_of_suite
from agentv.types.cases import EvalCase, EvalSuite, EvaluatorLike, targets_of
from agentv.types.errors import TargetError
from agentv.types.targets import TargetConfig


def own_judges(suite: EvalSuite, targets: Sequence[TargetConfig], specs: Specs) -> tuple[str, ...]:
    """Return the targets of a suite that judge their own answers, which a target without a `judge` does if it can.

    Targets with canned answers, which stand in for a judge as well, are left out.
    """
    distinct = {id(each): each for each in _evaluators(suite)}  # the cases of a file share its evaluators
    settings = (found for each in distinct.values() for found in settings_with_members(each, specs))
    if suite.judge is not None or not any(map(needs_judge, settings)):
        return ()
    return tuple(filter(None, (_own_judge(name, targets, specs) for name in targets_of(suite))))


def _own_judge(name: str | None, targets: Sequence[TargetConfig], specs: Specs) -> str | None:
    """Return the name of the chosen target if it has no judge and can judge, else None."""
    try:
        target = choose_target(targets, name)
    except TargetError:
        return name if name is not None and names_model(name, specs.providers) else None
    if target.provider not in specs.providers:
        return None
    has_judge = any(target.settings.get(key) for key in JUDGE_KEYS)
    return target.name if judges_itself(specs.providers.get(target.provider), has_judge=has_judge) else None


def _evaluators(suite: EvalSuite) -> Iterator[EvaluatorLike]:
    """Yield the evaluators of all cases; of a stream, those that the suite names."""
    if suite.cases.count is None:
        yield from evaluators_of_suite(suite)
        return
    for case in suite.cases:
        if isinstance(case, EvalCase) and case.skip is None:
            yield from all_evaluators(case, suite)
