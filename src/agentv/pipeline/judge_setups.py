"""Which set-up of an evaluator gave the scores of a stored run: its settings, prompts and judges, as a digest."""

import random
from collections.abc import Iterable

from msgspec import Struct

from agentv.evaluators.isolation import config_of
from agentv.pipeline.context import criteria_of
from agentv.pipeline.fingerprints import Fingerprints
from agentv.pipeline.plan import CaseTask, RunPlan
from agentv.pipeline.question import slot_of
from agentv.pipeline.toolbox import Toolbox
from agentv.scoring.applicable import applicable_evaluators
from agentv.scoring.identity import keys_of, score_key
from agentv.types.cases import EvalCase
from agentv.types.protocols import Clock
from agentv.types.records.result import CaseResult


class JudgeSetups(Struct, frozen=True):
    """The set-ups of an evaluator, as its files are now, that gave the scores of rows.

    `other` counts the rows whose score another set-up gave: a file was edited since, or the row's case is gone.
    """

    setups: tuple[str, ...]
    other: int


def find_setups(plan: RunPlan, rows: Iterable[CaseResult], evaluator: str, *, clock: Clock) -> JudgeSetups:
    """Return which set-ups of `plan` judged the rows: what their score keys say decides."""
    left = {row.slot: row for row in rows}
    asked, setups = len(left), dict[str, None]()
    fingerprints = Fingerprints(_toolbox(plan, clock))
    matched = 0
    for target in plan.targets:
        for task in plan.tasks(target):
            row = left.pop(slot_of(task), None)
            setup = None if row is None else _setup_of(task, row, evaluator, fingerprints)
            if setup is not None:
                setups[setup] = None
                matched += 1
            if not left:
                return JudgeSetups(tuple(sorted(setups)), asked - matched)
    return JudgeSetups(tuple(sorted(setups)), asked - matched)


def _toolbox(plan: RunPlan, clock: Clock) -> Toolbox:
    """Return tools that read settings; nothing is opened with them."""
    return Toolbox(specs=plan.specs, clock=clock, rng=random.Random(0), home=plan.home)  # noqa: S311 - asks nobody


def _setup_of(task: CaseTask, row: CaseResult, evaluator: str, fingerprints: Fingerprints) -> str | None:
    case = task.case
    if not isinstance(case, EvalCase):
        return None
    evaluators, _ = applicable_evaluators(case, task.suite)
    expectation = keys_of(case, criteria_of(case, task.suite)).expectation
    for each in evaluators:
        if config_of(each).name == evaluator:
            setup = fingerprints.setup(each, task)
            key = score_key(answer=row.answer_key, expectation=expectation, setup=setup)
            return setup if row.score_keys.get(evaluator) == key else None
    return None
