"""The run: workers pull tasks, rows are stored before they are told, and one function gives the verdict."""

import asyncio
import platform
import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from agentv.execution.local import LocalBackend
from agentv.execution.threads import abandoned_calls
from agentv.pipeline.answer import Prepared
from agentv.pipeline.batch import answer_batch, batch_provider, batches
from agentv.pipeline.case import CaseRunner
from agentv.pipeline.fingerprints import Fingerprints
from agentv.pipeline.ledger import Ledger, Stop
from agentv.pipeline.plan import CaseTask, RunPlan
from agentv.pipeline.prices import PRICE_TABLE_DATE
from agentv.pipeline.provenance import load_git_state
from agentv.pipeline.toolbox import Toolbox
from agentv.types.errors import ProviderError, StorageError
from agentv.types.events import Observer, RunEnded, RunStarted, RunStopping
from agentv.types.protocols import Clock, ResultStore
from agentv.types.provider import CheckedProvider
from agentv.types.results import CaseResult, RunRecord, RunReport
from agentv.types.targets import ResolvedTarget
from agentv.version import __version__


async def run_plan(
    plan: RunPlan,
    *,
    store: ResultStore,
    observers: Sequence[Observer],
    clock: Clock,
    rng: random.Random,
    stop: Stop | None = None,
) -> RunReport:
    """Run a plan to its end and return its report; what was finished is kept however it ends.

    `stop` ends it early. When the task that awaits this is cancelled, the store is closed and the cancellation goes on.
    """
    started = clock()
    stop = stop or Stop()
    ledger = Ledger(plan, store, list(observers), stop)
    try:
        store.begin(await _run_record(plan, store.run_id, clock))
        ledger.tell(_started(plan, store))
        for warning in plan.warnings:
            ledger.note(warning)
        await _work(plan, ledger, clock, rng)
    except* StorageError as errors:
        stop.fail(f"store_error: {errors.exceptions[0]}")
    finally:
        store.close(stop.state)
    if abandoned := abandoned_calls():
        ledger.note(f"{abandoned} in-process calls were abandoned at their deadline and may still be running")
    report = ledger.report((clock() - started).total_seconds())
    ledger.tell(RunEnded(report))
    return report


async def _work(plan: RunPlan, ledger: Ledger, clock: Clock, rng: random.Random) -> None:
    """Do all rows in a task of our own, so that an interrupt can give it up without ending who called us."""
    stop = ledger.stop
    toolbox = Toolbox(
        specs=plan.specs,
        clock=clock,
        rng=rng,
        home=plan.home,
        prices=plan.prices,
        overrides=plan.overrides,
        note=ledger.note,
    )
    async with toolbox:
        work = asyncio.create_task(_run_targets(plan, toolbox, ledger))

        def give_up() -> None:
            ledger.tell(RunStopping(stop.reason or "interrupted"))
            work.cancel()

        stop.give_up = give_up
        try:
            await work
        except asyncio.CancelledError:
            if stop.state != "interrupted":
                stop.state = "interrupted"
                raise


async def _run_targets(plan: RunPlan, toolbox: Toolbox, ledger: Ledger) -> None:
    if not await _are_healthy(plan, toolbox, ledger):
        return
    runner = CaseRunner(ledger.store.run_id, toolbox, ledger, Fingerprints(), ledger.on_retry)
    async with asyncio.TaskGroup() as group:
        for target in plan.targets:
            group.create_task(_run_target(target, plan, runner, ledger))


async def _are_healthy(plan: RunPlan, toolbox: Toolbox, ledger: Ledger) -> bool:
    """Check every target once before any case is spent; a failing one ends the run."""
    for target in plan.targets:
        provider = toolbox.provider(target).provider
        if isinstance(provider, CheckedProvider):
            try:
                await provider.healthcheck()
            except ProviderError as error:
                ledger.stop.fail(f"healthcheck of target {target.name!r} failed: {error.failure.message}")
                return False
    return True


async def _run_target(target: ResolvedTarget, plan: RunPlan, runner: CaseRunner, ledger: Ledger) -> None:
    """Do all rows of one target with its number of workers."""
    backend = LocalBackend(plan.workers(target))
    batching = batch_provider(runner.toolbox, target)
    if target.provider_batching and batching is None:
        ledger.note(f"{target.name}: provider_batching is set, but {target.provider} cannot batch; asking case by case")
    if batching is None:
        await backend.run(runner.run, _until_stopped(plan.tasks(target), ledger.stop), ledger.row)
        return
    for batch in batches(_until_stopped(plan.tasks(target, by_trial=True), ledger.stop), target.batch_size):
        outcome = await answer_batch(batching, batch, clock=runner.toolbox.clock)
        for note in outcome.notes:
            ledger.note(note)
        work = partial(_run_prepared, runner, outcome.prepared)
        await backend.run(work, batch, ledger.row)


async def _run_prepared(runner: CaseRunner, prepared: Mapping[str, Prepared], task: CaseTask) -> CaseResult:
    return await runner.run(task, prepared.get(task.case.id))


def _until_stopped(tasks: Iterator[CaseTask], stop: Stop) -> Iterator[CaseTask]:
    for task in tasks:
        if stop.reason is not None:
            return
        yield task


async def _run_record(plan: RunPlan, run_id: str, clock: Clock) -> RunRecord:
    roots = [suite.suite.repository_root for suite in plan.suites]
    git = await asyncio.to_thread(load_git_state, roots[0]) if roots else None
    return RunRecord(
        run_id=run_id,
        created_at=clock(),
        agentv_version=__version__,
        plan={**plan.to_json(), "price_table_date": PRICE_TABLE_DATE, "python": platform.python_version()},
        name=plan.options.name,
        git=git,
    )


def _started(plan: RunPlan, store: ResultStore) -> RunStarted:
    return RunStarted(
        run_id=store.run_id,
        planned=plan.planned,
        suites=tuple(suite.suite.dataset or suite.suite.path for suite in plan.suites),
        targets=tuple(target.name for target in plan.targets),
        workers=sum(plan.workers(target) for target in plan.targets),
        folder=store.folder,
        cases=plan.cases,
        trials=max((suite.options.trials or suite.suite.trials for suite in plan.suites), default=1),
    )
