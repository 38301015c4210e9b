"""The data that is sent to a node: the run once, then its rows. No secrets, environment variables or live objects.

Also finds the other files that the plan of a run names: nodes need them, and compare them with the driver's.
"""

import hashlib
import os
import pickle
from collections.abc import Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import TypeVar, cast

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.fingerprints import MAX_DIGESTS, put_bounded
from agentv.engine.cluster.workspaces import (
    PlacedWorkspaces,
    Repository,
    RepositoryCopy,
    located_here,
    read_states,
    repositories_of,
    templates_of,
)
from agentv.engine.planning.inputs import load_inputs, with_prices
from agentv.engine.planning.judges import ANSWERS, named_runs, run_folder
from agentv.engine.planning.plan import AnswerToScore, CaseTask, RunPlan, SuitePlan
from agentv.engine.planning.planning import make_plan
from agentv.engine.planning.provenance import find_scripts, load_scripts
from agentv.loading.files.places import find_eval_files, find_home, find_repository_root
from agentv.loading.models.judges import member_configs
from agentv.loading.models.settings import named_files, read_settings
from agentv.loading.project import config_files
from agentv.loading.suites.named_definitions import find_criteria_file
from agentv.scoring.keys.identity import digest, target_key
from agentv.storage.run.find import find_run, list_run_folders
from agentv.types.cases import BrokenCase, EvalCase, EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.answer import Rerun
from agentv.types.run_options import RunOptions
from agentv.types.targets import ResolvedTarget
from agentv.version import __version__

MAX_CASES_CHECKED = 1_000
"""The number of cases, from the start of an eval file, whose evaluators' files are compared.

The files of the suite's own evaluators are always compared.
"""

_RUN_FILES = ("run.json", "events.jsonl", ANSWERS, "results.jsonl", "blobs/**/*")
"""The files of a stored run that its answers are read from; its results and events decide which of them count."""

_COPY_LIMITS = "a copy of the project has no .env file, and nothing that git ignores unless the run names it"


class SharedBudget(Struct, frozen=True):
    """The budget of a run, from which its nodes lease, with the highest known cost of a call of each target."""

    name: str
    limit_usd: float
    max_call_cost_by_target: Mapping[str, float]


class Packed(Struct, frozen=True):
    """The files of a project as a tar archive."""

    tar: bytes
    root: str
    """The folder of the files."""
    home: str
    """The path of the `.agentv` folder under `root`."""
    has_git: bool
    """True for a git repository."""
    repositories: Mapping[Repository, RepositoryCopy] = field(default_factory=dict)
    """Each repository that a workspace names, with its copy in `home`/REPOSITORIES."""


class RunSpec(Struct, frozen=True):
    """A run as its nodes read it: from the same files, with the variables of their own environment."""

    run_id: str
    folder: str
    """The run's working folder on the driver. With `packed`, a node reads the files in its copy of this folder."""
    paths: tuple[str, ...]
    """Eval files, relative to `folder`."""
    options: RunOptions
    contents: Mapping[str, str]
    """A digest for each suite, target, judge and file by name: a node on which one differs takes no rows."""
    prices: Mapping[str, JsonObject] = {}
    """The project's prices of models when the run began."""
    version: str = __version__
    calls_targets: bool = True
    calls_judges: bool = True
    shows_log_lines: bool = False
    budget: SharedBudget | None = None
    packed: Packed | None = None
    segments: str | None = None
    """Where nodes store their rows: a URL or an absolute path."""
    needs_whole_rows: bool = False
    """True if nodes send complete results even with `segments`, because observers of the driver need them."""
    shows_answers: bool = False
    """True if nodes send answers even with `segments`, because observers of the driver need them."""


class TaskData(Struct, frozen=True):
    """A row to run: a CaseTask whose suite and target are named."""

    suite: str
    target: str
    case: EvalCase | BrokenCase
    trial: int
    trials: int
    generation: int
    rerun: Rerun | None = None
    stored: AnswerToScore | None = None


def make_spec(
    plan: RunPlan,
    *,
    run_id: str,
    calls_targets: bool = True,
    calls_judges: bool = True,
    shows_log_lines: bool = False,
    budget: SharedBudget | None = None,
    packed: Packed | None = None,
    segments: str | None = None,
    needs_whole_rows: bool = False,
    shows_answers: bool = False,
) -> RunSpec:
    """Return the spec of a run. Raises ConfigError for a plan that was not read from files."""
    check_sendable(plan)
    return RunSpec(
        run_id=run_id,
        folder=plan.folder or "",
        paths=plan.paths,
        # A node gives no verdict and reads no earlier run to compare with.
        options=replace(plan.options, baseline=None, gates=()),
        contents=content_digests(plan, run_id=run_id),
        prices=plan.prices,
        calls_targets=calls_targets,
        calls_judges=calls_judges,
        shows_log_lines=shows_log_lines,
        budget=budget,
        packed=packed,
        segments=segments,
        needs_whole_rows=needs_whole_rows,
        shows_answers=shows_answers,
    )


def check_sendable(plan: RunPlan) -> None:
    """Raise ConfigError for a plan that nodes cannot read, because it has no eval files."""
    if plan.folder is None:
        raise ConfigError(
            "a run on several machines needs an eval file, which its nodes read: cases, functions, judges and "
            "evaluators given in Python cannot be sent. Write them into files and name the target, or use "
            "backend='local'"
        )


def content_digests(plan: RunPlan, *, run_id: str, placed: PlacedWorkspaces | None = None) -> dict[str, str]:
    """Return a digest of each suite, target and file that the plan of a run read, by name.

    `placed` finds the repositories in the copy of the project, if the node got one.
    """
    folders = [suite.suite.base_dir for suite in plan.suites]
    contents = {f"eval file {suite.suite.path}": suite.suite.sha256 for suite in plan.suites}
    for target, owner in _targets_with_owners(plan):
        contents[f"target {target.name!r} of {owner}"] = target_key(target)
        for name, sha256 in load_scripts(target, folders).items():
            contents[f"script {name} of target {target.name!r} of {owner}"] = str(sha256)
    for suite in plan.suites:
        for folder in templates_of(suite):
            contents[f"workspace template {os.path.relpath(folder, plan.folder)}"] = tree_digest(folder)
    for path in plan_files(plan, run_id=run_id):
        contents[f"file {os.path.relpath(path, plan.folder)}"] = file_digest(path)
    locate = located_here if placed is None else placed.locate
    for repository, state in read_states(repositories_of(plan), locate).items():
        contents[repository.name(plan.folder or "")] = state.digest
    return contents


def _targets_with_owners(plan: RunPlan) -> Iterator[tuple[ResolvedTarget, str]]:
    """Yield each target with its suite, because targets of several folders may share a name, then each judge."""
    for suite in plan.suites:
        for target in suite.targets:
            yield target, suite.suite.path
    for judge in plan.judges:
        yield judge, "the judges"


def tree_digest(folder: Path) -> str:
    """Return a digest of the files in a folder: their paths and contents."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else [folder]
    return digest([[str(path.relative_to(folder)), file_digest(path)] for path in files])


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; an empty text if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def load_plan(spec: RunSpec, *, env: Mapping[str, str], placed: PlacedWorkspaces | None = None) -> RunPlan:
    """Read the plan of a run on a node. Raises ConfigError if something differs from what the driver read.

    `placed` are the workspaces of the copy of the project, if the node got one.
    """
    if spec.version != __version__:
        raise ConfigError(f"the node has agentv {__version__}, the driver {spec.version}; install the same on both")
    folder = Path(spec.folder)
    options = spec.options
    if placed is not None:
        options = replace(options, allow_paths=(os.sep,))  # the driver has checked the original paths
    hint = "every node needs the same files in the same folder" if placed is None else _COPY_LIMITS
    try:
        inputs = load_inputs(find_eval_files(spec.paths, cwd=folder), options, cwd=folder, env=env)
        plan = make_plan(
            with_prices(inputs.suites, spec.prices),
            options,
            specs=inputs.specs,
            home=str(find_home(folder)),
            checks_sources=placed is None,
        )
        contents = content_digests(replace(plan, folder=spec.folder), run_id=spec.run_id, placed=placed)
    except AgentvError as error:  # errors of some other classes cannot be pickled
        raise ConfigError(f"{error}; {hint}") from error
    for name, expected in spec.contents.items():
        if contents.get(name) != expected:
            state = "is missing" if name not in contents else "differs"
            raise ConfigError(f"{name} {state} on the node; {hint}")
    if placed is not None:
        placed.add_known(plan)
    return plan


def to_data(task: CaseTask) -> TaskData:
    """Return a task as data, with its suite and target by name."""
    return TaskData(
        suite=task.suite.path,
        target=task.target.name,
        case=task.case,
        trial=task.trial,
        trials=task.trials,
        generation=task.generation,
        rerun=task.rerun,
        stored=task.stored,
    )


class TaskReader:
    """Turns data back into tasks, with the suites and targets of one plan.

    `moved` is the project's folder on the driver, and the folder of its copy on this node. Cases with equal
    evaluators share the evaluator objects, because caches use the identity of an evaluator.
    """

    def __init__(self, plan: RunPlan, *, moved: tuple[str, str] | None = None) -> None:
        self._moved = moved
        self._suites = {suite.suite.path: suite for suite in plan.suites}
        self._targets = {(suite.suite.path, target.name): target for suite in plan.suites for target in suite.targets}
        self._evaluators: dict[bytes, tuple[EvaluatorLike, ...]] = {}

    def task(self, data: TaskData) -> CaseTask:
        """Return the task that `data` describes."""
        suite = self._suites[data.suite]
        case = data.case if self._moved is None else moved_paths(data.case, *self._moved)
        return CaseTask(
            case=self._with_shared_evaluators(case) if isinstance(case, EvalCase) and case.evaluators else case,
            suite=suite.suite,
            target=self._targets[data.suite, data.target],
            known=suite.known,
            trial=data.trial,
            timeout_s=suite.timeout_s(data.case),
            only_free=suite.only_free,
            generation=data.generation,
            rerun=data.rerun,
            stored=data.stored,
            trials=data.trials,
        )

    def _with_shared_evaluators(self, case: EvalCase) -> EvalCase:
        content = msgspec.msgpack.encode(case.evaluators)
        shared = self._evaluators.get(content)
        if shared is not None:
            return replace(case, evaluators=shared)
        put_bounded(self._evaluators, content, case.evaluators or (), most=MAX_DIGESTS)
        return case


_PATH_FIELDS = ("real_path", "base_dir")
"""The fields of a case's parts that hold absolute paths."""

T = TypeVar("T")


def moved_paths(value: T, root: str, new_root: str) -> T:
    """Return a case, or a part of a case, in which absolute paths under `root` are moved to `new_root`."""
    if isinstance(value, tuple):
        return cast(T, tuple(moved_paths(item, root, new_root) for item in value))
    if not isinstance(value, Struct):
        return value
    changes: dict[str, object] = {}
    for name in value.__struct_fields__:
        old: object = getattr(value, name)
        new = moved_path(str(old), root, new_root) if name in _PATH_FIELDS else moved_paths(old, root, new_root)
        if new != old:
            changes[name] = new
    return cast(T, replace(value, **changes)) if changes else value


def moved_path(path: str, root: str, new_root: str) -> str:
    """Return an absolute path; one under `root` is moved to `new_root`."""
    return new_root + path.removeprefix(root) if path == root or path.startswith(f"{root}{os.sep}") else path


def encode_tasks(tasks: list[TaskData]) -> bytes:
    """Return tasks as bytes."""
    return pickle.dumps(tasks, protocol=pickle.HIGHEST_PROTOCOL)


def decode_tasks(data: bytes) -> list[TaskData]:
    """Return the tasks in bytes, which must come from the driver, because a pickle can run code."""
    tasks: list[TaskData] = pickle.loads(data)  # noqa: S301 - written by `encode_tasks` of the driver
    return tasks


def plan_files(plan: RunPlan, *, run_id: str | None = None) -> list[Path]:
    """Return the files of a plan: project files, criteria files, and those that its targets and evaluators name.

    These include the files of the stored runs that targets and evaluators name.

    `run_id` is the run of the plan: `latest` in the settings of a target or evaluator never means this run. Raises
    ConfigError for a stored run that does not exist.
    """
    found = chain(
        chain.from_iterable(map(_project_files, plan.suites)),
        (path for target in targets_of(plan) for path in _target_files(target, plan, run_id)),
        (
            path
            for suite in plan.suites
            for config in _evaluator_configs(suite)
            for path in _evaluator_files(config, plan, run_id)
        ),
    )
    return sorted(set(found))


def scripts_of(plan: RunPlan) -> list[Path]:
    """Return the scripts that targets name, which include programs installed on the machine."""
    folders = [suite.suite.base_dir for suite in plan.suites]
    return sorted({path for target in targets_of(plan) for path in find_scripts(target, folders).values()})


def targets_of(plan: RunPlan) -> list[ResolvedTarget]:
    """Return the targets of a run, their fallbacks and its judges, each once."""
    found = {id(target): target for target in (*plan.targets, *plan.judges)}
    for suite in plan.suites:
        for target in suite.targets:
            found |= {id(fallback): fallback for fallback in map(suite.known.get, target.fallback_targets)}
    return list(found.values())


def _project_files(suite: SuitePlan) -> Iterator[Path]:
    folder = Path(suite.suite.base_dir)
    root = find_repository_root(folder)
    yield from config_files(folder, root)
    criteria = find_criteria_file(folder, root)
    if criteria is not None:
        yield criteria


def _target_files(target: ResolvedTarget, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    if target.path:
        yield Path(target.path)
    yield from map(Path, named_files(target.settings, target.base_dir))
    for run in named_runs(target.settings):
        yield from _stored_run_files(run, target.base_dir, plan, run_id)


def _evaluator_configs(suite: SuitePlan) -> Iterator[EvaluatorConfig]:
    """Yield the evaluators of a suite and of its first cases."""
    listed = suite.suite.cases if suite.suite.cases.count is not None else ()
    first = (case for case in islice(listed, MAX_CASES_CHECKED) if isinstance(case, EvalCase))
    for evaluator in chain(suite.suite.evaluators or (), *(case.evaluators or () for case in first)):
        if isinstance(evaluator, EvaluatorConfig):
            yield evaluator


def _evaluator_files(config: EvaluatorConfig, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    settings = read_settings(plan.specs.evaluators.get(config.type), config.settings, where=config.name)
    yield from map(Path, named_files(settings, config.base_dir))
    for run in named_runs(settings):
        yield from _stored_run_files(run, config.base_dir, plan, run_id)
    for member in member_configs(settings):
        yield from _evaluator_files(member, plan, run_id)


def _stored_run_files(run: str, base_dir: str, plan: RunPlan, run_id: str | None) -> Iterator[Path]:
    """Yield the files with the answers of a stored run; for `latest~N` also the run.json of each newer run."""
    home = Path(plan.home)
    folder = run_folder(run, base_dir, lambda named: str(find_run(home, named, without=run_id)))
    yield from (path for pattern in _RUN_FILES for path in folder.glob(pattern) if path.is_file())
    if run.startswith("latest~"):
        folders = list_run_folders(home)
        newer = folders[folders.index(folder) + 1 :] if folder in folders else ()
        yield from (other / "run.json" for other in newer if other.name != run_id)
