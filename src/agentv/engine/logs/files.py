"""The files that a command on logs reads: those that were named, and the logs in folders that were named.

A folder of transcripts of coding agents stays a folder: LogStream knows which of its files are transcripts. Files that
are no logs are reported before any line is read.
"""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from agentv.engine.logs.transcript_lines import Places, counted
from agentv.execution.processes.line_stream import STDIN
from agentv.loading.datasets.transcripts import UNREADABLE, find_program, find_transcripts, read_start
from agentv.loading.files.kinds import TABLE_SUFFIXES, YAML_SUFFIXES, record_schema
from agentv.storage.run.find import LOG_SUFFIX, readable_run
from agentv.telemetry.otlp.binary import BINARY_SUFFIXES, is_framed, looks_binary
from agentv.types.errors import ConfigError
from agentv.types.input_notes import InputNote

_SUFFIXES = (".json", ".jsonl", ".ndjson", *BINARY_SUFFIXES)
_NAMED_SUFFIXES = (*_SUFFIXES, *TABLE_SUFFIXES)
"""Endings of logs: a file with such a name is read as its name says, and its lines are reported one by one."""
_ROTATION = re.compile(r"[.-]\d[\d.T:_-]*$")
"""What a program that rotates logs adds to their names: a number or a date."""
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


class LogFiles(Struct, frozen=True):
    """The files to read, in order, and what is not read of those that were named."""

    paths: tuple[str, ...]
    notes: tuple[InputNote, ...] = ()


def log_files(files: Sequence[str]) -> LogFiles:
    """Return the files, with the logs in a folder without transcripts, in the order of their paths, in its place.

    A file that is named twice, or named and in a named folder, is read once. Raises ConfigError for files that are no
    logs, and for a folder with neither logs nor transcripts.
    """
    found: list[str] = []
    others: list[str] = []
    problems: list[str] = []
    for file in files:
        path = Path(file)
        if file != STDIN and (problem := _why_no_log(path)) is not None:
            problems.append(f"{file}: {problem}")
        elif file == STDIN or not path.is_dir() or find_transcripts(path).transcripts:
            found.append(file)
        else:
            content = _content_of(path)
            found += content.logs
            others += content.others
            if not content.logs:
                listed = f"; not read: {Places.of(content.others)}" if content.others else ""
                problems.append(
                    f"{file}: is a folder without transcripts of coding agents and without logs, which end in "
                    f"{', '.join(_SUFFIXES)}{listed}"
                )
    if problems:
        raise ConfigError("\n".join(problems))
    once, repeated = _each_once(found)
    named = set(map(os.path.realpath, once))
    return LogFiles(tuple(once), tuple(_notes(once, repeated, [o for o in others if os.path.realpath(o) not in named])))


def _each_once(files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the files without those that an earlier one is, and these. Only files and folders can be the same."""
    once: dict[str, str] = {}
    repeated: list[str] = []
    for at, file in enumerate(files):
        is_stored = file != STDIN and (Path(file).is_file() or Path(file).is_dir())
        key = os.path.realpath(file) if is_stored else f"{at}"
        if key in once:
            repeated.append(file)
        else:
            once[key] = file
    return list(once.values()), repeated


def _notes(files: Sequence[str], repeated: Sequence[str], others: Sequence[str]) -> Iterator[InputNote]:
    """Yield what a user should know of the files, before their lines are read."""
    if repeated:
        yield InputNote(f"read once, although named more than once: {counted(Places.of(_distinct(repeated)), 'file')}")
    if others:
        advice = "to read such a log, name it instead of its folder"
        yield InputNote(
            f"not read, because their names are not those of logs: {counted(Places.of(others), 'file')}; {advice}"
        )
    if len(files) > 1 and (empty := [file for file in files if _is_empty(file)]):
        yield InputNote(f"empty: {counted(Places.of(empty), 'file')}")


def _distinct(files: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(files))


def _is_empty(file: str) -> bool:
    """Return True for a file without any text; False for one that is not a regular file or cannot be read."""
    try:
        return file != STDIN and Path(file).is_file() and not read_start(Path(file), _START_BYTES).strip()
    except UNREADABLE:
        return False


class _Content(Struct, frozen=True):
    """The logs in a folder, and the other files that may be logs, in the order of their paths."""

    logs: list[str]
    others: list[str]


def _content_of(folder: Path) -> _Content:
    logs: list[str] = []
    others: list[str] = []
    for path in sorted(folder.rglob("*")):
        is_hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if is_hidden or not path.is_file():
            continue
        if _is_named_as_log(path.name):
            logs.append(str(path))
        elif _may_be_other_log(path):
            others.append(str(path))
    return _Content(logs, others)


def without_rotation(name: str) -> str:
    """Return the name of a log without what compresses and rotates it: `a.jsonl` for `a.jsonl.1.gz`."""
    return _ROTATION.sub("", name.removesuffix(".gz"))


def _is_named_as_log(name: str) -> bool:
    """Return True for a name with the suffix of a log, also if the log was rotated, as in `a.jsonl.1`."""
    return without_rotation(name).endswith(_SUFFIXES)


def _may_be_other_log(path: Path) -> bool:
    """Return True for a table, a log of inspect, and a file that begins as JSON Lines or binary OTLP."""
    if path.name.removesuffix(".gz").endswith((*TABLE_SUFFIXES, LOG_SUFFIX)):
        return True
    try:
        start = read_start(path, _START_BYTES)
    except UNREADABLE:
        return False
    first = next((line for line in start.splitlines() if line.strip()), b"")
    return looks_binary(start) or is_framed(start) or first.lstrip().startswith(b"{")


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
