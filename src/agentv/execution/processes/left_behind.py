"""End the commands and remove the temporary folders that a killed process left behind, found by its mark."""

import os
import re
import signal
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

import psutil
from msgspec import Struct

from agentv.execution.folder_trees import remove_tree
from agentv.execution.processes.live_trees import process_mark

MARK = "AGENTV_COMMAND"
"""The environment variable by which the descendants of a command are found. Its value is `/PROCESS/COMMAND`: the mark
of the process that started the command, then the mark of the command. A nested command appends another such pair."""

PREFIX = "agentv-"
KEPT_FILE = ".agentv-kept"
"""A file of a temporary folder: the paths in the folder that are not removed with it, one a line."""
_VALID_MARK = re.compile(r"[0-9a-f]{16}")
"""The form of a mark. Marks are read from files that may be edited; another form could match foreign processes."""

_GRACE_S = 1.0
"""Seconds between SIGTERM and SIGKILL."""
_PATIENCE_S = 4.0
"""Seconds after which processes that still run are given up."""
_PAUSE_S = 0.05


class Cleared(Struct, frozen=True):
    """The number of processes that were ended, and of temporary folders that were removed."""

    processes: int
    folders: int


def temporary_folder(kind: str = "") -> Path:
    """Make a temporary folder. Its name contains `kind`.

    If this process is killed, its watcher removes the folder; the watcher starts with the first command.
    """
    suffix = f"{kind}-" if kind else ""
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{process_mark()}-{suffix}"))


def temporary_folders(mark: str) -> list[Path]:
    """Return the temporary folders of a process."""
    return list(Path(tempfile.gettempdir()).glob(f"{PREFIX}{mark}-*"))


def remove_temporary(folder: Path) -> None:
    """Remove a temporary folder; if the first path of its KEPT_FILE exists, leave what that file names."""
    file = folder / KEPT_FILE
    try:
        kept = [folder / line for line in file.read_text("utf-8").splitlines()]
    except (OSError, ValueError):
        kept = []
    if not kept or not kept[0].exists():
        remove_tree(folder)
        return
    _remove_but([file, *kept], folder)


def _remove_but(kept: Collection[Path], folder: Path) -> None:
    with suppress(OSError):  # as `remove_tree`: what cannot be removed stays
        for entry in folder.iterdir():
            if entry in kept:
                continue
            if not entry.is_dir() or entry.is_symlink():
                with suppress(OSError):
                    entry.unlink()
            elif any(path.is_relative_to(entry) for path in kept):
                _remove_but(kept, entry)
            else:
                remove_tree(entry)


def clear(marks: Collection[str], sessions: Collection[int] = ()) -> Cleared:
    """End the commands that the processes with these marks left running, and remove their temporary folders.

    `sessions` are the sessions of commands, each numbered by the pid of its command: descendants whose environment
    cannot be read are found by their session. A command gets SIGTERM, and a second later SIGKILL. A mark of another
    form is ignored.
    """
    marks = frozenset(filter(_VALID_MARK.fullmatch, marks))
    ended: set[psutil.Process] = set()
    started = time.monotonic()
    while (left := _running(marks, sessions, ended)) and time.monotonic() - started < _PATIENCE_S:
        is_late = time.monotonic() - started >= _GRACE_S
        for process in left if is_late else left - ended:
            with suppress(psutil.Error):
                process.send_signal(signal.SIGKILL if is_late else signal.SIGTERM)
        ended |= left
        time.sleep(_PAUSE_S)
    folders = [folder for mark in marks for folder in temporary_folders(mark)]
    for folder in folders:
        remove_temporary(folder)
    return Cleared(len(ended), len(folders))


def _running(
    marks: Collection[str], sessions: Collection[int], known: Collection[psutil.Process]
) -> set[psutil.Process]:
    """Return the running processes of these marks and sessions, and those known before, with their descendants."""
    found: set[psutil.Process] = set()
    for process in {*psutil.process_iter(), *known}:
        with suppress(psutil.Error, OSError):
            if process in known or _is_marked(process, marks) or os.getsid(process.pid) in sessions:
                found.update({process, *process.children(recursive=True)})
    return {process for process in found if _is_alive(process)}


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.pid != os.getpid() and process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _is_marked(process: psutil.Process, marks: Collection[str]) -> bool:
    try:
        written = process.environ().get(MARK, "").split("/")
    except (psutil.Error, OSError):
        return False
    return not set(marks).isdisjoint(written)
