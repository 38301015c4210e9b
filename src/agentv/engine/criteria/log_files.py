"""The files that a command on logs reads: those that were named, and the logs in folders that were named.

A folder of transcripts of coding agents stays a folder: LogStream knows which of its files are transcripts. Files that
are no logs are reported before any line is read.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from agentv.execution.processes.line_stream import STDIN
from agentv.loading.datasets.transcripts import UNREADABLE, find_program, find_transcripts, read_start
from agentv.loading.files.kinds import TABLE_SUFFIXES, YAML_SUFFIXES, record_schema
from agentv.storage.run.find import LOG_SUFFIX, readable_run
from agentv.telemetry.binary import BINARY_SUFFIXES, is_framed, looks_binary
from agentv.types.errors import ConfigError

_SUFFIXES = (".json", ".jsonl", ".ndjson", *BINARY_SUFFIXES)
_NAMED_SUFFIXES = (*_SUFFIXES, *TABLE_SUFFIXES)
"""Endings of logs: a file with such a name is read as its name says, and its lines are reported one by one."""
_START_BYTES = 2**16
_JSON_STARTS = (b"{", b"[")
_NO_LOGS = {
    ".py": "is Python code, not a log; agentv run calls agents that a targets file names, and --otlp receives their "
    "traces",
    ".yaml": "is a YAML file, not a log; agentv run runs eval files, and --config takes the evaluators of a log",
    LOG_SUFFIX: "is a log of inspect; agentv convert makes a run of it",
}
_OTHER = (
    "is not a log: no line at its start is a JSON object; logs are JSON Lines, JSON, CSV, TSV, Parquet, OTLP, or "
    "transcripts of coding agents"
)


def log_files(files: Sequence[str]) -> list[str]:
    """Return the files, with the logs in a folder without transcripts, in the order of their paths, in its place.

    Raises ConfigError for files that are no logs, and for a folder with neither.
    """
    found: list[str] = []
    problems: list[str] = []
    for file in files:
        path = Path(file)
        if file != STDIN and (problem := _why_no_log(path)) is not None:
            problems.append(f"{file}: {problem}")
        elif file == STDIN or not path.is_dir() or find_transcripts(path).transcripts:
            found.append(file)
        elif inside := sorted(_logs_in(path)):
            found += inside
        else:
            problems.append(
                f"{file}: is a folder without transcripts of coding agents and without logs, which end in "
                f"{', '.join(_SUFFIXES)}"
            )
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def _logs_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.name.removesuffix(".gz").endswith(_SUFFIXES) and not is_hidden and path.is_file():
            yield str(path)


def _why_no_log(path: Path) -> str | None:
    """Return what a file or folder is, and what to do with it; None if it may be a log or contain logs."""
    if path.is_dir():
        return _why_no_logs_in(path)
    if not path.is_file():  # a pipe, or a missing file, which is reported later
        return None
    if _is_run(path.parent):
        return f"is a file of a run of agentv, not a log; {_for_run(path.parent)}"
    if (kind := record_schema(path)) is not None:
        return f"has records of a run of agentv ({kind}), not of a log; agentv show RUN shows a run"
    name = path.name.removesuffix(".gz")
    suffix = ".yaml" if name.endswith(YAML_SUFFIXES) else Path(name).suffix
    if suffix in _NO_LOGS:
        return _NO_LOGS[suffix]
    return None if suffix in _NAMED_SUFFIXES or _may_be_log(path) else _OTHER


def _why_no_logs_in(folder: Path) -> str | None:
    if _is_run(folder):
        return f"is a run of agentv, not a folder of logs; {_for_run(folder)}"
    run = next(filter(_is_run, _folders_in(folder)), None)
    return None if run is None else f"contains runs of agentv, so name the logs; {_for_run(run)}"


def _for_run(folder: Path) -> str:
    run = str(folder) if os.sep in str(folder) else f".{os.sep}{folder}"
    return f"to show the run: agentv show {run}; to judge its answers again: agentv rescore {run}"


def _folders_in(folder: Path) -> Iterator[Path]:
    """Yield the folders in which runs are, newest first, if a folder is that of all runs, or the one above it."""
    for runs in (folder, folder / "runs"):
        with suppress(OSError):
            yield from sorted(runs.iterdir(), reverse=True)


def _is_run(folder: Path) -> bool:
    try:
        return (folder / "run.json").is_file() and readable_run(folder) is not None
    except OSError:
        return False


def _may_be_log(path: Path) -> bool:
    """Return True for a file that is binary OTLP or a transcript, or has a line that begins as JSON."""
    try:
        start = read_start(path, _START_BYTES)
    except UNREADABLE:  # reported when the file is read
        return True
    if looks_binary(start) or is_framed(start) or find_program(path) is not None:
        return True
    return not start.strip() or any(line.lstrip().startswith(_JSON_STARTS) for line in start.splitlines())
