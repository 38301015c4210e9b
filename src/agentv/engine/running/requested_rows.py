"""Rows of an open run that other threads request one by one."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from agentv.engine.planning.plan import CaseTask, RunPlan
from agentv.types.errors import AgentvError
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.engine.running.case import CaseRunner
    from agentv.engine.running.recorder import RunRecorder, StopSignal


_SIGNAL_POLL_S = 0.1
T = TypeVar("T")


def _awaited(future: "Future[T]") -> T:
    """Return the result of a future as soon as it has one, or raise what a signal handler raises meanwhile.

    A wait without a time-out would miss a signal that another thread gets, or that arrives just before the wait begins.
    """
    while True:
        try:
            return future.result(_SIGNAL_POLL_S)
        except TimeoutError:
            if future.done():
                return future.result()


class RunEndedError(AgentvError):
    """A requested row cannot be run, because its run has ended or was stopped. The message gives the reason."""


class RequestedRows:
    """The rows of a run that other threads request one by one. Each row is run once, however often it is requested."""

    def __init__(self) -> None:
        self._opened: Future[asyncio.AbstractEventLoop] = Future()
        self._closing: asyncio.Event | None = None
        self._group: asyncio.TaskGroup | None = None
        self._plan: RunPlan | None = None
        self._runner: CaseRunner | None = None
        self._recorder: RunRecorder | None = None
        self._rows: dict[ResultKey, asyncio.Task[CaseResult]] = {}
        self._saved: dict[ResultKey, CaseResult] = {}
        self._expected: dict[ResultKey, str] = {}
        self._unexpected: set[ResultKey] = set()
        self._limits: dict[int, AbstractAsyncContextManager[object]] = {}

    async def serve(self, plan: RunPlan, runner: "CaseRunner", recorder: "RunRecorder") -> None:
        """Run the requested rows until `close` is called; count them at the end, when it is known which were expected.

        A row that did not pass, in tests that all expected this, is stored again as `skipped`.
        """
        self._plan, self._runner, self._recorder, self._closing = plan, runner, recorder, asyncio.Event()
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                self._opened.set_result(asyncio.get_running_loop())
                await self._closing.wait()
        finally:
            for key, row in self._saved.items():
                reason = None if key in self._unexpected else self._expected.get(key)
                counted = row if reason is None else recorder.save(_expected_row(row, reason))
                if counted is not None:
                    recorder.count(counted)

    def get(self, tasks: Sequence[CaseTask], *, needed: Sequence[CaseTask] = ()) -> tuple[CaseResult, ...]:
        """Run tasks concurrently and return their rows. Call this from another thread than that of the run.

        `needed` are the tasks that `tasks` depend on. They are begun first, so they must be sorted: each task after its
        own dependencies. Raises RunEndedError if the run was stopped, or ends before the rows are finished.
        """
        try:
            loop = _awaited(self._opened)
            return _awaited(asyncio.run_coroutine_threadsafe(self._results(tasks, needed), loop))
        except (RuntimeError, asyncio.CancelledError, CancelledError) as error:  # closed, or interrupted
            raise RunEndedError(f"the run has ended: {self._why_ended()}") from error

    def settle(self, keys: Sequence[ResultKey], *, expected: str | None) -> None:
        """Record the outcome of a test whose rows under `keys` did not pass: whether it `expected` that, and why."""

        def record(_stop: "StopSignal", _closing: asyncio.Event) -> None:
            if expected is None:
                self._unexpected.update(keys)
            else:
                self._expected.update(dict.fromkeys(keys, expected))

        self._call(record)

    def close(self) -> None:
        """Let the run end when the rows in flight are finished."""
        self._call(lambda _stop, closing: closing.set())

    def drain(self, reason: str) -> None:
        """Refuse further rows, and record that the run ends early; the rows in flight are finished."""
        self._call(lambda stop, _closing: stop.drain(reason))

    def fail_run(self, reason: str) -> None:
        """Refuse further rows, and record that the run lacks rows; the rows in flight are finished."""
        self._call(lambda stop, _closing: stop.drain(reason, state="failed"))

    def interrupt(self, reason: str) -> None:
        """End the run at once."""
        self._call(lambda stop, _closing: stop.interrupt(reason))

    def _call(self, work: "Callable[[StopSignal, asyncio.Event], object]") -> None:
        """Wait until the run is open, then call a function in its thread. Do nothing if the run has ended."""
        with suppress(RuntimeError, RunEndedError):
            loop = _awaited(self._opened)
            if self._recorder is not None and self._closing is not None:
                loop.call_soon_threadsafe(work, self._recorder.stop, self._closing)

    def fail(self, reason: str) -> None:
        """Refuse all rows if the run ended without a call of `serve`; otherwise do nothing. Call this after the run."""
        if not self._opened.done():
            self._opened.set_exception(RunEndedError(reason))

    async def _results(self, tasks: Sequence[CaseTask], needed: Sequence[CaseTask]) -> tuple[CaseResult, ...]:
        for task in needed:
            self._row(task)
        rows = [self._row(task) for task in tasks]
        # The rows belong to the run: they continue if one of them, or the requesting thread, fails.
        return tuple(await asyncio.gather(*map(asyncio.shield, rows)))

    def _row(self, task: CaseTask) -> asyncio.Task[CaseResult]:
        key = task.slot
        row = self._rows.get(key)
        if row is None:
            if self._recorder is None or self._group is None:
                raise RunEndedError("the run has not begun")
            reason = self._recorder.stop.reason
            if reason is not None:
                raise RunEndedError(f"the run was stopped: {reason}")
            row = self._rows[key] = self._group.create_task(self._run(task))
        return row

    async def _run(self, task: CaseTask) -> CaseResult:
        plan, runner, recorder = self._plan, self._runner, self._recorder
        if plan is None or runner is None or recorder is None:
            raise RunEndedError("the run has not begun")
        async with self._limit(task.target, plan, runner):
            row = await runner.run(task)
            saved = recorder.save(row)
            if saved is not None:
                self._saved[task.slot] = saved
            return row

    def _limit(
        self, target: ResolvedTarget, plan: RunPlan, runner: "CaseRunner"
    ) -> AbstractAsyncContextManager[object]:
        """Return a context manager that limits the concurrent rows of a target, always the same for one target."""
        key = id(target)
        if key not in self._limits:
            max_workers = None
            with suppress(AgentvError):  # the row reports that its target cannot be created
                max_workers = getattr(runner.runtime.provider(target).provider, "max_workers", None)
            limits = [limit for limit in (plan.configured_workers(target), max_workers) if isinstance(limit, int)]
            self._limits[key] = asyncio.Semaphore(min(limits)) if limits else nullcontext()
        return self._limits[key]

    def _why_ended(self) -> str:
        reason = None if self._recorder is None else self._recorder.stop.reason
        return reason or "it was closed"


def _expected_row(row: CaseResult, reason: str) -> CaseResult:
    """Return a row that supersedes `row`, which was expected not to pass: skipped, with the reason."""
    return replace(
        row,
        seq=None,
        generation=row.generation + 1,
        status="skipped",
        score=None,
        verdict=None,
        reasoning=reason,
        hits=(),
        misses=(),
        expected_aspect_count=0,
        raw_aspects=None,
        evaluator_results=(),
        score_keys={},
        error=None,
        single_form=False,
    )
