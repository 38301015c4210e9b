"""The cluster of a run, opened on the engine that its options name."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from agentv.engine.cluster.driver import Cluster, Machines
from agentv.engine.cluster.tasks import RunSpec, make_spec
from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.recorder import RunRecorder
from agentv.types.errors import MissingExtraError
from agentv.types.protocols import Clock

if TYPE_CHECKING:
    from agentv.engine.stored.resume import ResumePlan


OpenMachines: TypeAlias = Callable[[RunSpec, RunOptions], Machines]


def ray_machines(spec: RunSpec, options: RunOptions) -> Machines:
    """Return the machines of the Ray cluster that the options name. Raises MissingExtraError."""
    try:
        from agentv.engine.cluster.ray_nodes import RayMachines  # noqa: PLC0415 - of an extra
    except ImportError as error:
        raise MissingExtraError("--backend ray", "ray") from error
    return RayMachines(spec, options.ray_address)


def cluster_of(
    plan: RunPlan,
    recorder: RunRecorder,
    *,
    clock: Clock,
    resume_plan: "ResumePlan | None",
    open_machines: OpenMachines = ray_machines,
) -> Cluster:
    """Return the machines of a run. Raises MissingExtraError, or ConfigError for a plan without files."""
    spec = make_spec(
        plan,
        run_id=recorder.store.run_id,
        calls_targets=resume_plan is None or resume_plan.calls_targets,
        calls_judges=resume_plan is None or resume_plan.calls_judges,
        shows_log_lines=recorder.shows_log_lines,
    )
    return Cluster(open_machines(spec, plan.options), recorder, workers=plan.workers, clock=clock)
