"""The plan of a stored run, made again from its files as they are now."""

from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from agentv.engine.planning.inputs import SuiteInput, load_inputs
from agentv.engine.planning.options import RunOptions, make_options
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.planning import make_plan
from agentv.engine.stored.baseline import without_lost_baseline
from agentv.loading.files.places import find_eval_files
from agentv.registry import Specs
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.run import RunRecord

ChangeInputs = Callable[[tuple[SuiteInput, ...], Specs], tuple[SuiteInput, ...]]


def working_folder(run: RunRecord, home: Path) -> Path:
    """Return the folder that a run was started in. Raises ConfigError for a run whose files are not known."""
    folder = run.plan.get("folder")
    if not isinstance(folder, str):
        raise ConfigError(
            f"run {run.run_id} does not say which files it was made from (it was started from Python, or by an older "
            "agentv), so its cases cannot be read again"
        )
    try:
        place = Path(home.parent, folder).resolve()
        is_there = place.is_dir()
    except (OSError, ValueError) as error:
        raise ConfigError(f"run {run.run_id} names a folder that is none ({folder[:60]!r}): {error}") from error
    if not is_there:
        raise ConfigError(f"run {run.run_id} was started in {place}, which is not there; its cases stand there")
    return place


def load_stored_plan(
    run: RunRecord,
    home: Path,
    *,
    cwd: Path,
    env: Mapping[str, str],
    change: ChangeInputs = lambda suites, _specs: suites,
    is_anew: bool = False,
    budget_usd: float | None = None,
    secrets: tuple[str, ...] = (),
) -> RunPlan:
    """Read a run's eval files and targets again, with its own paths and options. `change` alters what was read.

    `is_anew` is for a plan whose calls were made before and are wanted again: what a cache has does not answer them.
    `budget_usd` is in place of the run's own budget; `secrets` are struck from what targets say.
    """
    given = run.plan.get("paths")
    paths = tuple(str(path) for path in given) if isinstance(given, list) else ()
    # Whoever goes on with a run that --fail-fast stopped wants the rest of it.
    options = replace(stored_options(run.plan), fail_fast=None)
    if is_anew:
        options = replace(options, cache="off")
    if budget_usd is not None:
        options = replace(options, budget_usd=budget_usd)
    options, gone = without_lost_baseline(options, home)
    inputs = load_inputs(find_eval_files(paths, cwd=cwd), options, cwd=cwd, env=env, secrets=secrets)
    suites = change(inputs.suites, inputs.specs)
    plan = make_plan(suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
    return replace(plan, paths=paths, folder=str(cwd), warnings=(*plan.warnings, *gone))


def stored_options(plan: JsonObject) -> RunOptions:
    """Return the options that a run was started with."""
    options = plan.get("options")
    try:
        return make_options(dict(options) if isinstance(options, Mapping) else {})
    except (AgentvError, TypeError, ValueError) as error:
        raise ConfigError(f"the options of this run cannot be read: {error}") from error
