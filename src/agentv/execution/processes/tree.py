"""The process tree of one command: start it, find all its members, end them, even if this process is killed.

A watcher process is started before the first command; this process reports to it, through a pipe, the start and end of
each command. The pipe closes however this process ends; the watcher then ends the commands that still run and removes
temporary folders (left_behind.py). A parent-death signal would not do: it is sent when the thread that started a
command ends.

A command may fork children that leave its process group and its session, and whose parents have exited. On Linux this
process becomes the subreaper while commands run, so that orphans become its children; they are identified by their
session or by a mark in their environment. Elsewhere all processes of the machine are searched for that session or
mark.
"""

import asyncio
import contextlib
import ctypes
import functools
import math
import os
import secrets
import select
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress

import psutil

from agentv.execution.forks import ProcessLock, call_in_forks
from agentv.execution.processes.left_behind import MARK
from agentv.execution.processes.live_trees import (
    KILL_S,
    LIVE,
    PAUSE_S,
    kill_until_gone,
    process_mark,
)

_START_WATCHER = 'exec 3<&0; "$0" "$@" <&3 3<&- &'
"""A shell's command that starts a program as no child of this process: Ray kills the children of one that it ends."""


class Watcher:
    """The watcher process and our end of its pipe. If it cannot be started, or dies, commands run without it."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._lock = ProcessLock()

    def start(self) -> None:
        """Start the watcher unless it runs."""
        with self._lock:
            if self._pipe is not None and not _is_closed(self._pipe):
                return
            self.close()
            with suppress(OSError):
                self._start()

    def add(self, pid: int) -> None:
        """Report the start of a command."""
        self._write(f"+{pid}")

    def remove(self, pid: int) -> None:
        """Report the end of a command, whose pid may be reused from then on."""
        self._write(f"-{pid}")

    def close(self) -> None:
        """Close our end of the pipe."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with suppress(OSError):
                os.close(pipe)

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        program = (sys.executable, "-I", "-m", "agentv.execution.processes.watcher_process", process_mark())
        try:
            subprocess.run(  # noqa: S603 - ours
                ("/bin/sh", "-c", _START_WATCHER, *program),
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
                check=False,
            )
        except OSError:
            self.close()
            raise
        finally:
            os.close(reading)
        for pid in tuple(LIVE):
            self._write(f"+{pid}")

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            with suppress(OSError):  # the watcher died
                os.write(self._pipe, f"{line}\n".encode())


def _is_closed(pipe: int) -> bool:
    """Return True if nothing reads from the pipe any more."""
    reader = select.poll()
    reader.register(pipe, 0)  # the end of the reader is always reported
    return bool(reader.poll(0))


WATCHER = Watcher()

call_in_forks(WATCHER.close)  # a copy of the pipe would hide the death of the parent


ZOMBIE_S = 10.0
"""Seconds for which an unclaimed zombie is not reaped, so that the host program can still read its exit code."""

_PR_SET_CHILD_SUBREAPER = 36
_PAGE = 4096
_LONGEST_PID = len("4194304 ")
_unclaimed: dict[int, float] = {}
_children: int | None = None
"""The Linux file that lists the children of the main thread, open while this process is the subreaper."""


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def adopt_orphans(adopt: bool) -> None:  # noqa: FBT001 - the one argument of the system call
    """Make this process adopt its orphaned descendants, or stop adopting them (Linux only)."""
    global _children  # noqa: PLW0603 - a property of the whole process
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
    """Return the pids that may be orphans: our own children on Linux, else every process.

    Linux assigns orphans to the main thread. The file that lists its children stays open, because it is read after
    every command.
    """
    if _children is None:
        return [child.pid for child in psutil.Process().children()] if sys.platform == "linux" else psutil.pids()
    text = part = os.pread(_children, _PAGE, 0)
    while len(part) >= _PAGE - _LONGEST_PID:  # so full that the next pid may not have fitted
        part = os.pread(_children, _PAGE, len(text))
        text += part
    return [int(pid) for pid in text.split()]


def marks_of(pid: int) -> str:
    """Return all marks in a process's environment, joined with slashes; empty if it cannot be read."""
    try:
        return psutil.Process(pid).environ().get(MARK, "")
    except (psutil.Error, OSError):
        return ""


def reap_unclaimed(now: float) -> None:
    """Reap zombie orphans that no tree can claim: a zombie has no readable environment.

    Children of the host program must not be reaped. Therefore a zombie is reaped only if it belongs to another session
    and was first seen more than `ZOMBIE_S` seconds before `now`.
    """
    dead = [pid for pid in possible_orphans() if pid not in LIVE and _is_foreign_zombie(pid)]
    for pid in _unclaimed.keys() - dead:
        del _unclaimed[pid]
    for pid in dead:
        if now - _unclaimed.setdefault(pid, now) > ZOMBIE_S:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _is_foreign_zombie(pid: int) -> bool:
    try:
        status = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        return status is not None and os.getsid(pid) != os.getsid(0)
    except OSError:
        return False


call_in_forks(_unclaimed.clear)


GRACE_S = 2.0
"""The time between SIGTERM and SIGKILL."""

REAP_INTERVAL_S = 1.0
"""The minimum time between two searches for zombies: many short commands need no search after each."""

_reaped_at = -math.inf
_running_marks: set[str] = set()
"""The marks of running and starting commands; while there are any, this process adopts orphans."""
call_in_forks(_running_marks.clear)

_lock = ProcessLock()


class ProcessTree:
    """A running command with all its descendants. `process` is the command, `mark` is in all their environments."""

    def __init__(self, process: "subprocess.Popen[bytes]", mark: str) -> None:
        self.process = process
        self.mark = mark
        self._known: set[psutil.Process] = set()

    async def end(self) -> None:
        """End all processes: SIGTERM, two seconds of grace, then SIGKILL until none is left or `KILL_S` is over.

        If this call is cancelled, SIGKILL is sent at once.
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
        """Release the tree of an exited command; return False if it left processes that must be ended."""
        if self._adopted():
            return False
        _forget(self)
        return True

    def _is_over(self) -> bool:
        return self._has_exited() and not self._adopted()

    def kill(self) -> bool:
        """Send SIGKILL to all living members; return True if there were none."""
        members = self._members()
        for member in members:
            _send(member, signal.SIGKILL)
        return not members

    def _has_exited(self) -> bool:
        """Return True if the command has exited. Except on macOS this does not reap it, so its pid is not reused."""
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
            return os.getsid(pid) == self.process.pid or self.mark in marks_of(pid)
        except OSError:
            return False

    def _members(self) -> set[psutil.Process]:
        """Return and remember all living members: a process once seen is found again in any session."""
        found: set[psutil.Process] = set()
        own = [self.process.pid] if self.process.returncode is None else []  # once reaped, its pid may be reused
        for pid in (*own, *self._adopted()):
            with contextlib.suppress(psutil.Error):
                self._known.add(psutil.Process(pid))
        for head in tuple(self._known):  # a copy: a signal handler may add members meanwhile
            with contextlib.suppress(psutil.Error):
                found.update({head, *head.children(recursive=True)})
        self._known = {process for process in found if self._is_alive(process)}
        return self._known

    def _is_alive(self, process: psutil.Process) -> bool:
        """Return True if the process runs; reap it if it is a zombie orphan of ours."""
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
    inherit: Collection[str] | None = None,
    stdin: int = subprocess.PIPE,
    stdout: int = subprocess.PIPE,
    stderr: int = subprocess.PIPE,
) -> ProcessTree:
    """Start a command in a session of its own. Thread-safe.

    `env` is added to our environment, or, if `inherit` is not None, to PATH and the variables that it names.
    `stdin`, `stdout` and `stderr` are as for Popen, with unbuffered pipes; no other file is inherited. Raises
    OSError if it cannot start, ValueError for a NUL byte.
    """
    mark = secrets.token_hex(8)
    added = {**(env or {}), MARK: f"{os.environ.get(MARK, '')}/{process_mark()}/{mark}"}
    WATCHER.start()  # before orphans are adopted: it must not become our child
    _add_running(mark)
    try:
        process = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose
            argv,
            cwd=cwd,
            env={
                **inherited_environment(inherit),
                **{os.fsencode(name): os.fsencode(value) for name, value in added.items()},
            },
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            bufsize=0,
            start_new_session=True,
        )
    except BaseException:
        _remove_running(mark)
        raise
    tree = ProcessTree(process, mark)
    LIVE[process.pid] = tree
    WATCHER.add(process.pid)
    return tree


def _add_running(mark: str) -> None:
    with _lock:
        if not _running_marks:
            adopt_orphans(True)
        _running_marks.add(mark)


def _remove_running(mark: str) -> None:
    with _lock:
        if mark in _running_marks:
            _running_marks.remove(mark)
            if not _running_marks:
                adopt_orphans(False)


def inherited_environment(inherit: Collection[str] | None) -> Mapping[bytes, bytes]:
    """Return our environment, or only PATH and the variables `inherit` if it is not None, encoded.

    The mapping in which Python stores the bytes is returned: it is copied much faster than `os.environ`, which decodes
    every item.
    """
    environment: Mapping[bytes, bytes] = getattr(os.environ, "_data", os.environb)
    if inherit is None:
        return environment
    names = {os.fsencode(name) for name in ("PATH", *inherit)}  # without PATH no program would be found
    return {name: value for name, value in environment.items() if name in names}


async def finish(work: Awaitable[None]) -> None:
    """Await `work` to its end even if cancelled meanwhile; the cancellation is raised afterwards."""
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
    while not is_done() and time.monotonic() < deadline:  # noqa: ASYNC110 - the exit of another process's child is not signalled
        await asyncio.sleep(PAUSE_S)


def _forget(tree: ProcessTree) -> None:
    """Reap an exited command; from then on its pid may be reused."""
    global _reaped_at  # noqa: PLW0603 - a property of the whole process
    now = time.monotonic()
    if sys.platform == "linux" and now - _reaped_at > REAP_INTERVAL_S:
        _reaped_at = now
        with _lock:
            reap_unclaimed(now)
    if LIVE.get(tree.process.pid) is tree:  # otherwise the pid is already reused
        del LIVE[tree.process.pid]
        WATCHER.remove(tree.process.pid)
    tree.process.poll()
    _remove_running(tree.mark)


def _send(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.Error):
        process.send_signal(number)
