"""The execution of a run plan: workers pull tasks, rows are saved before they are reported, the verdict comes last."""

import asyncio
import platform
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from agentv.engine.calling.budget import Budget, Spent
from agentv.engine.calling.fingerprints import Fingerprints
from agentv.engine.calling.runtime import Runtime, failed_check
from agentv.engine.planning.plan import CaseTask, RunPlan, SuitePlan
from agentv.engine.planning.prices import PRICE_TABLE_DATE
from agentv.engine.planning.provenance import digest_of, load_git_state, load_scripts
from agentv.engine.running.answer_cache import make_run_cache, uncached_target_notes
from agentv.engine.running.batch import Batching, batching_of, run_batch, sends_batches
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorded_run import record_run
from agentv.engine.running.recorder import RunRecorder, StopSignal
from agentv.engine.runs.waiting import WaitingWatch
from agentv.evaluators.watched_files import WatchedFiles
from agentv.execution.auto_workers import START, AutoWorkers, WorkerTuner
from agentv.execution.backends.local import LocalBackend
from agentv.execution.quotas import InProcessQuota, QuotaClient
from agentv.loading.project import config_files
from agentv.loading.suites.suites import relative_name
from agentv.storage.run.find import calibrations_folder
from agentv.types.errors import AgentvError
from agentv.types.events import Observer, RowsCounted, RunNote, RunStarted, RunStopping
from agentv.types.json_value import JsonValue
from agentv.types.protocols import NODE_LEASE_S, Clock, QuotaService, ResultStore
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import RunReport
from agentv.types.targets import ResolvedTarget
from agentv.version import __version__

if TYPE_CHECKING:
    from agentv.engine.cluster.driver import Cluster
    from agentv.engine.cluster.opening import OpenMachines
    from agentv.engine.running.requested_rows import RequestedRows
    from agentv.engine.runs.confirm import RunTasks
    from agentv.engine.stored.resume import ResumePlan


async def run_plan(
    plan: RunPlan,
    *,
    store: ResultStore,
    observers: Sequence[Observer],
    clock: Clock,
    rng: random.Random,
    stop: StopSignal | None = None,
    resume_plan: "ResumePlan | None" = None,
    requested: "RequestedRows | None" = None,
    quota: QuotaService | None = None,
    open_machines: "OpenMachines | None" = None,
) -> RunReport:
    """Run a plan to its end and return its report. Finished rows are saved even if the run ends early.

    `resume_plan` is what remains to be done of a run that `store` already has rows of. With `requested`, only the rows
    that other threads request from it are run. `stop` ends the run early. If the awaiting task is cancelled, the store
    is closed and the cancellation is raised again. `quota` is shared with other processes, and closed at the end.
    `open_machines` opens the machines to run on, in place of those of the plan's backend.
    """
    is_merged = resume_plan is not None and resume_plan.is_merged
    recorder = RunRecorder(plan, store, list(observers), stop or StopSignal(), is_merged=is_merged)

    async def work() -> None:
        recorder.watched_files = await asyncio.to_thread(WatchedFiles, _judging_files(plan))
        store.begin(await _run_record(plan, store.run_id, clock))
        recorder.emit(_run_started(plan, store, None if resume_plan is None else resume_plan.spent))
        stop_counting = count_in_background(plan, recorder.emit)
        translations = [f"{each.suite.path}: {each.suite.dialect}" for each in plan.suites if each.suite.dialect]
        for note in (*translations, *plan.warnings, *uncached_target_notes(plan)):
            recorder.note(note)
        try:
            await _run_rows(
                plan,
                recorder=recorder,
                clock=clock,
                rng=rng,
                resume_plan=resume_plan,
                requested=requested,
                quota=quota,
                open_machines=open_machines,
            )
        finally:
            stop_counting()

    try:
        return await record_run(
            recorder,
            work,
            clock=clock,
            has_every_row=lambda: resume_plan is None or resume_plan.has_every_row,
            complete=_with_corrected_rates,
        )
    finally:
        if resume_plan is not None:
            resume_plan.rows.close()


def _with_corrected_rates(report: RunReport) -> RunReport:
    """Return the report with its corrected rates, if the project has calibrations."""
    folder = None if report.folder is None else Path(report.folder)
    if folder is None or not calibrations_folder(folder.resolve().parent.parent).is_dir():
        return report
    from agentv.engine.labels.corrected_rates import with_corrected_rates  # noqa: PLC0415 - few projects have any

    return with_corrected_rates(report, folder)


def connect_to_cluster(plan: RunPlan) -> AbstractAsyncContextManager[None]:
    """Return a context manager that connects to the cluster of a run; for a local run it does nothing.

    Enter it before the store is opened. It raises AgentvError if the plan cannot run on the cluster, or if the cluster
    cannot be reached.
    """
    if plan.options.backend == "local":
        return nullcontext()
    from agentv.engine.cluster.opening import ray_connection  # noqa: PLC0415 - few runs use them

    return ray_connection(plan)


async def _run_rows(
    plan: RunPlan,
    *,
    recorder: RunRecorder,
    clock: Clock,
    rng: random.Random,
    resume_plan: "ResumePlan | None",
    requested: "RequestedRows | None",
    quota: QuotaService | None,
    open_machines: "OpenMachines | None",
) -> None:
    """Open the quota, budget, runtime and cluster that all rows share, and process the rows."""
    runs_elsewhere = open_machines is not None or plan.options.backend != "local"
    if runs_elsewhere and quota is None:
        quota = _nodes_quota(recorder, on_ray=open_machines is None)
    client = None if quota is None else _quota_client(quota, recorder)
    spent = None if resume_plan is None else resume_plan.spent
    budget = _budget(plan, recorder, spent, client, own_name=recorder.store.run_id if runs_elsewhere else None)
    runtime = Runtime(
        specs=plan.specs,
        clock=clock,
        rng=rng,
        home=plan.home,
        run_id=recorder.store.run_id,
        prices=plan.prices,
        overrides=plan.overrides,
        note=recorder.note,
        workers=plan.workers,
        cache=make_run_cache(plan, run_id=recorder.store.run_id, clock=clock),
        budget=budget,
        uncalled_targets=_uncalled(plan, resume_plan),
        quota=client,
        watched_files=recorder.watched_files,
    )
    machines: AbstractAsyncContextManager[Cluster | None] = nullcontext()
    if runs_elsewhere and client is not None:
        from agentv.engine.cluster.opening import make_cluster, ray_machines  # noqa: PLC0415 - few runs use them

        machines = make_cluster(
            plan,
            recorder,
            clock=clock,
            resume_plan=resume_plan,
            open_machines=open_machines or ray_machines,
            runtime=runtime,
            quota=client,
            nodes_may_store=requested is None,  # a requested row is returned as soon as it is finished
        )

    async def run_targets() -> None:
        async with machines as cluster:
            await _run_targets(
                plan, runtime=runtime, recorder=recorder, resume_plan=resume_plan, requested=requested, cluster=cluster
            )

    async with runtime:
        await _until_done_or_stopped(run_targets(), recorder)


async def _until_done_or_stopped(run_targets: Coroutine[Any, Any, None], recorder: RunRecorder) -> None:
    """Process all rows in a separate task, so that an interrupt can cancel it without cancelling the caller."""
    stop = recorder.stop
    work = asyncio.create_task(run_targets)

    def give_up() -> None:
        recorder.emit(RunStopping(stop.reason or "interrupted"))
        work.cancel()

    stop.give_up = give_up
    stop.on_drain = lambda: recorder.emit(RunStopping(stop.reason or "", drains=True))
    try:
        await work
    except asyncio.CancelledError:
        if stop.state != "interrupted":
            raise
    except BaseExceptionGroup as group:
        raise _first_error(group) from group


def _uncalled(plan: RunPlan, resume_plan: "ResumePlan | None") -> tuple[ResolvedTarget, ...]:
    """Return the targets that will not be called: all their answers are stored, and they are not judges."""
    if resume_plan is None or resume_plan.calls_targets:
        return ()
    return plan.non_judge_targets


def _judging_files(plan: RunPlan) -> Iterable[str]:
    """Return the files that evaluators read or run here; nodes with a copy of the project watch their own."""
    if plan.options.backend == "ray":
        from agentv.engine.cluster.packing import is_packed  # noqa: PLC0415 - few runs use it

        return () if is_packed(plan) else plan.evaluator_files
    return plan.evaluator_files


def _nodes_quota(recorder: RunRecorder, *, on_ray: bool) -> QuotaService:
    """Return the quota that only the nodes of this run share: on Ray in an actor, else in this process."""
    if on_ray:
        from agentv.engine.cluster.opening import ray_quota  # noqa: PLC0415 - few runs use it

        return ray_quota(recorder)
    # A node may be slow to renew its leases of the quota, so these last as long as its leases of rows.
    return InProcessQuota(time.monotonic, lease_s=NODE_LEASE_S)


def _quota_client(quota: QuotaService, recorder: RunRecorder) -> QuotaClient:
    """Return the client of a shared quota. If the quota is unreachable for too long, the run stops, to be resumed."""

    def stop(reason: str) -> None:
        recorder.stop.drain(f"quota_error: {reason}", state="failed")

    return QuotaClient(quota, asyncio.get_running_loop().time, on_unanswered=recorder.note, on_loss=stop)


def _budget(
    plan: RunPlan, recorder: RunRecorder, spent: Spent | None, client: QuotaClient | None, *, own_name: str | None
) -> Budget | None:
    """Return the budget of the run, None without a limit; the first call that does not fit stops the run.

    `spent` is the cost of the run before it was resumed. A named budget is shared through `client`, where these costs
    are already counted. `own_name` is the name of a budget that only the nodes of this run share.
    """
    limit, name = plan.options.budget_usd, plan.options.budget_name
    stop = recorder.stop_for_budget

    if limit is None:
        return None
    if name is not None and client is not None:
        max_costs = {} if spent is None else spent.max_call_cost_by_target
        return Budget(limit, stop, max_call_cost_by_target=max_costs, name=name, client=client)
    shared = None if own_name is None else client
    if spent is None or not spent.usd:
        return Budget(limit, stop, name=own_name, client=shared)
    recorder.note(spent.message(limit))
    max_costs = spent.max_call_cost_by_target
    return Budget(limit, stop, spent.usd, max_call_cost_by_target=max_costs, name=own_name, client=shared)


def _first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception of a group, which may be nested. The other workers fail for the same reason."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


async def _run_targets(
    plan: RunPlan,
    *,
    runtime: Runtime,
    recorder: RunRecorder,
    resume_plan: "ResumePlan | None",
    requested: "RequestedRows | None",
    cluster: "Cluster | None",
) -> None:
    if resume_plan is not None and resume_plan.purpose == "report":
        await resume_plan.count_stored(recorder)
        await _confirm(plan, recorder, None, resume_plan)
        return
    if (problem := await _failed_check(plan, runtime, resume_plan, runs_here=cluster is None)) is not None:
        recorder.stop.fail(problem)
        return
    runner = CaseRunner(
        run_id=recorder.store.run_id,
        runtime=runtime,
        sink=recorder,
        fingerprints=Fingerprints(runtime),
        on_retry=recorder.on_retry,
        on_log_line=recorder.emit if recorder.shows_log_lines else None,
        run_elsewhere=None if cluster is None else cluster.run,
    )
    if requested is not None:
        await requested.serve(plan, runner, recorder)
        return
    async with asyncio.TaskGroup() as group:
        for target in plan.targets:
            group.create_task(
                _run_target(
                    target,
                    plan=plan,
                    runner=runner,
                    recorder=recorder,
                    resume_plan=resume_plan,
                    cluster=cluster,
                )
            )
    if cluster is not None:
        await cluster.settle()
    if resume_plan is not None and _is_done(recorder.stop):
        resume_plan.finish(recorder)
    if _is_done(recorder.stop):
        run_tasks = partial(_run_again, plan=plan, runner=runner, recorder=recorder, cluster=cluster)
        await _confirm(plan, recorder, run_tasks, resume_plan)
        if cluster is not None:
            await cluster.settle()


async def _confirm(
    plan: RunPlan, recorder: RunRecorder, run_tasks: "RunTasks | None", resume_plan: "ResumePlan | None"
) -> None:
    """Confirm the suspected regressions of a run, if a gate asks for it."""
    if recorder.confirmations is not None:
        from agentv.engine.runs.confirm import confirm_regressions  # noqa: PLC0415 - few runs have this gate

        await confirm_regressions(plan, recorder, run_tasks, resume_plan=resume_plan)


def _is_done(stop: StopSignal) -> bool:
    """Return True if all tasks of a run are done and nothing stopped it."""
    return stop.state == "finished" and stop.reason is None


async def _failed_check(
    plan: RunPlan, runtime: Runtime, resume_plan: "ResumePlan | None", *, runs_here: bool
) -> str | None:
    """Check the targets and judges that this process may call; return the message of the first failure, or None.

    If rows run on nodes, each node checks what it calls, and this process only sends batches.
    """
    targets = plan.targets if resume_plan is None or resume_plan.calls_targets else ()
    judges = plan.judges if resume_plan is None or resume_plan.calls_judges else ()
    called = (*targets, *judges) if runs_here else filter(sends_batches, targets)
    return await failed_check(called, plan, runtime)


async def _run_target(
    target: ResolvedTarget,
    *,
    plan: RunPlan,
    runner: CaseRunner,
    recorder: RunRecorder,
    resume_plan: "ResumePlan | None",
    cluster: "Cluster | None",
) -> None:
    """Process all rows of one target with its number of workers, which on a cluster is per node."""

    def begin_tasks(*, by_trial: bool = False) -> Iterator[CaseTask | None]:
        planned = recorder.count_planned(plan.tasks(target, by_trial=by_trial, count=recorder.row_count))
        tasks: Iterator[CaseTask | None] = planned
        if resume_plan is not None:
            tasks = resume_plan.remaining_tasks(recorder.note_trials(planned), runner, recorder)
        return recorder.begin(tasks)

    backend = _backend(target, plan=plan, runner=runner, cluster=cluster)
    batching = _batching(target, runner=runner, recorder=recorder, cluster=cluster)
    if batching is None:
        if target.provider_batching:
            live = runner.runtime.provider(target).provider
            reason = getattr(live, "no_batch_reason", f"a {target.provider} target cannot batch")
            recorder.note(f"target {target.name!r}: {reason}; calling case by case")
        await backend.run(runner.run, begin_tasks(), _noting_waits(target, plan, recorder, resume_plan))
        return
    for batch in batching.split(filter(None, begin_tasks(by_trial=True))):
        for part in runner.dependencies.split(batch):
            await run_batch(part, batching=batching, runner=runner, backend=backend, recorder=recorder)


def _noting_waits(
    target: ResolvedTarget, plan: RunPlan, recorder: RunRecorder, resume_plan: "ResumePlan | None"
) -> Callable[[CaseResult], None]:
    """Return the function that records a result. It notes once if a long run waits for one call after another."""
    planned = plan.planned
    is_set = plan.configured_workers(target) is not None or plan.workers(target) > 1
    if is_set or planned is None or resume_plan is not None or target is not plan.targets[0]:
        return recorder.row
    now = asyncio.get_running_loop().time
    watch = WaitingWatch(planned // len(plan.targets), now())

    def record(result: CaseResult) -> None:
        recorder.row(result)
        note = watch.after_result(now())
        if note is not None:
            recorder.emit(RunNote(note, is_urgent=True))  # not stored: it is about the time that is left now

    return record


def _batching(
    target: ResolvedTarget, *, runner: CaseRunner, recorder: RunRecorder, cluster: "Cluster | None"
) -> Batching | None:
    """Return the batch calls of a target, None for single calls.

    A provider that only nodes call, such as a model on their graphics cards, is not created here.
    """
    is_called_here = cluster is None or sends_batches(target)
    return batching_of(target, runner, recorder.store.note) if is_called_here else None


async def _run_again(
    target: ResolvedTarget,
    tasks: Iterator[CaseTask | None],
    *,
    plan: RunPlan,
    runner: CaseRunner,
    recorder: RunRecorder,
    cluster: "Cluster | None",
) -> None:
    """Run tasks of rows that have answers, by single calls, unless the target answers in batches only."""
    backend = _backend(target, plan=plan, runner=runner, cluster=cluster)
    batching = _batching(target, runner=runner, recorder=recorder, cluster=cluster)
    if batching is None or batching.has_fallback:
        await backend.run(runner.run, tasks, recorder.row)
        return
    for batch in batching.split(filter(None, tasks)):
        await run_batch(batch, batching=batching, runner=runner, backend=backend, recorder=recorder)


def _backend(target: ResolvedTarget, *, plan: RunPlan, runner: CaseRunner, cluster: "Cluster | None") -> LocalBackend:
    """Return the workers of a target; on a cluster their number follows that of the nodes."""
    if cluster is None:
        provider = runner.runtime.provider(target)
        most = plan.workers(target, most=getattr(provider.provider, "max_workers", None))
        if not plan.adapts_workers(target):
            return LocalBackend(most)
        backend = LocalBackend(min(START, most))
        provider.tune(WorkerTuner(backend.resize, AutoWorkers(workers=backend.workers, most=most)))
        return backend

    def workers() -> int:
        return max(1, cluster.capacity(target))  # without a node a row waits for one, or for the end of the run

    backend = LocalBackend(workers())
    cluster.watch(lambda: backend.resize(workers()))
    return backend


async def _run_record(plan: RunPlan, run_id: str, clock: Clock) -> RunRecord:
    roots = [suite.suite.repository_root for suite in plan.suites]
    git = await asyncio.to_thread(plan.git or partial(load_git_state, roots[0])) if roots else None
    folders = [suite.suite.base_dir for suite in plan.suites]
    scripts: dict[str, JsonValue] = {
        target.name: digests for target in (*plan.targets, *plan.judges) if (digests := load_scripts(target, folders))
    }
    files = await asyncio.to_thread(_file_digests, plan)
    return RunRecord(
        run_id=run_id,
        created_at=clock(),
        agentv_version=__version__,
        plan={
            **plan.to_json(),
            "scripts": scripts,
            "files": files,
            "price_table_date": PRICE_TABLE_DATE,
            "python": platform.python_version(),
        },
        name=plan.options.name,
        git=git,
    )


def _file_digests(plan: RunPlan) -> dict[str, JsonValue]:
    """Return the SHA-256 of each file that suites and evaluators name, and of the project's settings, by path.

    The paths begin at the root of the repository.
    """
    suites = [suite.suite for suite in plan.suites]
    named = [(file, suite) for suite in suites for file in suite.files]
    named += [(file, suite) for suite in suites[:1] for file in plan.evaluator_files]
    named += [
        (str(file), suite)
        for suite in suites
        for file in config_files(Path(suite.base_dir), Path(suite.repository_root))
    ]
    digests = {relative_name(Path(file), Path(suite.repository_root)): digest_of(Path(file)) for file, suite in named}
    return {name: digest for name, digest in digests.items() if digest is not None}


def _run_started(plan: RunPlan, store: ResultStore, spent: Spent | None) -> RunStarted:
    return RunStarted(
        run_id=store.run_id,
        planned=plan.planned,
        suites=tuple(suite.suite.dataset or suite.suite.path for suite in plan.suites),
        targets=tuple(target.name for target in plan.targets),
        workers=sum(plan.workers(target) for target in plan.targets),
        folder=store.folder,
        cases=plan.case_count,
        trials=plan.trials,
        prompts=plan.prompts,
        budget_usd=plan.options.budget_usd,
        spent_usd=0.0 if spent is None else spent.usd,
    )


def count_in_background(plan: RunPlan, emit: Callable[[RowsCounted], None]) -> Callable[[], None]:
    """Count the rows of a plan of unknown size in a thread, and emit the result. The returned function cancels this.

    Nothing is emitted if a suite cannot be counted. The process can end while the thread is still counting.
    """
    loop = asyncio.get_running_loop()
    is_wanted = True

    def emit_if_wanted(counted: RowsCounted) -> None:
        if is_wanted:
            emit(counted)

    def count() -> None:
        counted = count_rows(plan)
        if counted is not None and is_wanted:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(emit_if_wanted, counted)

    def cancel() -> None:
        nonlocal is_wanted
        is_wanted = False

    if plan.planned is None:
        Thread(target=count, name="agentv-counting", daemon=True).start()
    return cancel


def count_rows(plan: RunPlan) -> RowsCounted | None:
    """Return the number of rows and cases of a plan; None if a suite cannot be counted."""
    rows = cases = 0
    for suite in plan.suites:
        count = _count_cases(suite)
        if count is None:
            return None
        cases += count
        trials = suite.options.trials or suite.suite.trials
        rows += count * trials * suite.rows_per_trial if suite.planned is None else suite.planned
    return RowsCounted(rows, cases)


def _count_cases(suite: SuitePlan) -> int | None:
    selection = suite.selection
    if selection.count is not None:
        return selection.count
    counter = getattr(suite.suite.cases, "count_rows", None)
    try:
        count: int | None = None if counter is None else counter()
    except AgentvError:  # the run reports it
        return None
    return count if count is None or selection.shard is None else count // selection.shard.count
