"""The cost of segments: runs with and without them, then the commands that read them."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.harness import ROOT
from bench.harnesses.agentv_files import write_job
from bench.harnesses.job import Job, Used
from bench.measuring import Effort
from bench.rows import AtMost, Row, megabytes, row_of

SOME, MANY, MILLION = 10_000, 100_000, 1_000_000
_LEAST = 100
_PLACE = ("--segments", "segments")


def measure(effort: Effort) -> Iterator[Row]:
    """Yield what a run with segments uses beside one without, and its report, comparison and merge.

    100,000 rows, or a million with `effort.everything`.
    """
    rows = MILLION if effort.everything else max(_LEAST, effort.calls(MANY))
    with TemporaryDirectory() as folder:
        few, many = Path(folder, "few"), Path(folder, "many")
        small = _run(few, effort.calls(SOME), "small", *_PLACE)
        plain = _run(many, rows, "plain")
        used = _run(many, rows, "segmented", *_PLACE)
        yield row_of(f"CPU per row of {rows:,}", [used.cpu_s / rows], beside="no segments", theirs=[plain.cpu_s / rows])
        yield _memory(f"peak memory of the run, {rows:,} rows", used, plain)
        beyond = [used.peak_mb - small.peak_mb]
        yield row_of(
            f"peak memory, {rows:,} beyond {effort.calls(SOME):,} rows", beyond, target=AtMost(30), shown=megabytes
        )
        listed, local = _listed(many)
        yield row_of("segments listed", [float(len(listed))], shown=lambda count: f"{count:g}")
        yield row_of("segments.jsonl", [float(sum(map(len, listed)))], shown=lambda size: f"{size:,.0f} bytes")
        yield row_of("bytes a row, all files", [local / rows], shown=lambda size: f"{size:,.0f} bytes")
        for name, words in (("report --format json", ("{}",)), ("compare with itself", ("{}", "{}"))):
            yield from _both(name, rows, many, words)
        for part in (1, 2):
            _run(many, rows, f"part{part}", "--shard", f"{part}/2", *_PLACE)
        merged = _agentv(many, "merge", "part1", "part2", "--name", "merged", *_PLACE)
        yield row_of(f"merge of two shards, {rows:,} rows: CPU", [merged.cpu_s])
        yield row_of(f"merge of two shards, {rows:,} rows: memory", [merged.peak_mb], shown=megabytes)


def _both(name: str, rows: int, project: Path, words: tuple[str, ...]) -> Iterator[Row]:
    """Yield the CPU time and memory of a command on the run with segments, beside that on the other one."""
    command, *options = name.split(" with", maxsplit=1)[0].split()
    ours, theirs = (
        _agentv(project, command, *(word.format(run) for word in words), *options) for run in ("segmented", "plain")
    )
    yield row_of(f"{name}, {rows:,} rows: CPU", [ours.cpu_s], beside="no segments", theirs=[theirs.cpu_s])
    yield _memory(f"{name}, {rows:,} rows: memory", ours, theirs)


def _memory(work: str, ours: Used, theirs: Used) -> Row:
    return row_of(work, [ours.peak_mb], beside="no segments", theirs=[theirs.peak_mb], shown=megabytes)


def _run(project: Path, rows: int, name: str, *options: str) -> Used:
    if not project.exists():
        write_job(Job(kind="echo", cases=rows), project)
        (project / ".agentv").mkdir()
    return _agentv(project, "run", "cases.jsonl", "--name", name, "--display", "none", *options)


def _listed(project: Path) -> tuple[list[bytes], int]:
    """Return the lines of the only segments.jsonl, and the size of the rows that they list and of the run's folder."""
    (path,) = project.glob(".agentv/runs/*/segments.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    moved = sum(json.loads(line)["bytes"] for line in lines[1:])
    return lines[1:], moved + sum(each.stat().st_size for each in path.parent.iterdir())


def _agentv(project: Path, *arguments: str) -> Used:
    """Run a command in a process of its own. Raises RuntimeError unless it ends with exit code 0."""
    command = (sys.executable, "-m", "bench.harnesses.agentv_command", *arguments)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "NO_COLOR": "1"}
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=project, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}:\n{(done.stderr or done.stdout)[-2000:]}")
    return Used(**json.loads(done.stdout.rstrip().rpartition("\n")[2]))
