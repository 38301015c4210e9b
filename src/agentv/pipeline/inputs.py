"""From paths to suites with their targets and plug-ins: all that a run reads before it is planned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv.loading import (
    find_eval_files,
    find_repository_root,
    find_targets_file,
    load_env,
    load_project,
    load_suite,
    load_targets,
)
from agentv.pipeline.options import RunOptions
from agentv.pipeline.planning import SuiteInput
from agentv.pipeline.plugins import load_specs
from agentv.pipeline.targets import KnownTargets
from agentv.registry import Specs
from agentv.types.errors import EvalFileError, TargetError
from agentv.types.problems import Problem


@dataclass(frozen=True, slots=True)
class Inputs:
    """What was read: suites with their targets, every plug-in they may name, the project's gates."""

    suites: tuple[SuiteInput, ...]
    specs: Specs
    gates: tuple[str, ...] = ()


def load_inputs(
    paths: Sequence[str], options: RunOptions, *, cwd: Path, env: Mapping[str, str], needs_targets: bool = True
) -> Inputs:
    """Read eval files and what belongs to them. Raises EvalFileError with the problems of all files at once.

    `needs_targets` False is for callers that bring who answers: a missing targets file is then no error.
    """
    files = find_eval_files(paths, cwd=cwd)
    specs, gates = load_project_parts(files)
    known: dict[Path | None, KnownTargets] = {}
    suites: list[SuiteInput] = []
    problems: dict[Problem, None] = {}  # several suites may meet the same problem of one targets file
    for file in files:
        try:
            suite_env = load_env(file.parent, env)
            suite = load_suite(file, specs=specs)
            path = _targets_path(file, options, cwd)
            if path is None and needs_targets:
                raise _no_targets(file)
            if path not in known:
                known[path] = _load_known(path, options, suite_env, specs)
            suites.append(SuiteInput(suite, known[path]))
        except EvalFileError as error:
            problems.update(dict.fromkeys(error.problems))
    if problems:
        raise EvalFileError(str(paths), tuple(problems))
    return Inputs(tuple(suites), specs, gates)


def load_project_parts(files: Sequence[Path]) -> tuple[Specs, tuple[str, ...]]:
    """Return the plug-ins and gates that the `.agentv.yaml` files around the eval files name."""
    plugins: dict[str, None] = {}
    gates: dict[str, None] = {}
    for folder in dict.fromkeys(file.parent for file in files):
        project = load_project(folder, find_repository_root(folder))
        plugins.update(dict.fromkeys(project.plugins))
        gates.update(dict.fromkeys(project.gates))
    return load_specs(plugins), tuple(gates)


def _targets_path(file: Path, options: RunOptions, cwd: Path) -> Path | None:
    override = cwd / options.targets_file if options.targets_file else None
    return find_targets_file(file.parent, find_repository_root(file.parent), cwd, override)


def _no_targets(file: Path) -> TargetError:
    return TargetError(
        f"{file}: no targets file found beside it or above (targets.yaml or .agentv/targets.yaml); "
        "write one, or name it with --targets"
    )


def _load_known(path: Path | None, options: RunOptions, env: Mapping[str, str], specs: Specs) -> KnownTargets:
    """Return the targets of a file; eval files that share it share them."""
    configs = () if path is None else load_targets(path, specs=specs)
    return KnownTargets({config.name: config for config in configs}, env, specs, options)
