"""Whose children are whose: the operating system's side of telling a command's family apart."""

import contextlib
import ctypes
import functools
import os
import sys

import psutil

from agentv.execution.live_trees import LIVE

MARK = "AGENTV_COMMAND"
"""The environment variable that tells a command's descendants; nested commands append to it."""

ZOMBIE_S = 10.0
"""How long a dead process that nobody claims is left to whoever may still ask for its exit code."""

_PR_SET_CHILD_SUBREAPER = 36
_PAGE = 4096
_LONGEST_PID = len("4194304 ")
_unclaimed: dict[int, float] = {}
_children: int | None = None
"""Where Linux lists the children of our first thread, open while it gives us orphans."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def adopt_orphans(adopt: bool) -> None:  # noqa: FBT001 - the one argument of the system call
    """Ask Linux to make us the parent of our descendants' orphans, or stop it."""
    global _children  # noqa: PLW0603 - what the system keeps of this process as a whole
    if sys.platform != "linux":
        return
    _libc().prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(adopt), 0, 0, 0)
    if _children is not None:
        os.close(_children)
        _children = None
    if adopt:
        with contextlib.suppress(OSError):  # a kernel without that file
            _children = os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)


def possible_orphans() -> list[int]:
    """Return the pids among which orphans are: our own children on Linux, else every process.

    Linux gives orphans to the first thread. Looked for after every command, so that the list stays open.
    """
    if _children is None:
        return [child.pid for child in psutil.Process().children()] if sys.platform == "linux" else psutil.pids()
    text = part = os.pread(_children, _PAGE, 0)
    while len(part) >= _PAGE - _LONGEST_PID:  # what comes next did not fit: a page is never filled to its last byte
        part = os.pread(_children, _PAGE, len(text))
        text += part
    return [int(pid) for pid in text.split()]


def mark_of(pid: int) -> str:
    """Return the marks that a process was started with; empty when its environment cannot be read."""
    try:
        return psutil.Process(pid).environ().get(MARK, "")
    except (psutil.Error, OSError):
        return ""


def reap_unclaimed(now: float) -> None:
    """Reap dead orphans that no tree can claim: a dead process does not show its environment any more.

    They are told from the host program's own children by their session, and by nobody having asked for them since an
    earlier call, `ZOMBIE_S` seconds before `now`.
    """
    dead = [pid for pid in possible_orphans() if pid not in LIVE and _is_dead_stranger(pid)]
    for pid in _unclaimed.keys() - dead:
        del _unclaimed[pid]
    for pid in dead:
        if now - _unclaimed.setdefault(pid, now) > ZOMBIE_S:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _is_dead_stranger(pid: int) -> bool:
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return status is not None and os.getsid(pid) != os.getsid(0)
    except OSError:
        return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unclaimed.clear)
