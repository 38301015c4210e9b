"""Everything that `agentv check` tells: eval files whole, their targets files, the project's files.

Nothing of a suite is executed or imported.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from agentv.loading.documents import JsonPath
from agentv.loading.dotenv import load_env
from agentv.loading.evaluator_configs import EvaluatorScope
from agentv.loading.file_kinds import YAML_SUFFIXES, kind_of_file
from agentv.loading.gate_names import check_gate_names
from agentv.loading.places import find_eval_files, find_repository_root, find_targets_file
from agentv.loading.project import find_criteria_file, read_named_parts, read_project
from agentv.loading.reader import Reader, in_order
from agentv.loading.references import fill
from agentv.loading.run_configs import read_run_config
from agentv.loading.suites import ReadSuite, read_suite
from agentv.loading.target_choice import choose_target
from agentv.loading.target_settings import check_target
from agentv.loading.targets import ReadTargets, open_targets, read_targets
from agentv.registry import Specs
from agentv.types.cases import BrokenCase, CaseSource
from agentv.types.errors import EvalFileError, TargetError, nearest
from agentv.types.problems import Problem, Severity
from agentv.types.targets import TargetConfig


class Checked(Struct, frozen=True):
    """The files that were named or found, and every problem, in order."""

    files: tuple[Path, ...]
    problems: tuple[Problem, ...]


def check_paths(paths: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], specs: Specs) -> Checked:
    """Check eval files, and with them the targets and project files that they use; such files may be named, too.

    JSON Lines files are read to their end. Raises ConfigError for a path that is not there.
    """
    files = find_eval_files(paths, cwd=cwd)
    problems = [problem for file in files for problem in _check_file(file, cwd, env, specs)]
    return Checked(files, in_order(problems))


def _check_file(path: Path, cwd: Path, env: Mapping[str, str], specs: Specs) -> Iterator[Problem]:
    kind = kind_of_file(path) if path.suffix in YAML_SUFFIXES else "eval"
    if kind == "config":
        yield from _check_config(path, specs)
    elif kind == "targets":
        root = find_repository_root(path)
        project, _ = read_project(path.parent, root)
        yield from read_targets(path, specs, unknown_provider=_unknown(project.plugins)).problems
    elif kind == "evaluation":
        project, _ = read_project(path.parent, find_repository_root(path))
        yield from _check_evaluation(path, specs, _unknown(project.plugins))
    else:
        yield from _check_suite(path, cwd, env, specs)


def _unknown(plugins: Sequence[str]) -> Severity:
    """Plug-ins are not imported here, so what is unknown may be theirs."""
    return "warning" if plugins else "error"


def _check_config(path: Path, specs: Specs) -> Iterator[Problem]:
    root = find_repository_root(path)
    project, problems = read_project(path.parent, root)
    yield from problems
    scope = EvaluatorScope(specs.evaluators, str(path.parent), unknown_type=_unknown(project.plugins))
    yield from read_named_parts(find_criteria_file(path.parent, root), scope)[1]


def _check_evaluation(path: Path, specs: Specs, unknown_type: Severity) -> Iterator[Problem]:
    try:
        yield from read_run_config(path, specs, unknown_type=unknown_type)[1]
    except EvalFileError as error:
        yield from error.problems


def _check_suite(path: Path, cwd: Path, env: Mapping[str, str], specs: Specs) -> Iterator[Problem]:
    read = read_suite(path, specs, plugins_imported=False)
    yield from read.problems
    if read.suite is not None and read.suite.cases.count is None:
        yield from _check_stream(read.suite.cases)
    try:
        values = load_env(path.resolve().parent, env)
    except EvalFileError as error:
        yield from error.problems
        values = dict(env)
    targets_file = find_targets_file(path.parent, find_repository_root(path), cwd, None)
    if targets_file is not None:
        targets = read_targets(targets_file, specs, unknown_provider=_unknown(read.project.plugins))
        yield from targets.problems
        yield from _check_choice(read, targets, targets_file)
        yield from _check_use(read, targets, targets_file, values, specs)
        yield from check_gate_names(read, [target.name for target in targets.targets])
    else:
        yield from check_gate_names(read, None)


def _check_stream(cases: CaseSource) -> Iterator[Problem]:
    try:
        for case in cases:
            if isinstance(case, BrokenCase):
                yield from case.problems
    except EvalFileError as error:
        yield from error.problems


def _check_choice(read: ReadSuite, targets: ReadTargets, targets_file: Path) -> Iterator[Problem]:
    """Yield a problem when the suite names a target that is not there."""
    name = read.suite.target if read.suite else None
    names = [target.name for target in targets.targets]
    if read.reader is None or name is None or name in names:
        return
    places: tuple[JsonPath, ...] = (("execution", "target"), ("target",))
    at = next((place for place in places if read.reader.document.at(place) == name), ())
    reader = Reader(read.reader.document)
    allowed = f"there: {', '.join(names) or 'none'}"
    message = f"there is no target {name!r} in {targets_file.name}"
    reader.error(at, message, allowed=allowed, suggestion=nearest(name, names))
    yield from reader.problems


def _check_use(
    read: ReadSuite, targets: ReadTargets, targets_file: Path, env: Mapping[str, str], specs: Specs
) -> Iterator[Problem]:
    """Yield what stands in the way of using the suite's target: unset variables are warnings here."""
    try:
        chosen = choose_target(targets.targets, read.suite.target if read.suite else None)
        reader = open_targets(targets_file)
    except (TargetError, EvalFileError):
        return
    for target in targets.targets:
        if target.name in (chosen.name, chosen.settings.get("judge_target")):
            yield from _fill_and_check(Reader(reader.document), target, env, specs)


def _fill_and_check(reader: Reader, target: TargetConfig, env: Mapping[str, str], specs: Specs) -> Iterator[Problem]:
    entries = reader.document.at(("targets",))
    for index, raw in enumerate(entries if isinstance(entries, list) else ()):
        if not isinstance(raw, Mapping) or raw.get("name") != target.name or raw.get("provider") not in specs.providers:
            continue
        at = ("targets", index)
        filled = fill(reader, at, raw, env, target.name, unset="warning")
        if isinstance(filled.value, dict):
            check_target(reader, at, filled.value, specs.providers, whole=filled.whole)
    yield from reader.problems
