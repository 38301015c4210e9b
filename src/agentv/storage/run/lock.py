"""One writer for a run: an advisory lock that is released when its process ends; the file names that process."""

import fcntl
import os
import socket
import time
from pathlib import Path

from agentv.execution.processes.live_trees import process_mark
from agentv.storage.files.line_file import open_for_writing, open_lines
from agentv.storage.records.json_line import decode, encode
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonObject

LOCK_NAME = "lock"
_POLL_S = 0.02


class RunLock:
    """An exclusive lock for writing a run, held until `release` or the end of the process.

    `name` is the name of the lock file, `what` that of the locked part in messages. The constructor waits for the lock
    for `wait_s` and then raises StorageError. `dead_writer` is the last writer if it died before it released the lock,
    else None.
    """

    def __init__(self, folder: Path, name: str = LOCK_NAME, *, what: str = "run", wait_s: float = 0) -> None:
        self._descriptor = open_for_writing(folder / name, os.O_RDWR | os.O_CREAT)
        try:
            _lock_within(wait_s, self._descriptor)
        except BlockingIOError as error:
            os.close(self._descriptor)
            holder = read_holder(folder, name)
            process = f"process {holder['pid']} on {holder['host']}" if holder else "another process"
            raise StorageError(
                f"{what} {folder.name} is being written by {process}; wait for it or stop it first"
            ) from error
        except OSError as error:
            os.close(self._descriptor)
            reason = f"{error.strerror}; its folder must be on a file system with locks"
            raise StorageError(f"{what} {folder.name} cannot be locked: {reason}") from error
        try:
            before = read_holder(folder, name)
            self.dead_writer = None if before is None or _is_alive(before) else before
            os.ftruncate(self._descriptor, 0)
            holder = {"pid": os.getpid(), "host": socket.gethostname(), "mark": process_mark()}
            os.pwrite(self._descriptor, encode(holder), 0)
        except OSError:
            os.close(self._descriptor)  # on a full disk, the next writer would wait for this process to end
            raise

    def release(self) -> None:
        """Release the lock; the empty file stays, because removing it could break another writer's lock."""
        try:
            os.ftruncate(self._descriptor, 0)
        finally:
            os.close(self._descriptor)


def _lock_within(seconds: float, descriptor: int) -> None:
    """Lock a file. Raises BlockingIOError if another process has not released it within this time."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(_POLL_S)
        else:
            return


def read_holder(folder: Path, name: str = LOCK_NAME) -> JsonObject | None:
    """Return `pid`, `host` and `mark` of the process that writes the run or died writing it; None after a release.

    `mark` is its `process_mark`, which identifies its commands and temporary folders; older versions wrote none.
    """
    try:
        with open_lines(folder / name) as file:
            holder = decode(file.read())
    except (OSError, ValueError):
        return None
    return holder if {"pid", "host"} <= holder.keys() else None


def is_being_written(folder: Path) -> bool:
    """Return True if the process that holds the lock is alive; a process on another host is assumed to be alive."""
    holder = read_holder(folder)
    return holder is not None and _is_alive(holder)


def _is_alive(holder: JsonObject) -> bool:
    pid = holder["pid"]
    if holder["host"] != socket.gethostname() or not isinstance(pid, int):
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
