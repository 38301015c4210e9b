"""Whose children are whose: the operating system's side of telling a command's family apart."""

import ctypes
import functools
import os
import sys

import psutil

MARK = "AGENTV_COMMAND"
"""The environment variable that tells a command's descendants; nested commands append to it."""

_PR_SET_CHILD_SUBREAPER = 36
_THREADS = "/proc/self/task"
_MOST_BYTES = 1 << 20
"""Of a list of children: a hundred thousand of them."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def adopt_orphans(adopt: bool) -> None:  # noqa: FBT001 - the one argument of the system call
    """Ask Linux to make us the parent of our descendants' orphans, or stop it."""
    if sys.platform == "linux":
        _libc().prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(adopt), 0, 0, 0)


def possible_orphans() -> list[int]:
    """Return the pids among which orphans are: our own children on Linux, else every process."""
    try:
        texts = [_read(f"{_THREADS}/{thread}/children") for thread in os.listdir(_THREADS)]  # noqa: PTH208 - see _read
    except OSError:  # not Linux, a kernel without that file, or a thread that ended while we looked
        return _by_walk()
    return [int(pid) for text in texts for pid in text.split()]


def _read(path: str) -> bytes:
    """Return a small file's content. It is read after every command, and pathlib takes a sixth of a command's time."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        return os.read(descriptor, _MOST_BYTES)
    finally:
        os.close(descriptor)


def _by_walk() -> list[int]:
    return [child.pid for child in psutil.Process().children()] if sys.platform == "linux" else psutil.pids()


def mark_of(pid: int) -> str:
    """Return the marks that a process was started with; empty when its environment cannot be read."""
    try:
        return psutil.Process(pid).environ().get(MARK, "")
    except (psutil.Error, OSError):
        return ""
