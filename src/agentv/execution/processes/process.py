"""Run a command to its end, even if it hangs, prints without end, forks, closes its pipes or never reads its input.

The event loop transfers the bytes and is notified of the exit; a thread only starts commands. asyncio's subprocess
support is not used because it waits as long as any grandchild holds a pipe open.
"""

import asyncio
import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from agentv.execution.forks import ProcessLock, call_in_forks
from agentv.execution.processes.live_trees import STARTING
from agentv.execution.processes.tree import ProcessTree, finish, inherited_environment, start_tree

Listener: TypeAlias = Callable[[bytes], bool]
"""Receives standard output in chunks and returns True if the command may continue. It must be fast and not raise."""

STDERR_TAIL = 2_000
"""The number of characters stored from the end of standard error."""

_CHUNK = 64 * 1024
_WATCH_DELAY_S = 0.01
"""The delay before the pipes of a command are watched. Most short commands have exited by then and need no watching."""

_DRAIN_CHUNKS = 64
"""The maximum number of chunks read after the command has exited; later output of a grandchild is not read."""


class CommandPipes:
    """Three pipes to a command. `done` is set when the command exits or must be ended, `error` if watching fails.

    The thread that starts the command opens the pipes, so that a queued command holds no descriptors. They belong to
    that thread until the command has started, then to the event loop. The pipes of a short command are never watched:
    its output is read when it exits.
    """

    def __init__(self, unsent: bytes, null_device: int, max_output_bytes: int, listener: Listener | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self.output = bytearray()
        self.errors = bytearray()
        self.too_large = False
        self.timed_out = False
        self.has_exited = False
        self.error: OSError | None = None
        self._limit = max_output_bytes
        self._accept_output = listener or self._store
        self._unsent = memoryview(unsent)
        self._null_device = null_device
        self._open: set[int] = set()
        self._child_ends: set[int] = set()
        self._is_watching = False
        self._is_writing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._to_stdin = self._from_stdout = self._from_stderr = -1

    def open(self) -> tuple[int, int, int]:
        """Open the pipes and return the command's ends: standard input, output and error.

        Standard input is the null device when there is nothing to send. Raises OSError when too many files are open.
        """
        self._from_stdout, stdout = self._pipe()
        self._from_stderr, stderr = self._pipe()
        return self._input_pipe() if self._unsent else self._null_device, stdout, stderr

    def _pipe(self) -> tuple[int, int]:
        """Return our end, which is non-blocking, and the command's end."""
        ours, theirs = os.pipe()
        self._open.add(ours)
        self._child_ends.add(theirs)
        os.set_blocking(ours, False)
        return ours, theirs

    def _input_pipe(self) -> int:
        theirs, self._to_stdin = os.pipe()
        self._open.add(self._to_stdin)
        self._child_ends.add(theirs)
        os.set_blocking(self._to_stdin, False)
        return theirs

    def send_input(self) -> None:
        """Send what the pipe accepts, and close our copies of the command's descriptors.

        While a copy is open, the command's pipes do not report end of file.
        """
        self._close_child_ends()
        if self._to_stdin in self._open:
            self._write()
        if self._to_stdin in self._open:
            self._loop.call_soon_threadsafe(self._send_rest)

    def _send_rest(self) -> None:
        """Send the rest whenever the pipe is writable."""
        self._is_writing = True
        self._watch_pipe(self._loop.add_writer, self._to_stdin, self._write)

    def _watch_pipe(
        self, add: Callable[[int, Callable[[], object]], None], pipe: int, move: Callable[[], object]
    ) -> None:
        if pipe not in self._open:
            return
        try:
            add(pipe, move)
        except OSError as error:  # the system cannot watch more files
            self.error = error
            self.stop_waiting()

    def start_timer(self, timeout_s: float | None, is_start_done: Callable[[], bool]) -> None:
        """Begin to read the output after `_WATCH_DELAY_S`, and set `timed_out` after `timeout_s`.

        Both wait until the start of the command has ended.
        """
        ends_at = None if timeout_s is None else self._loop.time() + timeout_s
        self._alarm = self._loop.call_later(_WATCH_DELAY_S, self._watch, ends_at, is_start_done)

    def _watch(self, ends_at: float | None, is_start_done: Callable[[], bool]) -> None:
        """Read the command's output while it runs, until its timeout."""
        if not is_start_done():
            self._alarm = self._loop.call_later(_WATCH_DELAY_S, self._watch, ends_at, is_start_done)
            return
        self._is_watching = True
        self._watch_pipe(self._loop.add_reader, self._from_stdout, self._read_output)
        self._watch_pipe(self._loop.add_reader, self._from_stderr, self._read_errors)
        self._alarm = None if ends_at is None else self._loop.call_at(ends_at, self._time_out)

    def _time_out(self) -> None:
        self.timed_out = not self.done.done()
        self.stop_waiting()

    def stop_waiting(self) -> None:
        """Stop waiting; a command that still runs must be ended by the caller."""
        if not self.done.done():
            self.done.set_result(None)

    def on_exit(self) -> None:
        """Read what is left in the pipes and close them: a grandchild may hold them open for ever."""
        self.has_exited = True
        for _ in range(_DRAIN_CHUNKS):
            if not (self._read_output() | self._read_errors()):
                break
        self.close()
        self.stop_waiting()

    def _read(self, pipe: int) -> bytes:
        """Return what the pipe holds now, at most one chunk; close it at its end."""
        if pipe not in self._open:
            return b""
        try:
            chunk = os.read(pipe, _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        if not chunk:
            self._close(pipe)
        return chunk

    def _read_output(self) -> bool:
        """Read one chunk; return True if there may be more."""
        chunk = self._read(self._from_stdout)
        if chunk and not self._accept_output(chunk):
            self.too_large = True
            self.stop_waiting()
            self._close(self._from_stdout)
        return len(chunk) == _CHUNK

    def _store(self, chunk: bytes) -> bool:
        room = self._limit - len(self.output)
        self.output += chunk[:room]
        return len(chunk) <= room

    def _read_errors(self) -> bool:
        chunk = self._read(self._from_stderr)
        if chunk:
            self.errors += chunk
            del self.errors[: -4 * STDERR_TAIL]
        return len(chunk) == _CHUNK

    def _write(self) -> None:
        try:
            self._unsent = self._unsent[os.write(self._to_stdin, self._unsent) :]
        except BlockingIOError:
            return
        except OSError:  # the command does not read its input, which is allowed
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(self._to_stdin)

    def _close(self, pipe: int) -> None:
        if pipe not in self._open:
            return
        self._open.remove(pipe)
        if pipe == self._to_stdin:
            if self._is_writing:
                self._loop.remove_writer(pipe)
        elif self._is_watching:
            self._loop.remove_reader(pipe)
        os.close(pipe)

    def _close_child_ends(self) -> None:
        for pipe in self._child_ends:
            os.close(pipe)
        self._child_ends.clear()

    def close(self) -> None:
        """Close all pipes."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._close_child_ends()
        for pipe in tuple(self._open):
            self._close(pipe)


class Launched:
    """A started program. `exit_code` is None while it runs, and -N if signal N ended it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.exit_code: int | None = None
        self._process = process
        threading.Thread(target=self._wait, daemon=True, name="agentv-launched").start()

    def _wait(self) -> None:
        self.exit_code = self._process.wait()


def launch(argv: Sequence[str], *, cwd: Path, log: Path, inherit: Sequence[str] | None = None) -> Launched:
    """Start a program in a session of its own and append its output to `log`. Raises OSError if it cannot start.

    `inherit` is as for `start_tree`.
    """
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - running the user's command is the purpose
            list(argv),
            cwd=cwd,
            env=inherited_environment(inherit),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Launched(process)


_by_loop: dict[asyncio.AbstractEventLoop, "ExitWatcher"] = {}


class Watched(Struct, frozen=True):
    """A command whose exit is awaited. Compared by identity, since the number of a closed pidfd may be reused."""

    pidfd: int
    on_exit: Callable[[], None]


class ExitWatcher:
    """Notifies one event loop of the exits of its commands. Holds no descriptors while there are no commands.

    `null_device` is a descriptor of the null device, for commands without input.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._commands = 0
        self._watched: dict[int, Watched] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self.null_device = os.open(os.devnull, os.O_RDWR)
        if self._epoll is not None:
            try:
                loop.add_reader(self._epoll.fileno(), self._report)
            except OSError:
                os.close(self.null_device)
                raise

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "ExitWatcher":
        """Return the instance of a loop and count one more command; call `release` when it has ended."""
        exit_watcher = _by_loop.get(loop)
        if exit_watcher is None:
            exit_watcher = _by_loop[loop] = cls(loop)
        exit_watcher._commands += 1
        return exit_watcher

    def release(self) -> None:
        """Count one command less; close the descriptors after the last one."""
        self._commands -= 1
        if self._commands:
            return
        _by_loop.pop(self._loop, None)
        os.close(self.null_device)
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def watch(self, process: "subprocess.Popen[bytes]", on_exit: Callable[[], None]) -> Watched | None:
        """Call `on_exit` in the loop when a process ends; return the argument for `forget`. Thread-safe.

        Without pidfd support a thread waits for the process.
        """
        if self._epoll is not None:
            with contextlib.suppress(AttributeError, OSError):  # no pidfd support, or no descriptor left
                return self._add(self._epoll, Watched(os.pidfd_open(process.pid), on_exit))
        threading.Thread(target=self._wait, args=(process, on_exit), daemon=True, name="agentv-wait").start()
        return None

    def _add(self, epoll: "select.epoll", watched: Watched) -> Watched:
        self._watched[watched.pidfd] = watched
        try:
            epoll.register(watched.pidfd, select.EPOLLIN)
        except (OSError, ValueError):  # ValueError: the epoll is closed
            del self._watched[watched.pidfd]
            os.close(watched.pidfd)
            raise
        return watched

    def forget(self, watched: Watched | None) -> None:
        """Stop waiting for the exit of a command, unless it was already reported."""
        if self._epoll is not None and watched is not None and self._watched.get(watched.pidfd) is watched:
            del self._watched[watched.pidfd]
            self._epoll.unregister(watched.pidfd)  # closing is not enough: a process just forked may hold a copy
            os.close(watched.pidfd)

    def _report(self) -> None:
        if self._epoll is not None:
            for pidfd, _ in self._epoll.poll(0):
                watched = self._watched.get(pidfd)
                if watched is None:  # forgotten after the poll
                    with contextlib.suppress(OSError):
                        self._epoll.unregister(pidfd)
                else:
                    self.forget(watched)
                    watched.on_exit()

    def _wait(self, process: "subprocess.Popen[bytes]", on_exit: Callable[[], None]) -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(on_exit)


call_in_forks(_by_loop.clear)


_start_queue: "queue.SimpleQueue[Start]" = queue.SimpleQueue()
_starter_threads: list[threading.Thread] = []
_lock = ProcessLock()


class Start:
    """The start of one command. `tree` is set once the command runs, `error` if it could not be started."""

    def __init__(self, command: "Command", *, pipes: CommandPipes, exit_watcher: ExitWatcher) -> None:
        self.tree: ProcessTree | None = None
        self.error: Exception | None = None
        self._command = command
        self._pipes = pipes
        self._exit_watcher = exit_watcher
        self._watched: Watched | None = None
        self._turn = threading.Lock()
        self._is_start_done = False
        self._loop = asyncio.get_running_loop()
        self._start_ended: asyncio.Future[None] | None = None

    def is_start_done(self) -> bool:
        """Return True once the start has succeeded, failed or been cancelled."""
        return self._is_start_done

    def begin(self) -> None:
        """Queue the command for the starter thread."""
        _ensure_thread()
        STARTING.add(self)
        _start_queue.put(self)

    def start(self) -> None:
        """Start the command; called in the starter thread. A success wakes the event loop only if `end` awaits it."""
        pipes = self._pipes
        if not self._take_turn():
            self._call_in_loop(pipes.stop_waiting)
            return
        try:
            stdin, stdout, stderr = pipes.open()
            command = self._command
            self.tree = start_tree(
                command.arguments,
                cwd=command.cwd,
                env=command.env,
                inherit=command.inherit,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
            pipes.send_input()
            self._watched = self._exit_watcher.watch(self.tree.process, pipes.on_exit)
        except Exception as error:  # noqa: BLE001 - the caller of the command handles every exception
            self.error = error
        self._is_start_done = True
        STARTING.discard(self)
        if self.error is not None:
            self._call_in_loop(pipes.stop_waiting)
        if self._start_ended is not None:
            self._call_in_loop(self._settle)

    def _take_turn(self) -> bool:
        """Return True on the first call only: either the thread starts the command, or the caller cancels the start."""
        return self._turn.acquire(blocking=False)

    def _cancel_start(self) -> bool:
        """Cancel the start unless it has begun; return True if no process was started and none will be."""
        if self._take_turn():
            self._is_start_done = True
            STARTING.discard(self)
        return self._is_start_done and self.tree is None

    def _call_in_loop(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            self._loop.call_soon_threadsafe(callback)

    def _settle(self) -> None:
        if self._start_ended is not None and not self._start_ended.done():
            self._start_ended.set_result(None)

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command; -N if signal N ended it, and -SIGKILL if it was never started."""
        return self.tree.process.returncode if self.tree is not None else -signal.SIGKILL

    def release(self) -> bool:
        """Release the command if it has exited without descendants; return False if processes must be ended."""
        if self.tree is None:
            return self._cancel_start()
        return self._is_start_done and self._pipes.has_exited and self.tree.release()

    async def end(self) -> None:
        """End all processes, as `ProcessTree.end` does; a start in progress is always awaited."""
        self._start_ended = self._loop.create_future()
        try:
            if not self._is_start_done:  # afterwards the thread no longer resolves the future
                await finish(self._start_ended)
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            if self.tree is not None:
                await self.tree.end()

    def kill(self) -> bool:
        """Send SIGKILL to all running processes; return True if none runs and none will be started."""
        return self._cancel_start() or (self.tree is not None and self.tree.kill())

    def close(self) -> None:
        """Stop waiting for the exit of the command."""
        self._exit_watcher.forget(self._watched)


def _start_all() -> None:
    while True:
        _start_queue.get().start()


def _ensure_thread() -> None:
    if _starter_threads:
        return
    with _lock:
        if not _starter_threads:
            thread = threading.Thread(target=_start_all, daemon=True, name="agentv-start")
            thread.start()
            _starter_threads.append(thread)


def _reset_after_fork() -> None:
    """After a fork, use a new thread and queue; the parent starts what is queued."""
    global _start_queue  # noqa: PLW0603 - a property of the whole process
    _start_queue = queue.SimpleQueue()
    _starter_threads.clear()


call_in_forks(_reset_after_fork)


MAX_OUTPUT_BYTES = 10 * 2**20


class Command(Struct, frozen=True):
    """A command. Exactly one of `argv` and `shell` is set."""

    argv: tuple[str, ...] = ()
    """Executed directly."""
    shell: str | None = None
    """A script for sh."""
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    """Added to our environment, or, if `inherit` is not None, to PATH and the variables that it names."""
    stdin: bytes = b""
    """Written while the command runs; a command need not read it."""
    inherit: tuple[str, ...] | None = None
    """The only variables that the command inherits besides PATH; None passes on all."""

    def __post_init__(self) -> None:
        """Raise ValueError unless exactly one of `argv` and `shell` is set."""
        if bool(self.argv) == (self.shell is not None):
            raise ValueError("a Command needs exactly one of argv and shell")

    @property
    def arguments(self) -> tuple[str, ...]:
        """The argument list that is executed."""
        return self.argv or ("/bin/sh", "-c", self.shell or "")


class Outcome(Struct, frozen=True):
    """The result of a command."""

    exit_code: int | None
    """None if agentv ended the command, and -N if signal N did."""
    stdout: bytes
    """Complete unless `too_large`; empty if a listener received it."""
    stderr: str
    """The last 2,000 characters, with invalid bytes replaced."""
    timed_out: bool = False
    too_large: bool = False
    duration_s: float = 0.0


async def run_process(
    command: Command,
    *,
    timeout_s: float | None,
    max_output_bytes: int = MAX_OUTPUT_BYTES,
    listener: Listener | None = None,
) -> Outcome:
    """Run a command in a session of its own and return its outcome; none of its descendants outlives the call.

    A `listener` receives standard output in chunks while the command runs, and decides instead of `max_output_bytes`
    what is too large. After `timeout_s`, after `max_output_bytes` of standard output, and on cancellation the whole
    process tree gets SIGTERM and two seconds later SIGKILL; so do background processes of a successful command. Raises
    OSError if it cannot start (no such program or folder, arguments too long), ValueError if an argument contains NUL.
    """
    started = time.monotonic()
    exit_watcher = ExitWatcher.of(asyncio.get_running_loop())
    try:
        pipes = CommandPipes(command.stdin, exit_watcher.null_device, max_output_bytes, listener)
        start = Start(command, pipes=pipes, exit_watcher=exit_watcher)
        try:
            pipes.start_timer(timeout_s, start.is_start_done)
            start.begin()
            await pipes.done
        finally:
            try:
                if not start.release():
                    await finish(start.end())
            finally:
                start.close()
                pipes.close()
    finally:
        exit_watcher.release()
    error = start.error or pipes.error
    if error is not None:
        raise error
    return Outcome(
        exit_code=None if pipes.timed_out or pipes.too_large else start.exit_code,
        stdout=bytes(pipes.output),
        stderr=pipes.errors.decode(errors="replace")[-STDERR_TAIL:],
        timed_out=pipes.timed_out,
        too_large=pipes.too_large,
        duration_s=time.monotonic() - started,
    )
