"""Damage files at random and call the commands that read them: `./run python -m bench.mutated_files [COUNT]`.

A finding is a traceback, an exit code that is not documented, a failure without a message, or a command that takes more
than 5 s of CPU time, 300 MB, or 30 s in all. Each file has a number, from which its damage follows: `--only NUMBER`
damages that file again and leaves its project in a folder.
"""

import argparse
import importlib
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from zipfile import ZIP_DEFLATED, ZipFile

from bench.mutations import damaged_file

ROOT = Path(__file__).parents[1]
RUNS = ROOT / "tests" / "fixtures" / "runs"
FIXTURES = ROOT / "tests" / "fixtures"
GOOD = ROOT / "tests" / "loading" / "good"
EXAMPLES = ROOT / "examples"

FILES = 5_000
EXIT_CODES = (0, 1, 2, 3, 4, 5, 130)
FORMATS = ("html", "md", "junit.xml", "sarif", "csv", "jsonl", "yaml", "json")
SUFFIXES = (".yaml", ".jsonl", ".json", ".md", ".csv", ".env")
RESUMED = ("killed", "plain", "shard-1", "merged")
"""The runs that can be resumed without a model: by commands of this machine, or from stored answers."""
SOME_TARGETS = ("desk", "busy", "crash", "slow", "model", "flaky", "in-batches", "batch-api", "fixer")
FOREIGN = ("promptfoo", "deepeval", "pydantic_evals", "inspect", "logs")
"""The folders of fixtures with files of other programs."""
TABLES = ("rows.csv", "rows.tsv", "rows.parquet")
PLANNED = ("batches.yaml", "errors.yaml", "evaluator-errors.yaml", "labels.yaml", "long.yaml", "trials.yaml")
"""The eval files of the suites that a dry run of their own is made of; for other files it is of plain.yaml."""

CONFIG = r"""
guideline_patterns: ["**/*.rules.md", "**/*.instructions.md"]
gates: ["pass_rate >= 90%", "mean >= 0.5"]
redact: ['\b\d{16}\b']
public_env: [PUBLIC_KEY]
prices: {"fake*": {input_per_million: 0.5, output_per_million: 1.5}}
store: postgresql://127.0.0.1:9/evals
"""
CRITERIA = """
criteria:
  - {name: relevance, description: Answers the question, scale: likert5, weight: 2}
  - {name: tone, description: Is polite, scale: binary}
evaluators:
  short: {type: length, config: {max: 200}}
"""
LEAKED = re.compile(
    r"Traceback \(most recent|object has no attribute|NoneType|not subscriptable|unhashable|unexpected keyword"
    r"|RecursionError|MemoryError|maximum recursion|Exceeds the limit|pydantic(?![-_])|msgspec\.|<class '|<agentv\."
)
"""Words of Python that a user should not have to read."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds for one command: CPU seconds, megabytes of resident memory, and wall seconds until it is killed."""

    seconds: float = 5.0
    megabytes: float = 300.0
    killed_after_s: float = 30.0
    address_space: int = 4 << 30


@dataclass(frozen=True)
class Original:
    """A file to damage: its path in a project, and the commands that read it then."""

    project: str
    file: str
    commands: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """One command on one damaged file; `problem` is empty if it behaved."""

    number: int
    original: Original
    command: tuple[str, ...]
    code: int | str
    seconds: float
    megabytes: float
    problem: str = ""
    output: str = ""

    def __str__(self) -> str:
        place = f"{self.original.project}/{self.original.file}"
        return f"{self.number}  {place}  agentv {' '.join(self.command)}\n    {self.problem}"


# --- the projects -----------------------------------------------------------------------------------------------------


def make_projects(folder: Path) -> list[Original]:
    """Write the undamaged projects into an empty folder; return their files with their commands."""
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    shutil.copytree(GOOD, folder / "good", ignore=shutil.ignore_patterns("__pycache__", ".agentv"))
    _make_suites(folder / "suites")
    _make_stored(folder / "stored")
    _make_foreign(folder / "foreign")
    originals = [
        *(original for name in _folders(EXAMPLES) for original in _project_files(folder, f"examples/{name}")),
        *_project_files(folder, "good"),
        *_project_files(folder, "suites"),
        *(original for name in _stored() for original in _stored_files(folder, name)),
        *_foreign_files(folder / "foreign"),
    ]
    for project in ("good", "suites", "stored", "foreign", *(f"examples/{name}" for name in _folders(EXAMPLES))):
        (folder / project / ".git").mkdir(exist_ok=True)  # the root of its paths and settings
    return originals


def _folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir() if any(path.glob("*.yaml")))


def _make_suites(project: Path) -> None:
    """Write the eval files of the stored runs, with settings and named criteria."""
    shutil.copytree(RUNS / "evals", project, ignore=shutil.ignore_patterns("__pycache__"))
    (project / ".agentv.yaml").write_text(CONFIG, "utf-8")
    (project / ".agentv").mkdir()
    (project / ".agentv" / "criteria.yaml").write_text(CRITERIA, "utf-8")


def _make_stored(project: Path) -> None:
    """Write all stored runs, the eval files they are from, a baseline, and a `sleep` that returns at once."""
    shutil.copytree(RUNS / "evals", project, ignore=shutil.ignore_patterns("__pycache__"))
    for place in (project / ".agentv" / "runs", project / "copies"):
        for name in _stored():
            shutil.copytree(RUNS / name, place / _run_id(name), ignore=shutil.ignore_patterns("lock"))
    for name in ("baseline.jsonl", "report.jsonl"):
        shutil.copy(RUNS / "expected" / "plain" / "data" / name, project / f"plain-{name}")
    sleep = project / "bin" / "sleep"
    sleep.parent.mkdir()
    sleep.write_text("#!/bin/sh\n")
    sleep.chmod(0o755)


def _make_foreign(project: Path) -> None:
    """Write files of other programs, and tables with a suite for each."""
    for name in FOREIGN:
        ignored = shutil.ignore_patterns("README.md", "__pycache__", "*.eval")
        shutil.copytree(FIXTURES / name, project / name, ignore=ignored)
    _make_archives(project / "inspect")
    (project / "made").mkdir()
    (project / "config.yaml").write_text("evaluators:\n  - {name: short, type: length, config: {max: 200}}\n")
    rows = [{"id": f"c{each}", "input": f"What is {each} + 1?", "expected": str(each + 1)} for each in range(40)]
    for name, delimiter in (("rows.csv", ","), ("rows.tsv", "\t")):
        lines = [delimiter.join(rows[0]), *(delimiter.join(row.values()) for row in rows)]
        (project / name).write_text("\n".join(lines) + "\n")
    _write_parquet(project / "rows.parquet", rows)
    for name in TABLES:
        evaluators = "evaluators: [{name: short, type: length, max: 9}]"
        (project / f"{name}.yaml").write_text(f"target: desk\n{evaluators}\nevalcases: {{file: {name}}}\n")
    (project / "targets.yaml").write_text("targets:\n  - {name: desk, provider: mock, response: ok}\n")


def _make_archives(folder: Path) -> None:
    """Write each JSON log of inspect as an archive too; those that inspect wrote are packed with Zstandard."""
    for path in sorted(folder.glob("*.json")):
        log = json.loads(path.read_bytes())
        with ZipFile(path.with_suffix(".eval"), "w", ZIP_DEFLATED) as archive:
            archive.writestr("header.json", json.dumps({key: log[key] for key in log if key != "samples"}))
            for number, sample in enumerate(log["samples"]):
                archive.writestr(f"samples/{number}_epoch_1.json", json.dumps(sample))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, str]]) -> None:
    import arro3.core as arrow  # noqa: PLC0415 - an optional package
    from arro3.io import write_parquet  # noqa: PLC0415

    texts: dict[str, Any] = {key: arrow.Array([row[key] for row in rows], arrow.DataType.string()) for key in rows[0]}
    write_parquet(arrow.Table.from_pydict(texts), str(path), compression="snappy")


def _foreign_files(project: Path) -> Iterator[Original]:
    """Yield the files of other programs, for the commands that convert or score them, and the tables of datasets."""
    for path in sorted(each for name in FOREIGN for each in (project / name).rglob("*")):
        file = str(path.relative_to(project))
        if path.parent.name == "logs":
            yield Original("foreign", file, (("score", file, "--config", "config.yaml", "--gate", "none"),))
        elif path.suffix in (*SUFFIXES, ".eval") and path.parent.name != "parts":  # of promptfoo's configurations
            output = "runs" if path.parent.name == "inspect" else "made/suite.yaml"
            yield Original("foreign", file, (("convert", file, "-o", output, "--allow-loss"),))
    for name in TABLES:
        suite = f"{name}.yaml"
        yield Original("foreign", name, (("check", suite), ("run", suite, "--dry-run")))


def _stored() -> list[str]:
    return sorted(path.parent.name for path in RUNS.glob("*/run.json") if path.parent.name != "resumed")


def _run_id(name: str) -> str:
    run_id: str = json.loads((RUNS / name / "run.json").read_bytes())["run_id"]
    return run_id


def _project_files(folder: Path, project: str) -> Iterator[Original]:
    """Yield the files of a project that people write, for the commands that check and plan."""
    for path in sorted((folder / project).rglob("*")):
        if path.suffix in SUFFIXES and path.name != "README.md":
            file = str(path.relative_to(folder / project))
            yield Original(project, file, (("check", "."), ("run", *_planned(project, file), "--dry-run")))


def _planned(project: str, file: str) -> tuple[str, ...]:
    """Return the arguments of `run` for a damaged file: in the suites, the file itself and targets of all kinds."""
    match project:
        case "suites":
            targets = SOME_TARGETS if file == "targets.yaml" else ("desk",)
            suite = file if file in PLANNED else "plain.yaml"
            return suite, *(word for name in targets for word in ("--target", name))
        case "good":
            return ("evals/lines.jsonl", "--target", "agent")
        case _:
            return (".",)


def _stored_files(folder: Path, name: str) -> Iterator[Original]:
    """Yield the files of a stored run, and for some runs its eval file and what was exported from it."""
    run = f".agentv/runs/{_run_id(name)}"
    for path in sorted((folder / "stored" / run).iterdir()):
        if path.suffix in SUFFIXES:
            yield Original("stored", f"{run}/{path.name}", (*_reading(run, name), *_continuing(run, name)))
    if name == "killed":
        yield Original("stored", "long.yaml", _continuing(run, name))
    if name == "plain":
        for exported in ("plain-baseline.jsonl", "plain-report.jsonl"):
            yield Original("stored", exported, (("compare", exported, run), ("compare", run, exported, "--json")))


def _reading(run: str, name: str) -> tuple[tuple[str, ...], ...]:
    other = f"copies/{_run_id('changed' if name == 'plain' else name)}"
    return (
        ("show", run),
        ("show", run, "*"),
        ("show", run, "--by", "target", "--json"),
        ("report", run, "--exit-code"),
        ("report", run, "-o", "-", "--format", "FORMAT"),
        ("compare", run, other),
        ("compare", other, run, "--json"),
        ("runs", "list"),
    )


def _continuing(run: str, name: str) -> tuple[tuple[str, ...], ...]:
    shards = [f".agentv/runs/{_run_id(shard)}" for shard in ("shard-1", "shard-2")]
    merge = (("merge", *shards, "--display", "plain"),) if run in shards or name == "killed" else ()
    return (*merge, *((("resume", run, "--display", "plain"),) if name in RESUMED else ()))


# --- one file ---------------------------------------------------------------------------------------------------------


def _copy_project(projects: Path, folder: Path, original: Original) -> None:
    """Copy the project of a file into a new folder; of the stored runs only those that its commands name."""
    top = original.project.partition("/")[0]  # examples share their agents
    words = {word.rpartition("/")[2] for command in original.commands for word in command}

    def unused(place: str, names: list[str]) -> set[str]:
        is_runs = Path(place).name in ("runs", "copies") and Path(place).is_relative_to(projects / "stored")
        return set(names) - words if is_runs else set()

    shutil.copytree(projects / top, folder / top, symlinks=True, ignore=unused)


@dataclass(frozen=True)
class Bench:
    """The undamaged projects in one folder, and their files by number."""

    projects: Path
    originals: Sequence[Original]
    limits: Limits

    def damage(self, number: int, folder: Path) -> tuple[Original, tuple[tuple[str, ...], ...]]:
        """Write the project of a damaged file into a new folder; return the file, and its commands."""
        chance = random.Random(f"mutated file {number}")  # noqa: S311 - not for security
        project = chance.choice(sorted({original.project for original in self.originals}))
        project = chance.choice((project, "suites", "stored", "foreign", "foreign"))
        originals = [original for original in self.originals if original.project == project]
        if project == "foreign":  # most are configurations of promptfoo
            folder_name = chance.choice(sorted({str(Path(original.file).parent) for original in originals}))
            originals = [original for original in originals if str(Path(original.file).parent) == folder_name]
        original = chance.choice(originals)
        _copy_project(self.projects, folder, original)
        path = folder / original.project / original.file
        path.write_bytes(damaged_file(path, chance))
        chosen = chance.choice(FORMATS)
        return original, tuple(
            tuple(chosen if word == "FORMAT" else word for word in command) for command in original.commands
        )

    def try_file(self, number: int, folder: Path) -> Iterator[Outcome]:
        """Yield the outcome of each command on one damaged file, in a child process with limits."""
        original, commands = self.damage(number, folder)
        yield from outcomes(number, original, commands, folder / original.project, self.limits)


def outcomes(
    number: int, original: Original, commands: Sequence[tuple[str, ...]], project: Path, limits: Limits
) -> Iterator[Outcome]:
    """Yield the outcome of each command, called one after the other in a forked process; a hang ends it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _call_all(commands, project, writing, limits)
    os.close(writing)
    done = 0
    with open(reading, "rb") as lines:  # noqa: PTH123 - a descriptor
        for line in _lines(lines, limits.killed_after_s):
            yield Outcome(number, original, commands[done], **json.loads(line))
            done += 1
    _end(child)
    if done < len(commands):
        problem = f"ended, or took longer than {limits.killed_after_s:g} s"
        yield Outcome(number, original, commands[done], "killed", limits.killed_after_s, 0, problem)


def _lines(pipe: IO[bytes], patience_s: float) -> Iterator[bytes]:
    """Yield lines until the pipe closes or is silent for too long."""
    while select.select([pipe], [], [], patience_s)[0]:
        line = pipe.readline()
        if not line:
            return
        yield line


def _end(child: int) -> None:
    """Kill a child and whatever it started, and wait for it."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def _call_all(commands: Sequence[tuple[str, ...]], project: Path, writing: int, limits: Limits) -> None:
    """Call each command and write its outcome as a line of JSON. Never returns."""
    os.setpgid(0, 0)
    os.chdir(project)
    resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))
    with open(writing, "wb", buffering=0) as pipe:
        pipe.writelines(json.dumps(_call(command, limits)).encode() + b"\n" for command in commands)
    os._exit(0)


def _call(command: tuple[str, ...], limits: Limits) -> dict[str, Any]:
    said = Path("../output").resolve() if Path("../output").parent.exists() else Path("output")
    _redirect(said)
    started = _cpu_seconds()
    code = _exit_code(command)
    seconds = _cpu_seconds() - started
    sys.stdout.flush()
    sys.stderr.flush()
    output = said.read_text("utf-8", "replace")
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1 << 20)
    problem = "; ".join(_problems(code, output, seconds, megabytes, limits))
    kept = output if problem else ""
    return {"code": code, "seconds": seconds, "megabytes": megabytes, "problem": problem, "output": kept[-20_000:]}


def _cpu_seconds() -> float:
    """Return the CPU time of this process and its ended children: on a busy machine wall time says little."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _redirect(path: Path) -> None:
    """Let standard output and standard error, also those of programs, end in a file."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(descriptor, number)
    os.close(descriptor)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - it lives as long as the process
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115


def _exit_code(command: tuple[str, ...]) -> int | str:
    from agentv.cli.main import main  # noqa: PLC0415 - the bench package is also used where agentv is not installed

    try:
        main(command)
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except BaseException as error:  # noqa: BLE001 - to find any is what this is for
        traceback.print_exc()
        return type(error).__name__


def _problems(code: int | str, output: str, seconds: float, megabytes: float, limits: Limits) -> Iterator[str]:
    leaked = LEAKED.search(output)
    if isinstance(code, str):
        yield f"{code} at {_last_place(output)}"
    elif code not in EXIT_CODES:
        yield f"exit code {code}"
    elif leaked:
        yield f"prints {leaked.group()!r}"
    if code not in (0, 1) and not output.strip():
        yield f"exit code {code} without a word"
    if seconds > limits.seconds:
        yield f"took {seconds:.1f} s"
    if megabytes > limits.megabytes:
        yield f"took {megabytes:.0f} MB"


def _last_place(output: str) -> str:
    places = re.findall(r'File ".*?/(?:src|site-packages)/(.*?)", line (\d+)', output)
    return ":".join(places[-1]) if places else "an unknown place"


# --- all files --------------------------------------------------------------------------------------------------------


def prepare(folder: Path, limits: Limits) -> Bench:
    """Write the undamaged projects, and import what their commands need, so that a forked process starts warm.

    Raises RuntimeError if a command has a problem with an undamaged file.
    """
    projects = folder / "projects"
    projects.mkdir()
    bench = Bench(projects, make_projects(projects), limits)
    _set_environment(folder)
    _import_commands(bench)
    return bench


def _set_environment(folder: Path) -> None:
    """Leave nothing of the caller's variables that could change an outcome, and no way to a key."""
    path = os.environ.get("PATH", "")
    os.environ.clear()
    os.environ.update(
        PATH=f"{folder / 'projects' / 'stored' / 'bin'}:{path}",
        HOME=str(folder),
        FAKE_KEY="any-fake-key",
        NO_COLOR="1",
        COLUMNS="120",
        LANG="C.UTF-8",
    )


def _import_commands(bench: Bench) -> None:
    from agentv.cli.main import COMMANDS  # noqa: PLC0415 - as above

    for name in ("check", "run", "show", "report", "compare", "runs", "merge", "resume", "convert", "score"):
        importlib.import_module(COMMANDS[name].module)
    for name in _modules_used(bench):
        if name.partition(".")[0] not in ("numpy", "__main__"):  # numpy starts threads, which a fork does not copy
            importlib.import_module(name)


def _modules_used(bench: Bench) -> list[str]:
    """Return the modules that a forked process imports for the commands of every undamaged project."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        commands = {(original.project, command) for original in bench.originals for command in original.commands}
        with TemporaryDirectory() as folder:
            copy = shutil.copytree(bench.projects, Path(folder) / "projects", symlinks=True)
            for project, command in sorted(commands):
                os.chdir(copy / project)
                _redirect(Path(folder) / "output")
                _exit_code(tuple("json" if word == "FORMAT" else word for word in command))
        with open(writing, "w") as pipe:  # noqa: PTH123 - a descriptor
            json.dump(sorted(name for name in sys.modules if not name.startswith("_")), pipe)
        os._exit(0)
    os.close(writing)
    with open(reading) as pipe:  # noqa: PTH123 - a descriptor
        text = pipe.read()
    os.waitpid(child, 0)
    names: list[str] = json.loads(text)
    return names


def try_files(numbers: Iterable[int], bench: Bench, scratch: Path) -> Iterator[Outcome]:
    """Yield the outcomes of all commands on the damaged files of these numbers."""
    for number in numbers:
        folder = scratch / str(number)
        yield from bench.try_file(number, folder)
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class Tally:
    """The counts of a run over many files, and the worst of its commands."""

    files: int = 0
    commands: int = 0
    slowest: Outcome | None = None
    largest: Outcome | None = None
    findings: int = 0
    codes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often each command ended with each exit code."""

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        self.commands += 1
        self.findings += bool(outcome.problem)
        self.codes[outcome.command[0], str(outcome.code)] += 1
        if self.slowest is None or outcome.seconds > self.slowest.seconds:
            self.slowest = outcome
        if self.largest is None or outcome.megabytes > self.largest.megabytes:
            self.largest = outcome


def main(arguments: Sequence[str] | None = None) -> int:
    """Damage files and print what was found. Returns 1 if there are findings."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutated_files", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=FILES, help=f"number of files (default: {FILES:,})")
    parser.add_argument("--first", type=int, default=0, help="number of the first file (default: 0)")
    parser.add_argument("--only", type=int, help="this file alone; its project stays in a folder")
    options = parser.parse_args(arguments)
    in_memory = Path("/dev/shm")  # noqa: S108 - the folder is a fresh one there
    with TemporaryDirectory(prefix="mutated-", dir=in_memory if in_memory.is_dir() else None) as folder:
        bench = prepare(Path(folder), Limits())
        if options.only is not None:
            return _replay(bench, options.only)
        return _try_many(bench, range(options.first, options.first + options.count), Path(folder) / "scratch")


def _replay(bench: Bench, number: int) -> int:
    kept = Path(f"mutated-{number}").absolute()
    shutil.rmtree(kept, ignore_errors=True)
    found = list(bench.try_file(number, kept))
    for outcome in found:
        print(f"{outcome}\n    exit code {outcome.code}\n{outcome.output}")
    shutil.rmtree(kept)
    bench.damage(number, kept)
    print(f"The project is in {kept}")
    return int(any(outcome.problem for outcome in found))


def _try_many(bench: Bench, numbers: range, scratch: Path) -> int:
    tally, started = Tally(files=len(numbers)), time.monotonic()
    for outcome in try_files(numbers, bench, scratch):
        tally.add(outcome)
        if outcome.problem:
            print(outcome, flush=True)
    print(_summary(tally, time.monotonic() - started))
    return int(tally.findings > 0)


def _summary(tally: Tally, seconds: float) -> str:
    lines = [f"{tally.files:,} files, {tally.commands:,} commands in {seconds:.0f} s: {tally.findings} findings"]
    for name in sorted({name for name, _ in tally.codes}):
        codes = sorted((code, count) for (each, code), count in tally.codes.items() if each == name)
        lines.append(f"{name:8} " + ", ".join(f"{count:,} with exit code {code}" for code, count in codes))
    if tally.slowest and tally.largest:
        lines.append(f"slowest {tally.slowest.seconds:.2f} s: {tally.slowest}".rstrip())
        lines.append(f"largest {tally.largest.megabytes:.0f} MB: {tally.largest}".rstrip())
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
