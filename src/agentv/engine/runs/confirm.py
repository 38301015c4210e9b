"""The re-runs that confirm regressions, for the gate `confirmed_regressions`: made when all rows of a run are done."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from agentv.engine.planning.plan import CaseTask, RunPlan
from agentv.engine.running.recorder import RunRecorder
from agentv.engine.stored.confirmations import SUSPECTED
from agentv.engine.stored.resume import ResumePlan
from agentv.scoring.comparison.confirmations import Suspect
from agentv.scoring.gates.case_units import counted_by
from agentv.storage.run.stored import open_run
from agentv.types.cases import DEFAULT_CONFIRM_RERUNS
from agentv.types.events import RunNote
from agentv.types.records.answer import ResultKey
from agentv.types.results import CaseName
from agentv.types.targets import ResolvedTarget

RunTasks = Callable[[ResolvedTarget, Iterator[CaseTask | None]], Coroutine[Any, Any, None]]
"""Runs tasks of one target with its workers, and records their rows."""


async def confirm_regressions(
    plan: RunPlan, recorder: RunRecorder, run_tasks: RunTasks | None, *, resume_plan: ResumePlan | None
) -> None:
    """Call suspected regressions again, as often as planned, if a gate of the plan asks for it.

    Re-runs that a resumed run has stored are not repeated, except errors in a retry. Each round calls a case once, so
    that a batch has a case once. A run that calls no targets (`run_tasks` is then not used) only finds the suspects.
    """
    confirmations, comparison = recorder.confirmations, recorder.comparison
    if confirmations is None or comparison is None:
        return
    reruns = {suite.suite.path: suite.suite.confirm_reruns for suite in plan.suites}
    names = comparison.suspected_cases()
    # A merged run may have a suite whose file is gone.
    confirmations.suspects = tuple(Suspect(name, reruns.get(name.suite, DEFAULT_CONFIRM_RERUNS)) for name in names)
    generations: Mapping[ResultKey, int] = {}
    if resume_plan is not None and recorder.store.folder is not None:
        slots = {ResultKey(each.suite, each.eval_id, each.target, prompt=each.prompt) for each in names}
        generations = open_run(Path(recorder.store.folder)).highest_generations(slots)
    recorder.store.note(SUSPECTED, {"cases": msgspec.to_builtins(confirmations.suspects)})
    if run_tasks is None or (resume_plan is not None and not resume_plan.calls_targets):
        return
    retries_errors = resume_plan is not None and resume_plan.purpose == "retry"
    missing = {each.name: confirmations.missing(each, retries_errors=retries_errors) for each in confirmations.suspects}
    if calls := sum(missing.values()):
        suspects = [name for name, count in missing.items() if count]
        recorder.emit(RunNote(_announcement(suspects, calls), is_urgent=True))
    for number in range(max(missing.values(), default=0)):
        wanted = {name for name, count in missing.items() if count > number}
        async with asyncio.TaskGroup() as group:
            for target in plan.targets:
                if any(name.target == target.name for name in wanted):
                    tasks = _tasks(plan, target, wanted, generations, number)
                    group.create_task(run_tasks(target, recorder.begin(tasks)))


def _announcement(suspects: Sequence[CaseName], calls: int) -> str:
    """Return the line that is shown before the calls; the verdict says how many of the suspects were confirmed."""
    total, cases = len(suspects), len({name[:2] for name in suspects})
    suspected = "1 suspected regression is" if total == 1 else f"{total:,} suspected regressions are"
    if cases < total:
        by = counted_by(has_prompts=any(name.prompt is not None for name in suspects))
        of = "1 case" if cases == 1 else f"{cases:,} cases"
        suspected = f"{total:,} suspected regressions (in {of}, {by}) are"
    return f"{suspected} called again to confirm: {calls:,} {'call' if calls == 1 else 'calls'}"


def _tasks(
    plan: RunPlan,
    target: ResolvedTarget,
    wanted: AbstractSet[CaseName],
    generations: Mapping[ResultKey, int],
    number: int,
) -> Iterator[CaseTask]:
    """Yield the tasks of one round, with the number `number`, for the wanted cases of a target."""
    for task in plan.tasks(target):
        key = task.slot
        if task.trial == 0 and CaseName(key.suite, key.eval_id, key.target, key.prompt) in wanted:
            yield replace(task, rerun="confirm", generation=generations.get(key, 0) + 1 + number)
