"""A store for criteria judgements (`run_evaluation`): one JSON Lines file."""

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
        Meta(description="the file; it and its folder are created when missing", extra={"aliases": ("file_path",)}),
    ]

    def __post_init__(self) -> None:
        """Raise ValueError for an empty path."""
        if not self.path.strip():
            raise ValueError("`path` must name a file")


def make_json_file(settings: JsonFileSettings, base_dir: str) -> "JsonFileStorageProvider":
    """Return a `json_file` store; a relative path is relative to the configuration's folder."""
    return JsonFileStorageProvider(Path(base_dir, settings.path))


class JsonFileStorageProvider:
    """Appends each judgement to a file as one line of JSON, with camelCase keys and times in milliseconds.

    The folder is created when missing. A line is written completely or not at all. Several processes may append to one
    file; after a partial line of a killed process, the next record still starts on its own line.
    """

    kind = "json_file"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    async def save_result(self, result: AggregatedEvaluationResult) -> None:
        """Append one judgement; once this returns, the line survives a crash of the process. Raises StorageError.

        The file is written in a thread, because the disk may be slow or another process may hold the lock.
        """
        await call_in_thread(append_record, self.path, result.to_dict(), timeout_s=None)


class _PartialLineError(OSError):
    """A write failed after a part of the line; that part was removed again."""


def append_record(path: Path, record: JsonValue) -> None:
    """Append a record to a JSON Lines file, as JsonFileStorageProvider does. Raises StorageError."""
    line = encode(record) + b"\n"
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _append(descriptor, line)
    except _PartialLineError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}; the partial line was removed") from error
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        os.close(descriptor)


def check_can_append(path: Path) -> None:
    """Raise StorageError when a file cannot be appended to; create it when missing."""
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
    """Append a line, or leave the file as it was. Raises OSError, after a partial write _PartialLineError."""
    end = os.fstat(descriptor).st_size
    if end and os.pread(descriptor, 1, end - 1) != b"\n":
        line = b"\n" + line
    unwritten = line
    try:
        while unwritten:
            unwritten = unwritten[os.write(descriptor, unwritten) :]
    except OSError as error:
        if unwritten is line:
            raise
        os.ftruncate(descriptor, end)
        raise _PartialLineError(error.errno, error.strerror) from error
