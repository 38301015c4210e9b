"""The cluster of a run, opened on the engine that its options name."""

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
from agentv.engine.cluster.packing import check_packable, is_packed, not_sent, pack
from agentv.engine.cluster.tasks import RunSpec, SharedBudget, check_sendable, make_spec
from agentv.engine.cluster.workspaces import read_states, repositories_of
from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.recorder import RunRecorder
from agentv.execution.processes.left_behind import temporary_folder
from agentv.execution.quotas import QuotaClient
from agentv.storage.files.object_store import is_relative
from agentv.types.errors import ConfigError, MissingExtraError, QuotaError
from agentv.types.protocols import Clock, QuotaLease, SegmentStore, StartedQuota

if TYPE_CHECKING:
    from agentv.engine.stored.resume import ResumePlan


MOST_NAMED = 5
"""The ignored files and folders that are named in a note."""

OpenMachines: TypeAlias = Callable[[RunSpec, RunOptions], Machines]


def ray_machines(spec: RunSpec, options: RunOptions) -> Machines:
    """Return the machines of the Ray cluster that the options name. Raises MissingExtraError."""
    _import_ray()
    from agentv.engine.cluster.ray_nodes import RayMachines  # noqa: PLC0415 - of an extra

    return RayMachines(spec, options.ray_address)


def ray_quota(recorder: RunRecorder) -> QuotaLease:
    """Return the quota of a run on a Ray cluster, from which its nodes lease. Raises MissingExtraError."""
    _import_ray()
    from agentv.engine.cluster.ray_quota import RayQuota  # noqa: PLC0415 - of an extra

    store, stop = recorder.store, recorder.stop
    folder = temporary_folder("quota") if store.folder is None else Path(store.folder, "quota").absolute()
    return RayQuota(store.run_id, folder, is_over=lambda: stop.state == "finished" or store.folder is None)


_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # under `uv run` Ray would send the whole working folder, with its .env file
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray would warn that this becomes the default
}
"""Settings of Ray that it reads when it is imported, for those that its user has not set."""


def _import_ray() -> None:
    """Import Ray with our settings. Raises MissingExtraError."""
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    try:
        import ray  # noqa: F401, PLC0415 - of an extra
    except ImportError as error:
        raise MissingExtraError("--backend ray", "ray") from error


@asynccontextmanager
async def reached(plan: RunPlan) -> AsyncIterator[None]:
    """Connect to the Ray cluster of a run, before anything of the run is stored, and leave it at the end.

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

    is_ours = await asyncio.to_thread(connect, plan.options.ray_address)
    try:
        yield
    finally:
        if is_ours:
            await asyncio.to_thread(leave)


def check_segments(plan: RunPlan) -> None:
    """Raise ConfigError for segments in a folder of this machine if the nodes are others, which share no folder."""
    url = plan.options.segments
    if url is not None and is_relative(url):
        raise ConfigError(
            f"--segments {url} is a folder of this machine, and the nodes, which write the segments, get only a copy "
            "of the project; give the URL of an object store, or the absolute path of a folder that all machines share"
        )


def cluster_of(
    plan: RunPlan,
    recorder: RunRecorder,
    *,
    clock: Clock,
    resume_plan: "ResumePlan | None",
    open_machines: OpenMachines,
    runtime: Runtime,
    quota: QuotaClient,
    may_store: bool = True,
) -> Cluster:
    """Return the machines of a run. Raises MissingExtraError, or ConfigError for a plan without files.

    If `may_store`, the nodes store the rows of a run that has a place for segments.
    """
    budget = runtime.budget
    run_id, store = recorder.store.run_id, recorder.store
    place = store.segments_place if may_store and isinstance(store, SegmentStore) else None
    packed = pack(plan, run_id=run_id) if plan.options.backend == "ray" and is_packed(plan) else None
    if packed is not None and (ignored := not_sent(plan)):
        names = ", ".join(ignored[:MOST_NAMED]) + (", …" if len(ignored) > MOST_NAMED else "")
        recorder.note(f"nodes do not have what git ignores: {names}", is_problem=False)
    spec = make_spec(
        plan,
        run_id=run_id,
        calls_targets=resume_plan is None or resume_plan.calls_targets,
        calls_judges=resume_plan is None or resume_plan.calls_judges,
        shows_log_lines=recorder.shows_log_lines,
        budget=None
        if budget is None
        else SharedBudget(budget.name or "", budget.limit_usd - budget.spent_usd, dict(budget.max_call_cost_by_target)),
        packed=packed,
        segments=place,
        needs_whole_rows=recorder.needs_whole_rows,
        shows_answers=recorder.shows_answers,
    )
    if isinstance(quota.quota, StartedQuota):
        with suppress(QuotaError):  # the first request reports why
            for account in _accounts(plan, spec, runtime):
                quota.quota.start(account)
    return Cluster(
        open_machines(spec, plan.options),
        recorder,
        workers=plan.workers,
        clock=clock,
        quota=quota,
        on_budget_stop=lambda stop: None if budget is None else budget.stop(_as_given(stop, plan, budget)),
        segments=store if place is not None and isinstance(store, SegmentStore) else None,
    )


def _accounts(plan: RunPlan, spec: RunSpec, runtime: Runtime) -> set[str]:
    """Return the accounts whose leases the nodes will need if they have the keys of this machine."""
    called = (*(plan.targets if spec.calls_targets else ()), *(plan.judges if spec.calls_judges else ()))
    limited = {runtime.account_of(each) for each in called if each.requests_per_minute or each.tokens_per_minute}
    return limited if runtime.budget is None else {runtime.budget.account, *limited}


def _as_given(stop: BudgetStop, plan: RunPlan, budget: Budget) -> BudgetStop:
    """Return the reason of a stop with the limit and the name that the user gave."""
    spent_usd = stop.spent_usd + budget.spent_usd
    return replace(stop, limit_usd=budget.limit_usd, spent_usd=spent_usd, name=plan.options.budget_name)
