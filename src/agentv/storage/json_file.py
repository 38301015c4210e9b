"""Judgements of the criteria door in one file of JSON lines."""

import fcntl
import os
from pathlib import Path

from agentv.storage.json_line import encode
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import StorageError


class JsonFileStorageProvider:
    """Appends each judgement to a file as one line of JSON, with the PRD's camelCase keys and times in milliseconds.

    The folder is made when it is missing. A line is there whole or not at all: several processes may append to one
    file, and what a killed one left of its last line is closed off, so that the next begins on its own line.
    """

    kind = "json_file"

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    async def save_result(self, result: AggregatedEvaluationResult) -> None:
        """Append one judgement; when this returns, it survives the process. Raises StorageError."""
        line = encode(result.to_dict()) + b"\n"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            _append(descriptor, line)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}; the line was taken back") from error
        finally:
            os.close(descriptor)


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
