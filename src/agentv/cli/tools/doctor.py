"""`agentv doctor`: check this machine and project for problems, each with a remedy."""

import json
import os
import platform
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import click
from msgspec import Struct, structs

from agentv.cli.terminal import terminal_columns

if TYPE_CHECKING:
    from agentv.loading.targets.targets import ParsedTargets
    from agentv.registry import Specs
    from agentv.types.json_value import JsonValue
    from agentv.types.targets import TargetConfig


Health = Literal["ok", "optional", "warning", "error"]
_MARKS = {"ok": "ok     ", "optional": "-      ", "warning": "warning", "error": "error  "}
EXIT_BROKEN = 3
_OTHER_AGENTS = ("gemini", "opencode", "cursor-agent", "aider", "goose", "amp", "qwen", "crush")
"""Programs of coding agents without a provider of their own; `cli` can call them."""


class Finding(Struct, frozen=True):
    """The result of one check."""

    about: str
    """The name of the thing that is checked."""
    health: Health
    """`optional`: not installed, and only needed for some features."""
    found: str
    """The state of the thing."""
    remedy: str = ""
    """The advice, if any."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--online", is_flag=True, help="Also send a short request to every target (may cost money).")
def command(as_json: bool, online: bool) -> int:  # noqa: FBT001 - click's flags
    """Check this machine and project for problems. Exits with 3 if there are errors."""
    findings = list(examine(Path.cwd()))
    if online:
        findings += _probe_project(Path.cwd())
    if as_json:
        click.echo(
            json.dumps(
                {"schema": "agentv-doctor-1", "findings": [structs.asdict(finding) for finding in findings]}, indent=2
            )
        )
    else:
        width = max(len(finding.about) for finding in findings)
        for finding in findings:
            remedy = f"\n{'':<{width + 11}}{finding.remedy}" if finding.remedy else ""
            click.echo(f"{_MARKS[finding.health]}  {finding.about:<{width}}  {finding.found}{remedy}")
    return EXIT_BROKEN if any(finding.health == "error" for finding in findings) else 0


def examine(folder: Path) -> Iterator[Finding]:
    """Check the machine and the project of `folder`, without running code of the project or calling targets."""
    yield _python()
    yield _platform()
    yield _git()
    yield from _extras()
    yield from _agents()
    yield _terminal()
    yield _run_home(folder)
    yield from _killed_runs(folder)
    yield from _check_targets(folder)


def _probe_project(folder: Path) -> Iterator[Finding]:
    """Send one short request to every target whose variables are set."""
    from agentv.cli.running.probing import probe
    from agentv.loading.files.places import find_home
    from agentv.loading.targets.targets import resolve_target
    from agentv.types.errors import AgentvError

    project = _load_project(folder, imports_plugins=True)
    if project is None:
        return
    resolved = []
    for config in project.parsed.targets:
        try:
            resolved.append(resolve_target(config, env=project.env, specs=project.specs))
        except AgentvError as error:
            yield Finding(f"answer {config.name}", "warning", "not called", str(error))
    for answer in probe(resolved, project.specs, find_home(folder)):
        about = f"answer {answer.target}"
        if answer.is_canned:
            yield Finding(about, "ok", "not called: its answers are canned")
        elif answer.error is None:
            yield Finding(about, "ok", f"answers in {answer.took_s:.1f} s")
        else:
            yield Finding(about, "error", answer.error, answer.remedy)


def _python() -> Finding:
    from agentv.version import __version__

    return Finding("python", "ok", f"{platform.python_version()} at {sys.executable}, agentv {__version__}")


def _platform() -> Finding:
    found = f"{platform.system()} {platform.release()} {platform.machine()}"
    if platform.system() in ("Linux", "Darwin"):
        return Finding("platform", "ok", found)
    return Finding("platform", "warning", found, "agentv supports Linux and macOS; other platforms are untested.")


def _git() -> Finding:
    path = shutil.which("git")
    if path:
        return Finding("git", "ok", path)
    return Finding("git", "warning", "not found", "Without git, runs do not record their commit.")


def _extras() -> Iterator[Finding]:
    from importlib.metadata import metadata

    for extra in metadata("agentv").get_all("Provides-Extra") or ():
        missing = _missing_packages(extra)
        if missing:
            remedy = f"Only if you need it: pip install 'agentv[{extra}]'"
            yield Finding(f"extra {extra}", "optional", f"not installed ({', '.join(missing)})", remedy)
        else:
            yield Finding(f"extra {extra}", "ok", "installed")


def _missing_packages(extra: str) -> list[str]:
    """Return the packages of an extra that are not installed."""
    from importlib.metadata import PackageNotFoundError, distribution, requires

    missing = []
    for requirement in requires("agentv") or ():
        name = re.match(r"[\w.-]+", requirement)
        if name is None or not re.search(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""", requirement):
            continue
        try:
            distribution(name.group())
        except PackageNotFoundError:
            missing.append(name.group())
    return missing


def _agents() -> Iterator[Finding]:
    """List the coding agents in PATH, without starting them."""
    from agentv.providers import PROVIDERS

    for spec in PROVIDERS.specs.values():
        if spec.program is not None:
            use = f"provider: {spec.name}"
            remedy = f"Only if you need it: install {spec.program}; {use}"
            path = shutil.which(spec.program)
            about = f"agent {spec.program}"
            found = Finding(about, "ok", f"{path} ({use})")
            yield found if path else Finding(about, "optional", "not installed", remedy)
    for program in _OTHER_AGENTS:
        if path := shutil.which(program):
            yield Finding(f"agent {program}", "ok", f"{path} (provider: cli)")


def _terminal() -> Finding:
    if not sys.stdout.isatty():
        return Finding("terminal", "ok", "not a terminal: plain lines, no colour")
    columns = terminal_columns()
    encoding = sys.stdout.encoding
    return Finding("terminal", "ok", f"{columns} columns, {encoding}, TERM={os.environ.get('TERM', '(not set)')}")


def _run_home(folder: Path) -> Finding:
    """Check that the run folder can be written."""
    from agentv.loading.files.places import find_home

    home = find_home(folder)
    existing = next(parent for parent in (home, *home.parents) if parent.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return Finding("runs", "ok", f"stored in {home}")
    return Finding("runs", "error", f"cannot write to {existing}", "Runs are stored there: make the folder writable.")


def _killed_runs(folder: Path) -> Iterator[Finding]:
    """End processes that a killed run left behind; agentv's watcher ends them at once, unless it was killed too."""
    from agentv.engine.running.run_stores import refuse_second_writer
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import list_run_folders
    from agentv.storage.run.lock import read_holder
    from agentv.types.errors import StorageError

    for run in list_run_folders(find_home(folder)):
        try:
            note = None if read_holder(run) is None else refuse_second_writer(run)
        except (StorageError, OSError):  # the run is in progress, or cannot be written
            continue
        if note is not None:
            yield Finding(f"run {run.name}", "warning", note, f"Complete the run: agentv resume {run.name}")


class _Project(NamedTuple):
    """A project's targets file with what its targets need: plug-ins and environment variables."""

    parsed: "ParsedTargets"
    specs: "Specs"
    env: Mapping[str, str]
    plugin_modules: tuple[str, ...]


def _load_project(folder: Path, *, imports_plugins: bool = False) -> _Project | None:
    """Return the project of a folder; None without a targets file. Raises AgentvError if the file cannot be read."""
    from agentv.engine.plugins.loading import load_specs, load_specs_without
    from agentv.loading.files.dotenv import load_env
    from agentv.loading.files.places import find_repository_root, find_targets_file
    from agentv.loading.models.reader import raise_errors
    from agentv.loading.project import load_project
    from agentv.loading.targets.targets import read_targets

    root = find_repository_root(folder)
    path = find_targets_file(folder / "evals", root, folder, None)
    if path is None:
        return None
    plugins = load_project(folder, root).plugins
    specs = load_specs(plugins) if imports_plugins else load_specs_without(plugins)
    env = load_env(folder, os.environ)
    parsed = read_targets(path, specs, env=env, unset_severity="warning")
    raise_errors(str(path), parsed.general_problems())
    return _Project(parsed, specs, env, plugins)


def _check_targets(folder: Path) -> Iterator[Finding]:
    """Check the variables and the program of every target in the project's targets file."""
    from agentv.loading.targets.choice import DEFAULT_TARGET
    from agentv.types.errors import AgentvError

    try:
        project = _load_project(folder)
    except AgentvError as error:
        yield Finding("targets", "error", "the targets file cannot be used", str(error))
        return
    if project is None:
        yield Finding("targets", "warning", f"no targets.yaml for {folder}", "`agentv init` writes one.")
        return
    parsed, specs, env, plugins = project
    targets = parsed.targets
    place = f" in {targets[0].path}" if targets else ""
    yield Finding("targets", "ok", f"{len(targets)}{place}")
    # Every error counts, and a warning if the target could not be read because of it.
    readable = {target.name for target in targets}
    faulty = {
        parsed.owner_of(problem): problem
        for problem in parsed.problems
        if problem.severity == "error" or parsed.owner_of(problem) not in readable
    }
    for name, problem in faulty.items():
        is_default = problem.severity == "error" and (name == DEFAULT_TARGET or len(parsed.names) == 1)
        remedy = "Correct it." if is_default else "Only if you use this target: correct it."
        health: Health = "error" if is_default else "warning"
        yield Finding(f"target {name or 'without a name'}", health, problem.render(), remedy)
    for target in targets:
        if target.name in faulty:
            continue
        if target.provider in specs.providers.stand_in_names:
            remedy = "A run imports plug-ins, and so does `agentv doctor --online`."
            found = f"provider {target.provider!r} is unknown: {', '.join(plugins)} is not imported"
            yield Finding(f"target {target.name}", "warning", found, remedy)
        else:
            yield _check_target(target, env, folder)


def _check_target(target: "TargetConfig", env: Mapping[str, str], folder: Path) -> Finding:
    about = f"target {target.name}"
    unset = sorted(set(_variables(target.settings)) - env.keys())
    if unset:
        remedy = "Only if you use this target: set it in the environment or in .env."
        return Finding(about, "warning", f"{target.provider}: {', '.join(unset)} is not set", remedy)
    program = _program(target)
    if program is not None and not _is_installed(program, [folder, folder / "evals"]):
        remedy = "Only if you use this target: install it, or correct `command_template`."
        return Finding(about, "warning", f"{target.provider}: {program} is not installed", remedy)
    return Finding(about, "ok", f"{target.provider}: {program}" if program else target.provider)


def _variables(value: "JsonValue") -> Iterator[str]:
    """Yield the environment variables that settings refer to."""
    from agentv.templating.environment import variables_in

    if isinstance(value, str):
        yield from variables_in(value)
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _variables(item)
    elif isinstance(value, Sequence):
        for item in value:
            yield from _variables(item)


def _program(target: "TargetConfig") -> str | None:
    """Return the program of a target's command; None without a command, or if the program has a placeholder."""
    from agentv.templating.command import parse_command

    template = target.settings.get("command_template", target.settings.get("commandTemplate"))
    if not isinstance(template, str):
        return None
    words = parse_command(template).words
    first = words[0] if words else ()
    texts = [piece for piece in first if isinstance(piece, str)]
    has_placeholder = len(texts) < len(first)
    return None if has_placeholder or not texts else "".join(texts)


def _is_installed(program: str, folders: Sequence[Path]) -> bool:
    if "/" in program:
        return any(os.access(folder / program, os.X_OK) for folder in folders)
    return shutil.which(program) is not None
