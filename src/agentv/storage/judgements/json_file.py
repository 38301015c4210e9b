"""A store for criteria judgements (`run_evaluation`): one JSON Lines file."""

import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from agentv.execution.threads import call_in_thread
from agentv.storage.files.line_file import plain_lines
from agentv.storage.judgements.configurations import split_configuration, with_configuration
from agentv.storage.records.json_line import decode, encode
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import ConfigError, EvalFileError, StorageError
from agentv.types.json_value import JsonObject, JsonValue

log = logging.getLogger("agentv")

_OPEN_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC


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
    file; a partial last line of a killed process is removed before the next one is written. Removed lines, and lines
    that cannot be read, are logged by the logger `agentv` as warnings.

    A line names its configuration by hash (`configSha256` in its `evaluationConfigSnapshot`); each configuration is a
    line of `config_path`, the file `NAME.configs.jsonl` beside it.
    """

    kind = "json_file"

    def __init__(self, path: str | os.PathLike[str] | Mapping[str, str]) -> None:
        """Store in the file at `path`, which may also be given as AgentDock's options, `{"filePath": path}`."""
        self.path = Path(_path_of(path) if isinstance(path, Mapping) else path)
        self._stored_hashes: set[str] = set()

    @property
    def config_path(self) -> Path:
        """The file of the configurations."""
        return self.path.with_name(f"{self.path.stem}.configs.jsonl")

    async def save_result(self, result: AggregatedEvaluationResult) -> None:
        """Append one judgement; once this returns, the line survives a crash of the process. Raises StorageError.

        The file is written in a thread, because the disk may be slow or another process may hold the lock.
        """
        await call_in_thread(self._append, result, timeout_s=None)

    def _append(self, result: AggregatedEvaluationResult) -> None:
        """Append a judgement, after its configuration if the file of configurations lacks it."""
        split = split_configuration(result.to_dict())
        if split.config is not None and split.sha256 not in self._stored_hashes:
            try:
                known = self._load_configs()
            except StorageError as error:
                raise StorageError(f"cannot write {self.path}: {error}") from error
            if split.sha256 not in known:
                append_record(self.config_path, {"sha256": split.sha256, "config": split.config})
            self._stored_hashes.add(split.sha256)
        append_record(self.path, split.record)

    def load_results(self) -> Iterator[AggregatedEvaluationResult]:
        """Yield all judgements with their configurations.

        A partial last line is skipped; any other line that is not a JSON object is skipped with a warning. Raises
        StorageError, with the number of the line, for an object that is not a judgement or lacks its configuration.
        """
        configs = self._load_configs()
        for number, line in _records(self.path):
            try:
                record = with_configuration(line, configs)
                yield AggregatedEvaluationResult.from_dict(record)
            except KeyError as error:
                raise StorageError(
                    f"{self.path}:{number}: the configuration {error} is not in {self.config_path}; restore that file "
                    "from a copy"
                ) from error
            except (ValueError, EvalFileError) as error:
                raise StorageError(f"{self.path}:{number}: {error}") from error

    def _load_configs(self) -> dict[str, JsonObject]:
        """Return the stored configurations by hash. Raises StorageError if their file cannot be read."""
        configs: dict[str, JsonObject] = {}
        for _, record in _records(self.config_path):
            sha256, config = record.get("sha256"), record.get("config")
            if isinstance(sha256, str) and isinstance(config, Mapping):
                configs[sha256] = config
        return configs


def _path_of(options: Mapping[str, str]) -> str:
    """Return the path in options. Raises ConfigError if there is none, or another key."""
    known = ("path", "filePath", "file_path")
    path = next((path for name, path in options.items() if name in known), "")
    if len(options) != 1 or not path:
        raise ConfigError('JsonFileStorageProvider takes a path, or {"filePath": path}')
    return path


def _records(path: Path) -> Iterator[tuple[int, JsonObject]]:
    """Yield the records of a file with their line numbers; skip and log a line that is not a JSON object.

    Raises StorageError if the file cannot be read.
    """
    try:
        for number, line in enumerate(plain_lines(path), start=1):
            try:
                record = decode(line)
            except ValueError as error:
                log.warning("%s:%d: skipped: %s", path, number, error)
                continue
            yield number, record
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}") from error


class _PartialLineError(OSError):
    """A write failed in the middle of a line; the partial line was removed again."""


def append_record(path: Path, record: JsonValue) -> None:
    """Append a record to a JSON Lines file, as JsonFileStorageProvider does. Raises StorageError."""
    line = encode(record) + b"\n"
    descriptor = _open(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        _remove_partial_record(descriptor, path)
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
            return os.open(path, _OPEN_FLAGS, 0o600)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            return os.open(path, _OPEN_FLAGS, 0o600)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror}") from error


def _remove_partial_record(descriptor: int, path: Path) -> None:
    """Remove the partial record that a killed process left at the end of a file, and log it."""
    end = os.fstat(descriptor).st_size
    last = _unfinished_line(descriptor, end)
    if not last.startswith(b"{"):  # the file ends with a whole line, or with foreign text
        return
    try:
        decode(last)
    except ValueError:
        os.ftruncate(descriptor, end - len(last))
        log.warning("%s: removed a partial last line of %d bytes", path, len(last))


def _unfinished_line(descriptor: int, end: int) -> bytes:
    """Return the bytes after the last newline of a file of `end` bytes."""
    size, found = 1, b""
    while len(found) < end:
        found = os.pread(descriptor, min(size, end), max(end - size, 0))
        if (newline := found.rfind(b"\n")) >= 0:
            return found[newline + 1 :]
        size *= 1 << 10
    return found


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
