"""Cases that wait for others of their suite."""

import asyncio
from collections.abc import Iterator, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.planning.plan import CaseTask
from agentv.types.cases import EvalCase, EvalSuite
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult


class Dependencies(Struct):
    """The outcomes of rows that other rows wait for: the error of each, or None.

    A dependency that is not part of this run, or ended in an earlier run, is met. A suite lists each case after those
    it depends on, so that a row only waits for rows that have begun.
    """

    _outcomes: dict[ResultKey, asyncio.Future[Failure | None]] = field(default_factory=dict)
    _needed: dict[int, frozenset[str]] = field(default_factory=dict)
    _suites: list[EvalSuite] = field(default_factory=list)  # held, so that their ids are not reused

    def begin(self, task: CaseTask) -> None:
        """Note that a row begins, if others wait for it."""
        if task.case.id in self.needed_in(task.suite):
            self._outcomes[task.slot] = asyncio.get_running_loop().create_future()

    def end(self, task: CaseTask, row: CaseResult) -> None:
        """Note how a row ended: with an error or without."""
        outcome = self._outcomes.get(task.slot)
        if outcome is not None and not outcome.done():
            outcome.set_result(row.error if row.status == "error" else None)

    def split(self, batch: Sequence[CaseTask]) -> Iterator[list[CaseTask]]:
        """Yield the parts of a batch, to be called one after another: no case depends on another case of its part."""
        part: list[CaseTask] = []
        keys: set[ResultKey] = set()
        for task in batch:
            if any(key in keys for key in needed_keys(task)):
                yield part
                part, keys = [], set()
            part.append(task)
            if task.case.id in self.needed_in(task.suite):
                keys.add(task.slot)
        yield part

    async def failure(self, task: CaseTask) -> Failure | None:
        """Wait for the cases that a task's case depends on; return the reason why it cannot run, or None if it can."""
        case = task.case
        if not isinstance(case, EvalCase) or not case.depends_on:
            return None
        key = task.slot
        failed: list[str] = []
        for name in case.depends_on:
            failure = await self._failure_of(replace(key, eval_id=name))
            if failure is not None and failure.kind == "budget":  # a resume runs that case, and then this one
                return failure
            if failure is not None:
                failed.append(name)
        if not failed or case.on_dependency_failure == "run":
            return None
        effect = "skipped" if case.on_dependency_failure == "skip" else "failed"
        names = ", ".join(map(repr, failed))
        return Failure("dependency", f"{effect}: this case depends on {names}, which ended with an error")

    async def _failure_of(self, key: ResultKey) -> Failure | None:
        outcome = self._outcomes.get(key) or self._outcomes.get(replace(key, trial=0))
        return None if outcome is None else await outcome

    def needed_in(self, suite: EvalSuite) -> frozenset[str]:
        """Return the ids of the cases of a suite that others wait for."""
        found = self._needed.get(id(suite))
        if found is None:
            listed = suite.cases if suite.cases.count is not None else ()
            found = frozenset(name for case in listed if isinstance(case, EvalCase) for name in case.depends_on)
            self._needed[id(suite)] = found
            self._suites.append(suite)
        return found


def needed_keys(task: CaseTask) -> Iterator[ResultKey]:
    """Yield the keys of the rows that a task may wait for: the same trial, or the first if a case has fewer trials."""
    if isinstance(task.case, EvalCase) and task.case.depends_on:
        key = task.slot
        for name in task.case.depends_on:
            yield replace(key, eval_id=name)
            yield replace(key, eval_id=name, trial=0)
