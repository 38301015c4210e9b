"""Judgements of the criteria door in one file of JSON lines."""

import fcntl
import os
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agentv.execution.threads import call_in_thread
from agentv.storage.records.json_line import encode
from agentv.types.criteria.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue

_APPENDING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


class JsonFileSettings(Struct, frozen=True, kw_only=True):
    """Settings of `json_file`."""

    path: Annotated[
        str,
        Meta(
            description="the file; it and its folder are made when they are missing", extra={"aliases": ("file_path",)}
        ),
    ]

    def __post_init__(self) -> None:
        """Refuse a path that names no file."""
        if not self.path.strip():
            raise ValueError("`path` must name a file")


def make_json_file(settings: JsonFileSettings, base_dir: str) -> "JsonFileStorageProvider":
    """Make a `json_file`; a relative path starts from the configuration's folder."""
    return JsonFileStorageProvider(Path(base_dir, settings.path))


class JsonFileStorageProvider:
    """Appends each judgement to a file as one line of JSON, with the PRD's camelCase keys and times in milliseconds.

    The folder is made when it is missing. A line is there whole or not at all: several processes may append to one
    file, and what a killed one left of its last line is closed off, so that the next begins on its own line.
    """

    kind = "json_file"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    async def save_result(self, result: AggregatedEvaluationResult) -> None:
        """Append one judgement; when this returns, it survives the process. Raises StorageError.

        Others' work goes on meanwhile: the disk may be slow, or another process hold the file.
        """
        await call_in_thread(append_record, self.path, result.to_dict(), timeout_s=None)


def append_record(path: Path, record: JsonValue) -> None:
    """Append a record to a file of JSON lines, as JsonFileStorageProvider does. Raises StorageError."""
    line = encode(record) + b"\n"
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _append(descriptor, line)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; the line was taken back") from error
    finally:
        os.close(descriptor)


def check_can_append(path: Path) -> None:
    """Raise StorageError when a file cannot be appended to; it is made when it is missing."""
    os.close(_open(path))


def _open(path: Path) -> int:
    try:
        try:
            return os.open(path, _APPENDING, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, _APPENDING, 0o600)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error


def _append(descriptor: int, line: bytes) -> None:
    """Append a line, or leave the file as it was. Raises OSError."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        line = b"\n" + line
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except OSError:
        os.ftruncate(descriptor, end)
        raise
