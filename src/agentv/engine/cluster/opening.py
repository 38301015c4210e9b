"""The cluster of a run, opened on the backend that its options name."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from agentv.engine.calling.budget import Budget, BudgetStop
from agentv.engine.calling.runtime import Runtime
from agentv.engine.cluster.driver import Cluster, Machines
from agentv.engine.cluster.packing import check_packable, is_packed, pack, unsent_files
from agentv.engine.cluster.tasks import RunSpec, SharedBudget, check_sendable, make_spec
from agentv.engine.cluster.workspaces import read_states, repositories_of
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.recorder import RunRecorder
from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.quotas import QuotaClient
from agentv.storage.files.object_store import is_relative
from agentv.types.errors import ConfigError, MissingExtraError, QuotaError
from agentv.types.protocols import Clock, QuotaService, SegmentStore, StartedQuota
from agentv.types.run_options import RunOptions

if TYPE_CHECKING:
    from agentv.engine.stored.resume import ResumePlan


MAX_NAMED = 5
"""How many ignored files and folders a note names."""

OpenMachines: TypeAlias = Callable[[RunSpec, RunOptions], Machines]


def ray_machines(spec: RunSpec, options: RunOptions) -> Machines:
    """Return the machines of the Ray cluster that the options name. Raises MissingExtraError."""
    _import_ray()
    from agentv.engine.cluster.ray_nodes import RayMachines  # noqa: PLC0415 - of an extra

    return RayMachines(spec, options.ray_address)


def ray_quota(recorder: RunRecorder) -> QuotaService:
    """Return the quota of a run on a Ray cluster, from which its nodes lease. Raises MissingExtraError."""
    _import_ray()
    from agentv.engine.cluster.ray_quota import RayQuota  # noqa: PLC0415 - of an extra

    store, stop = recorder.store, recorder.stop
    folder = temporary_folder("quota") if store.folder is None else Path(store.folder, "quota").absolute()
    return RayQuota(store.run_id, folder, is_over=lambda: stop.state == "finished" or store.folder is None)


_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run` Ray would send the whole working folder, with its .env file
    # Of a lost node Ray would print the end of its log; the run has a note of its own.
    "RAY_DEDUP_LOGS_SKIP_REGEX": r"[\s\S]",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray would warn that this becomes the default
}
"""Environment variables that Ray reads when it is imported; those that the user has set are kept."""


def _import_ray() -> None:
    """Import Ray with our settings. Raises MissingExtraError."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # noqa: F401, PLC0415 - of an extra
    except ImportError as error:
        raise MissingExtraError("--backend ray", "ray") from error


@asynccontextmanager
async def ray_connection(plan: RunPlan) -> AsyncIterator[None]:
    """Stay connected to the Ray cluster of a run during a `with` block. Enter it before the store is opened.

    Raises MissingExtraError, ConfigError for a plan that cannot be sent, and ClusterError.
    """
    check_sendable(plan)
    if is_packed(plan):
        check_packable(plan)
        check_segments(plan)
    else:
        read_states(repositories_of(plan))
    _import_ray()
    from agentv.engine.cluster.ray_nodes import connect, leave  # noqa: PLC0415 - of an extra

    has_connected = await asyncio.to_thread(connect, plan.options.ray_address)
    try:
        yield
    finally:
        if has_connected:
            await asyncio.to_thread(leave)


def check_segments(plan: RunPlan) -> None:
    """Raise ConfigError for segments at a relative path, which nodes with a copy of the project cannot reach."""
    url = plan.options.segments
    if url is not None and is_relative(url):
        raise ConfigError(
            f"--segments {url} is a folder of this machine, and the nodes, which write the segments, get only a copy "
            "of the project; give the URL of an object store, or the absolute path of a folder that all machines share"
        )


def make_cluster(
    plan: RunPlan,
    recorder: RunRecorder,
    *,
    clock: Clock,
    resume_plan: "ResumePlan | None",
    open_machines: OpenMachines,
    runtime: Runtime,
    quota: QuotaClient,
    nodes_may_store: bool = True,
) -> Cluster:
    """Return the cluster of a run, not started yet.

    Raises MissingExtraError, or ConfigError for a plan that was not read from files.
    With `nodes_may_store` the nodes store the rows themselves, if the run has a place for segments.
    """
    budget, shared_budget = runtime.budget, None
    if budget is not None:
        left_usd = budget.limit_usd - budget.spent_usd
        shared_budget = SharedBudget(budget.name or "", left_usd, dict(budget.max_call_cost_by_target))

    def stop_for_budget(stop: BudgetStop) -> None:
        if budget is not None:
            budget.stop(_whole_run_stop(stop, plan, budget))

    run_id, store = recorder.store.run_id, recorder.store
    place = store.segments_place if nodes_may_store and isinstance(store, SegmentStore) else None
    packed = pack(plan, run_id=run_id) if plan.options.backend == "ray" and is_packed(plan) else None
    if packed is not None and (ignored := unsent_files(plan)):
        names = ", ".join(ignored[:MAX_NAMED]) + (", …" if len(ignored) > MAX_NAMED else "")
        recorder.note(f"not sent to the nodes, because git ignores them: {names}", is_problem=False)
    spec = make_spec(
        plan,
        run_id=run_id,
        calls_targets=resume_plan is None or resume_plan.calls_targets,
        calls_judges=resume_plan is None or resume_plan.calls_judges,
        shows_log_lines=recorder.shows_log_lines,
        budget=shared_budget,
        packed=packed,
        segments=place,
        needs_whole_rows=recorder.needs_whole_rows,
        shows_answers=recorder.shows_answers,
    )
    if isinstance(quota.quota, StartedQuota):
        with suppress(QuotaError):  # reported when the first request fails
            for account in _accounts(plan, spec, runtime):
                quota.quota.start(account)
    return Cluster(
        open_machines(spec, plan.options),
        recorder,
        workers=plan.workers,
        clock=clock,
        quota=quota,
        on_budget_stop=stop_for_budget,
        segments=store if place is not None and isinstance(store, SegmentStore) else None,
    )


def _accounts(plan: RunPlan, spec: RunSpec, runtime: Runtime) -> set[str]:
    """Return the quota accounts from which nodes with the API keys of this machine will lease."""
    called = (*(plan.targets if spec.calls_targets else ()), *(plan.judges if spec.calls_judges else ()))
    limited = {
        runtime.account_of(target) for target in called if target.requests_per_minute or target.tokens_per_minute
    }
    return limited if runtime.budget is None else {runtime.budget.account, *limited}


def _whole_run_stop(stop: BudgetStop, plan: RunPlan, budget: Budget) -> BudgetStop:
    """Return a node's budget stop with the limit, the name and the spending of the whole run."""
    spent_usd = stop.spent_usd + budget.spent_usd
    return replace(stop, limit_usd=budget.limit_usd, spent_usd=spent_usd, name=plan.options.budget_name)
