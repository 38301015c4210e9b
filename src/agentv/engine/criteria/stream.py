"""Judging a stream of given answers with a number of workers; each row is saved before the next answer is taken."""

from collections.abc import Callable, Iterator
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.budget import Budget
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.judgements import as_result, save_judgement
from agentv.engine.criteria.stream_recorder import AnswerSource, StreamRecorder
from agentv.engine.planning.plan import AnswerWithInput, CaseTask
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorded_run import record_run
from agentv.execution.backends.local import LocalBackend
from agentv.scoring.results.by_criterion import JudgedCriteria
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.records.answer import Origin
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.structs import deep_copy


class StreamSource(AnswerSource, Protocol):
    """The answers of a stream, in order."""

    @property
    def is_over(self) -> bool:
        """True if there are no more answers."""

    async def next(self) -> CaseTask | CaseResult | None:
        """Wait for the next answer and return the task to judge it, or the row of one that cannot be judged.

        None for one that needs neither, and at the end.
        """

    def stop(self) -> None:
        """Return no more answers."""

    async def close(self) -> None:
        """Close the files."""


class JudgementOutput(Protocol):
    """A place outside of the run to which judgements are written as they come."""

    def judged(self, result: AggregatedEvaluationResult, origin: Origin | None) -> None:
        """Write a judgement. Raises StorageError."""

    def failed(self, row: CaseResult) -> None:
        """Write that a line could not be judged. Raises StorageError."""


class AnswerStream(Struct, frozen=True):
    """The judging of a source's answers."""

    tasks: AnswerTasks
    recorder: StreamRecorder
    """Records the judging."""
    output: JudgementOutput | None = None
    on_row: Callable[[CaseResult], None] = lambda _row: None
    """Called with each row, to show progress."""
    on_stopping: Callable[[str], None] = lambda _reason: None
    """Called with the reason when no more answers are taken."""

    async def run(
        self,
        make_source: Callable[[CaseRunner], StreamSource],
        *,
        workers: int,
        run_id: str,
        budget_usd: float | None = None,
    ) -> RunReport:
        """Judge all answers of a source, and return the report, which is saved with the run."""
        recorder = self.recorder
        budget = None if budget_usd is None else Budget(budget_usd, recorder.stop_for_budget)

        async def work() -> None:
            async with self.tasks.runtime(budget=budget) as runtime:
                if self.tasks.plan.judge is not None:
                    runtime.provider(self.tasks.plan.judge)  # one that cannot be created fails before the first line
                cases = self.tasks.runner(runtime, sink=recorder, run_id=run_id)
                recorder.source = source = make_source(cases)
                await self._judge(source, cases, workers=workers)

        return await record_run(recorder, work, clock=self.tasks.clock)

    async def _judge(self, source: StreamSource, cases: CaseRunner, *, workers: int) -> None:
        """Judge every answer until the source ends or the stream is stopped; answers in flight are finished."""
        stop = self.recorder.stop
        opened = replace(cases, on_judged=self._on_judged)

        def give_up() -> None:
            source.stop()
            self.on_stopping(stop.reason or "")

        def turns() -> Iterator[StreamSource]:
            while not source.is_over and stop.state == "finished":
                yield source

        async def row_of_next(source: StreamSource) -> CaseResult | None:
            found = await source.next()
            return await self._row(found, opened) if isinstance(found, CaseTask) else self._failed(found)

        stop.give_up = stop.on_drain = give_up
        try:
            await LocalBackend(workers).run(row_of_next, turns(), self._record)
        finally:
            await source.close()

    async def _row(self, task: CaseTask, cases: CaseRunner) -> CaseResult:
        """Return the row of an answer; if the budget is spent, its earlier row, which stays as it is."""
        row = await cases.run(task)
        earlier = None if task.stored is None else task.stored.row
        if earlier is not None and row.error is not None and row.error.kind == "budget":
            self.recorder.count_stored(earlier)
        return row

    def _failed(self, row: CaseResult | None) -> CaseResult | None:
        if row is not None and self.output is not None:
            self.output.failed(row)
        return row

    def _record(self, row: CaseResult | None) -> None:
        if row is not None:
            self.recorder.row(row)
            self.on_row(row)

    async def _on_judged(self, judged: AnswerWithInput, by_criterion: JudgedCriteria, duration_ms: float) -> None:
        """Save a judgement in the stores of the configuration and in the output, before its row is recorded."""
        for warning in by_criterion.warnings:
            self.recorder.note(warning)
        stores = self.tasks.plan.stores
        if not stores and self.output is None:
            return
        metadata = deep_copy(self.tasks.config.metadata)
        result = await save_judgement(
            stores, as_result(self.tasks, judged, by_criterion, duration_ms, metadata=metadata)
        )
        self.recorder.count_judgement(result)
        if self.output is not None:
            self.output.judged(result, judged.answer.origin)
