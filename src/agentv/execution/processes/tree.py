"""One command's whole family of processes: started, found wherever its members hide, and ended.

A command may fork children that leave its process group and its session, and whose parents have exited. On Linux we
are made the reaper of orphans while commands run, so whoever is left behind becomes our child, and is told apart by
its session or by a mark in its environment. Elsewhere all processes of the machine are looked through for the same two.
"""

import asyncio
import atexit
import contextlib
import ctypes
import functools
import math
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence

import psutil

from agentv.execution.processes.live_trees import KILL_S, LIVE, PAUSE_S, _forget_our_parents, kill_all, kill_until_gone

atexit.register(kill_all)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_our_parents)


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


GRACE_S = 2.0
"""How long a tree may take to leave after SIGTERM, before SIGKILL."""

LOOK_S = 1.0
"""How long to wait between two looks for dead processes: many short commands need not look after each."""

_looked_at = -math.inf
_running: set[str] = set()
"""The marks of the commands that run or are about to; as long as there are any, orphans are ours."""

_lock = threading.Lock()


class ProcessTree:
    """A running command and all its descendants. `process` is the command itself, `mark` is in their environments."""

    def __init__(self, process: "subprocess.Popen[bytes]", mark: str) -> None:
        self.process = process
        self.mark = mark
        self._known: set[psutil.Process] = set()

    async def end(self) -> None:
        """Leave nobody behind: SIGTERM to all, two seconds of grace, then SIGKILL until no one is left.

        When this itself is cancelled, SIGKILL comes at once.
        """
        try:
            if self._is_over():
                return
            for member in self._members():
                _send(member, signal.SIGTERM)
            await _poll(lambda: not self._members(), for_s=GRACE_S)
            await _poll(self.kill, for_s=KILL_S)
        except asyncio.CancelledError:
            kill_until_gone([self])
            raise
        finally:
            _forget(self)

    def release(self) -> bool:
        """Forget the tree of a command that has exited; False when it left somebody behind, who is to be ended."""
        if self._adopted():
            return False
        _forget(self)
        return True

    def _is_over(self) -> bool:
        return self._has_exited() and not self._adopted()

    def kill(self) -> bool:
        """Send SIGKILL to everyone who is alive; True when there was nobody."""
        members = self._members()
        for member in members:
            _send(member, signal.SIGKILL)
        return not members

    def _has_exited(self) -> bool:
        """Whether the command itself is over. It stays unreaped till the end, so that its pid names nobody else."""
        if self.process.returncode is not None:
            return True
        if sys.platform == "darwin":
            return self.process.poll() is not None
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        try:
            return os.waitid(os.P_PID, self.process.pid, flags) is not None
        except ChildProcessError:
            return True

    def _adopted(self) -> list[int]:
        """Return the pids of this tree's orphans."""
        return [pid for pid in possible_orphans() if pid not in LIVE and self._owns(pid)]

    def _owns(self, pid: int) -> bool:
        try:
            return os.getsid(pid) == self.process.pid or self.mark in mark_of(pid)
        except OSError:
            return False

    def _members(self) -> set[psutil.Process]:
        """Return everyone who is alive, and remember them: who is seen once is found again wherever it goes."""
        found: set[psutil.Process] = set()
        own = [self.process.pid] if self.process.returncode is None else []  # reaped, its number may be another's
        for pid in (*own, *self._adopted()):
            with contextlib.suppress(psutil.Error):
                self._known.add(psutil.Process(pid))
        for head in self._known - found:
            with contextlib.suppress(psutil.Error):
                found.update({head, *head.children(recursive=True)})
        self._known = {process for process in found if self._is_alive(process)}
        return self._known

    def _is_alive(self, process: psutil.Process) -> bool:
        """Whether it still runs; a dead orphan of ours is reaped on the way."""
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                return True
            if process.pid != self.process.pid and process.ppid() == os.getpid():
                os.waitpid(process.pid, os.WNOHANG)
        except (psutil.Error, OSError):
            pass
        return False


def start_tree(
    argv: Sequence[str],
    *,
    cwd: str | None,
    env: Mapping[str, str] | None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> ProcessTree:
    """Start a command in a session of its own; from any thread.

    `env` is added to our environment; `stdin`, `stdout` and `stderr` are as for Popen, whose pipes are unbuffered; no
    other file is inherited. Raises OSError (or ValueError for a NUL byte) when it cannot be started.
    """
    mark = secrets.token_hex(8)
    added = {**(env or {}), MARK: f"{os.environ.get(MARK, '')}/{mark}"}
    _enter(mark)
    try:
        process = subprocess.Popen(  # noqa: S603 - running what the user wrote is the job
            argv,
            cwd=cwd,
            env={**_environment(), **{os.fsencode(name): os.fsencode(value) for name, value in added.items()}},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
    except BaseException:
        _leave(mark)
        raise
    tree = ProcessTree(process, mark)
    LIVE[process.pid] = tree
    return tree


def _enter(mark: str) -> None:
    with _lock:
        if not _running:
            adopt_orphans(True)
        _running.add(mark)


def _leave(mark: str) -> None:
    with _lock:
        if mark in _running:
            _running.remove(mark)
            if not _running:
                adopt_orphans(False)


def _environment() -> Mapping[bytes, bytes]:
    """Return our environment as Python keeps it: to copy it by its items takes as long as to start a process."""
    known: Mapping[bytes, bytes] = getattr(os.environ, "_data", os.environb)
    return known


async def finish(work: Awaitable[None]) -> None:
    """Await `work` to its end even if we are cancelled meanwhile; the cancellation is raised afterwards."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    task.result()


async def _poll(is_done: Callable[[], bool], *, for_s: float) -> None:
    deadline = time.monotonic() + for_s
    while not is_done() and time.monotonic() < deadline:  # noqa: ASYNC110 - strangers' children announce their end to nobody
        await asyncio.sleep(PAUSE_S)


def _forget(tree: ProcessTree) -> None:
    """Reap a command that is over; only then may its number be another's."""
    global _looked_at  # noqa: PLW0603 - of this process as a whole
    now = time.monotonic()
    if sys.platform == "linux" and now - _looked_at > LOOK_S:
        _looked_at = now
        with _lock:
            reap_unclaimed(now)
    if LIVE.get(tree.process.pid) is tree:  # else it is another's number already
        del LIVE[tree.process.pid]
    tree.process.poll()
    _leave(tree.mark)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)


def _start_afresh() -> None:
    global _lock  # noqa: PLW0603 - a thread that we have not may hold it
    _lock = threading.Lock()
    _running.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
