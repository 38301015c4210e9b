"""The plan of a stored run, made again from the present state of its files, or with other evaluators."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.planning.baseline import without_lost_baseline
from agentv.engine.planning.inputs import Inputs, SuiteInput, load_inputs
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.planning import make_plan
from agentv.engine.stored.imported import imported_log
from agentv.engine.stored.judged_by import with_stored_gates, with_stored_pass_scores
from agentv.engine.stored.project_defaults import stored_guideline_patterns, with_stored_prices
from agentv.loading.criteria.run_configs import load_run_config
from agentv.loading.files.places import find_eval_files, skipped_lines
from agentv.registry import Specs
from agentv.types.cases import BrokenCase, CaseSource, EvalCase, EvalSuite, EvaluatorConfig
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.json_value import JsonObject, strings_of
from agentv.types.records.run import RunRecord
from agentv.types.run_options import RunOptions, make_options


class _CasesWithoutEvaluators(Struct, frozen=True):
    """A suite's cases without evaluators of their own."""

    cases: CaseSource

    @property
    def count(self) -> int | None:
        return self.cases.count

    def __iter__(self) -> Iterator[EvalCase | BrokenCase]:
        for case in self.cases:
            if isinstance(case, EvalCase):
                yield replace(case, evaluators=None, evaluator=None, grader=None, rubrics=())
            else:
                yield case


def with_evaluators_of(
    path: Path, suites: tuple[SuiteInput, ...], specs: Specs, allow_paths: Sequence[str] = ()
) -> tuple[SuiteInput, ...]:
    """Return suites whose cases are all scored by the evaluators of a file, and by no others.

    The file has the format of `agentv score`: `evaluators: [...]`. The file may name files in the folders
    `allow_paths`, outside of the project. Raises EvalFileError with all its problems.
    """
    evaluators = load_run_config(path, specs, allow_paths=allow_paths).evaluators
    return tuple(replace(item, suite=_with_only_evaluators(item.suite, evaluators)) for item in suites)


def _with_only_evaluators(suite: EvalSuite, evaluators: tuple[EvaluatorConfig, ...]) -> EvalSuite:
    return replace(suite, cases=_CasesWithoutEvaluators(suite.cases), evaluators=evaluators, evaluator=None)


ChangeInputs = Callable[[tuple[SuiteInput, ...], Specs], tuple[SuiteInput, ...]]
"""Returns the suites with other evaluators."""


def working_folder(run: RunRecord, home: Path) -> Path:
    """Return the folder that a run was started in. Raises ConfigError if its eval files are not known."""
    log = imported_log(run.plan)
    if log is not None:
        raise ConfigError(f"run {run.run_id} {log.refusal}")
    folder = run.plan.get("folder")
    if not isinstance(folder, str):
        raise ConfigError(
            f"run {run.run_id} does not record its eval files (it was started from Python, or by an older "
            "agentv), so its cases cannot be read again"
        )
    try:
        path = Path(home.parent, folder).resolve()
        exists = path.is_dir()
    except (OSError, ValueError) as error:
        raise ConfigError(f"run {run.run_id} records an invalid folder ({folder[:60]!r}): {error}") from error
    if not exists:
        raise ConfigError(f"run {run.run_id} was started in {path}, which does not exist; its eval files are needed")
    return path


def load_stored_plan(
    run: RunRecord,
    home: Path,
    *,
    cwd: Path,
    env: Mapping[str, str],
    change_inputs: ChangeInputs | None = None,
    ignores_cache: bool = False,
    budget_usd: float | None = None,
    judge_failures: int | None = None,
    backend: Literal["local", "ray"] | None = None,
    ray_address: str | None = None,
    shared_path: str | None = None,
    secrets: tuple[str, ...] = (),
    allow_paths: tuple[str, ...] = (),
) -> RunPlan:
    """Plan a run again from its eval files and targets, with its own paths, options, gates and pass scores.

    `change_inputs` gives the suites other evaluators. `ignores_cache` disables the cache, so that calls are repeated.
    `budget_usd`, `judge_failures`, `backend`, `ray_address` and `shared_path` replace the options of the run;
    `allow_paths` are added to its own. `secrets` are redacted in the responses of targets.
    """
    recorded_paths = run.plan.get("paths")
    paths = tuple(str(path) for path in recorded_paths) if isinstance(recorded_paths, list) else ()
    # A run that --fail-fast stopped is continued to its end.
    options = replace(stored_options(run.plan), fail_fast=None)
    options = replace(options, allow_paths=tuple(dict.fromkeys((*options.allow_paths, *allow_paths))))
    if ignores_cache:
        options = replace(options, cache="off")
    if budget_usd is not None:
        options = replace(options, budget_usd=budget_usd)
    if judge_failures is not None:
        options = replace(options, judge_failures=judge_failures)
    backend = backend or options.backend
    if change_inputs is not None and backend == "ray":
        raise ConfigError("only the evaluators of the eval files can run on a cluster; add --backend local")
    address = None if backend == "local" else ray_address or options.ray_address
    shared = None if backend == "local" else shared_path or options.shared_path
    options = replace(options, backend=backend, ray_address=address, shared_path=shared)
    options, baseline_warnings = without_lost_baseline(options, home)
    files = find_eval_files(paths, cwd=cwd)
    inputs = load_inputs(
        files,
        options,
        cwd=cwd,
        env=env,
        secrets=secrets,
        guideline_patterns=stored_guideline_patterns(run.plan),
    )
    suites, notes = with_stored_prices(inputs.suites, run.plan)
    suites, score_notes = with_stored_pass_scores(suites, run.plan)
    suites = suites if change_inputs is None else change_inputs(suites, inputs.specs)
    plan = make_plan(suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
    plan = with_stored_gates(plan, run.plan)
    skipped = (*skipped_lines(paths, cwd=cwd, found=files), *_lost_suites(run.plan, inputs))
    warnings = (*skipped, *plan.warnings, *notes, *score_notes, *baseline_warnings)
    mixed = strings_of(run.plan.get("mixed"))
    return replace(plan, paths=paths, folder=str(cwd), warnings=warnings, mixed=mixed)


def _lost_suites(plan: JsonObject, inputs: Inputs) -> Iterator[str]:
    """Yield a line for each eval file of a stored run that no longer exists."""
    recorded = plan.get("suites")
    found = {each.suite.path for each in inputs.suites}
    for suite in recorded if isinstance(recorded, list) else ():
        path = suite.get("path") if isinstance(suite, Mapping) else None
        if isinstance(path, str) and path not in found:
            yield f"{path} is an eval file of this run, but no longer exists; its cases are skipped"


def stored_options(plan: JsonObject) -> RunOptions:
    """Return the options of a stored run. Raises ConfigError if they are invalid."""
    stored = plan.get("options")
    options = dict(stored) if isinstance(stored, Mapping) else {}
    if options.get("gates") == []:
        options["gates"] = "none"
    try:
        return make_options(options)
    except (AgentvError, TypeError, ValueError) as error:
        raise ConfigError(f"the options of this run cannot be read: {error}") from error
