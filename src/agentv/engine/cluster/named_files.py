"""The files that a run reads besides its eval files, as its plan names them: nodes need them, and compare them."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path

from agentv.engine.calling.recorded_answers import ANSWERS, run_folder
from agentv.engine.planning.judges import member_configs, named_runs
from agentv.engine.planning.plan import RunPlan, SuitePlan
from agentv.engine.running.provenance import find_scripts
from agentv.loading.files.places import find_repository_root
from agentv.loading.models.settings import named_files, read_settings
from agentv.loading.project import config_files, find_criteria_file
from agentv.storage.run.find import find_run, list_run_folders
from agentv.types.cases import EvalCase, EvaluatorConfig
from agentv.types.targets import ResolvedTarget

MOST_CASES_CHECKED = 1_000
"""The cases of an eval file whose evaluators' files are compared on the nodes; those of the file itself always are."""

_RUN_FILES = ("run.json", ANSWERS, "blobs/**/*")


def files_of(plan: RunPlan, *, run_id: str | None = None) -> list[Path]:
    """Return the files of a plan: of the project, its targets and evaluators, and stored runs that they name.

    `run_id` is that of this run, which is not `latest`. Raises ConfigError for a run that does not exist.
    """
    found = chain(
        chain.from_iterable(map(_of_project, plan.suites)),
        (path for target in targets_of(plan) for path in _of_target(target, plan, run_id)),
        (path for suite in plan.suites for config in _configs(suite) for path in _of_evaluator(config, plan, run_id)),
    )
    return sorted(set(found))


def scripts_of(plan: RunPlan) -> list[Path]:
    """Return the scripts that targets name; programs of the machine may be among them."""
    folders = [suite.suite.base_dir for suite in plan.suites]
    return sorted({path for target in targets_of(plan) for path in find_scripts(target, folders).values()})


def targets_of(plan: RunPlan) -> list[ResolvedTarget]:
    """Return the targets of a run, their fallbacks and its judges, each once."""
    found = {id(target): target for target in (*plan.targets, *plan.judges)}
    for suite in plan.suites:
        for target in suite.targets:
            found |= {id(each): each for each in map(suite.known.get, target.fallback_targets)}
    return list(found.values())


def _of_project(suite: SuitePlan) -> Iterator[Path]:
    folder = Path(suite.suite.base_dir)
    root = find_repository_root(folder)
    yield from config_files(folder, root)
    criteria = find_criteria_file(folder, root)
    if criteria is not None:
        yield criteria


def _of_target(target: ResolvedTarget, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    if target.path:
        yield Path(target.path)
    yield from map(Path, named_files(target.settings, target.base_dir))
    for run in named_runs(target.settings):
        yield from _of_run(run, target.base_dir, plan, run_id)


def _configs(suite: SuitePlan) -> Iterator[EvaluatorConfig]:
    """Yield the evaluators of a suite and of its first cases."""
    listed = suite.suite.cases if suite.suite.cases.count is not None else ()
    first = (case for case in islice(listed, MOST_CASES_CHECKED) if isinstance(case, EvalCase))
    for evaluator in chain(suite.suite.evaluators or (), *(case.evaluators or () for case in first)):
        if isinstance(evaluator, EvaluatorConfig):
            yield evaluator


def _of_evaluator(config: EvaluatorConfig, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    settings = read_settings(plan.specs.evaluators.get(config.type), config.settings, where=config.name)
    yield from map(Path, named_files(settings, config.base_dir))
    for run in named_runs(settings):
        yield from _of_run(run, config.base_dir, plan, run_id)
    for member in member_configs(settings):
        yield from _of_evaluator(member, plan, run_id)


def _of_run(run: str, base_dir: str, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    """Yield the files of a stored run with its answers, and those by which `latest~1` is found."""
    home = Path(plan.home)
    folder = run_folder(run, base_dir, lambda named: str(find_run(home, named, without=run_id)))
    yield from (path for pattern in _RUN_FILES for path in folder.glob(pattern) if path.is_file())
    if run.startswith("latest~"):
        yield from _newer(list_run_folders(home), folder, run_id)


def _newer(folders: Sequence[Path], than: Path, run_id: str | None) -> Iterator[Path]:
    return (folder / "run.json" for folder in folders if folder.name > than.name and folder.name != run_id)
