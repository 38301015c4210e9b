"""Run a command to its end, whatever it does: hang, flood, fork, close its pipes, or never read its input.

The event loop moves the bytes and hears of the end; a thread does nothing but start commands. asyncio's own subprocess
support is not used: its wait lasts as long as any grandchild holds the pipe.
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

from msgspec import Struct

from agentv.execution.processes.exchange import STDERR_TAIL, Exchange, Listener
from agentv.execution.processes.live_trees import STARTING
from agentv.execution.processes.tree import ProcessTree, finish, start_tree


class Launched:
    """A program that was started. `exit_code` is None as long as it runs; -N when signal N ended it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.exit_code: int | None = None
        self._process = process
        threading.Thread(target=self._wait, daemon=True, name="agentv-launched").start()

    def _wait(self) -> None:
        self.exit_code = self._process.wait()


def launch(argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> Launched:
    """Start a program in a session of its own; what it prints is added to `log`. Raises OSError when it cannot be."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - running what the user wrote is the job
            list(argv),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Launched(process)


_by_loop: dict[asyncio.AbstractEventLoop, "Exits"] = {}


class Watched(Struct, frozen=True):
    """A command whose end is waited for; the number of its pidfd is another's when it is closed."""

    pidfd: int
    exited: Callable[[], None]


class Exits:
    """The commands of one event loop. Nothing is held open while there are none.

    `nothing` is a descriptor of the null device, for commands that get no input.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._commands = 0
        self._watched: dict[int, Watched] = {}
        self._epoll = select.epoll() if sys.platform == "linux" else None
        self.nothing = os.open(os.devnull, os.O_RDWR)
        if self._epoll is not None:
            try:
                loop.add_reader(self._epoll.fileno(), self._report)
            except OSError:
                os.close(self.nothing)
                raise

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> "Exits":
        """Return the loop's own, for one command more; give it back with `leave`."""
        exits = _by_loop.get(loop)
        if exits is None:
            exits = _by_loop[loop] = cls(loop)
        exits._commands += 1
        return exits

    def leave(self) -> None:
        """Say that one of the commands is over and done with."""
        self._commands -= 1
        if self._commands:
            return
        _by_loop.pop(self._loop, None)
        os.close(self.nothing)
        if self._epoll is not None:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def watch(self, process: "subprocess.Popen[bytes]", exited: Callable[[], None]) -> Watched | None:
        """Have `exited` called in the loop when a process is over, and return what to `forget`; from any thread.

        Where there is no pidfd, a thread waits for the process.
        """
        if self._epoll is not None:
            with contextlib.suppress(AttributeError, OSError):  # a Python or kernel without, or no descriptor left
                return self._add(self._epoll, Watched(os.pidfd_open(process.pid), exited))
        threading.Thread(target=self._wait, args=(process, exited), daemon=True, name="agentv-wait").start()
        return None

    def _add(self, epoll: "select.epoll", watched: Watched) -> Watched:
        self._watched[watched.pidfd] = watched
        try:
            epoll.register(watched.pidfd, select.EPOLLIN)
        except (OSError, ValueError):  # ValueError: there is no epoll any more
            del self._watched[watched.pidfd]
            os.close(watched.pidfd)
            raise
        return watched

    def forget(self, watched: Watched | None) -> None:
        """Wait no more for the end of a command, unless it has been told."""
        if self._epoll is not None and watched is not None and self._watched.get(watched.pidfd) is watched:
            del self._watched[watched.pidfd]
            self._epoll.unregister(watched.pidfd)  # to close it is not enough: a command that starts now has a copy
            os.close(watched.pidfd)

    def _report(self) -> None:
        if self._epoll is not None:
            for pidfd, _ in self._epoll.poll(0):
                watched = self._watched.get(pidfd)
                if watched is None:
                    with contextlib.suppress(OSError):
                        self._epoll.unregister(pidfd)
                else:
                    self.forget(watched)
                    watched.exited()

    def _wait(self, process: "subprocess.Popen[bytes]", exited: Callable[[], None]) -> None:
        process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(exited)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_by_loop.clear)


_queue: "queue.SimpleQueue[Start]" = queue.SimpleQueue()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


class Start:
    """A command on its way. `tree` is there once it runs; `error` when it could not be started."""

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        exchange: Exchange,
        exits: Exits,
    ) -> None:
        self.tree: ProcessTree | None = None
        self.error: Exception | None = None
        self._words, self._cwd, self._env = words, cwd, env
        self._exchange = exchange
        self._exits = exits
        self._watched: Watched | None = None
        self._turn = threading.Lock()
        self._is_done = False
        self._loop = asyncio.get_running_loop()
        self._done: asyncio.Future[None] | None = None

    def is_done(self) -> bool:
        """Whether it runs, has run, could not be started, or never will be."""
        return self._is_done

    def begin(self) -> None:
        """Have it started."""
        _have_a_thread()
        STARTING.add(self)
        _queue.put(self)

    def start(self) -> None:
        """Start it now; in the thread. The loop hears of its end, of nothing before."""
        pipes = self._exchange
        if not self._take_turn():
            self._tell(pipes.end)
            return
        try:
            stdin, stdout, stderr = pipes.open()
            self.tree = start_tree(self._words, cwd=self._cwd, env=self._env, stdin=stdin, stdout=stdout, stderr=stderr)
            pipes.started()
            self._watched = self._exits.watch(self.tree.process, pipes.exited)
        except Exception as error:  # noqa: BLE001 - whatever it is belongs to who asked for the command
            self.error = error
        self._is_done = True
        STARTING.discard(self)
        if self.error is not None:
            self._tell(pipes.end)
        if self._done is not None:
            self._tell(self._settle)

    def _take_turn(self) -> bool:
        """Whether nobody did before: the thread, which starts it then, or who gives it up, so that nobody does."""
        return self._turn.acquire(blocking=False)

    def _give_up(self) -> bool:
        """Have it never started; False when it is too late for that."""
        if self._take_turn():
            self._is_done = True
            STARTING.discard(self)
        return self._is_done and self.tree is None

    def _tell(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what)

    def _settle(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_result(None)

    @property
    def exit_code(self) -> int | None:
        """How the command ended; -N when signal N did it, or would have, had it not been given up before."""
        return self.tree.process.returncode if self.tree is not None else -signal.SIGKILL

    def release(self) -> bool:
        """Forget the command when it is over and left nobody behind; False when there is somebody to end."""
        if self.tree is None:
            return self._give_up()
        return self._is_done and self._exchange.has_exited and self.tree.release()

    async def end(self) -> None:
        """Leave nobody behind, as `ProcessTree.end` does; what is being started is waited for, come what may."""
        self._done = self._loop.create_future()
        try:
            if not self._is_done:  # if it is by now, nobody might tell
                await finish(self._done)
        except asyncio.CancelledError:
            self.kill()
            raise
        finally:
            if self.tree is not None:
                await self.tree.end()

    def kill(self) -> bool:
        """Send SIGKILL to whoever runs by now; True when nobody does, and nobody is about to."""
        return self._give_up() or (self.tree is not None and self.tree.kill())

    def close(self) -> None:
        """Wait for its end no more."""
        self._exits.forget(self._watched)


def _start_all() -> None:
    while True:
        _queue.get().start()


def _have_a_thread() -> None:
    if _threads:
        return
    with _lock:
        if not _threads:
            thread = threading.Thread(target=_start_all, daemon=True, name="agentv-start")
            thread.start()
            _threads.append(thread)


def _start_afresh() -> None:
    """Have a thread of our own, and leave what is in the queue to the process that we are a copy of."""
    global _queue, _lock
    _queue, _lock = queue.SimpleQueue(), threading.Lock()
    _threads.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)


__all__ = ["MAX_OUTPUT_BYTES", "STDERR_TAIL", "Command", "Listener", "Outcome", "run_process"]

MAX_OUTPUT_BYTES = 10 * 2**20


class Command(Struct, frozen=True):
    """What to run: `argv` directly, or `shell` as a text for sh; exactly one of the two.

    `env` is added to our environment. `stdin` is written while the command runs; one that never reads it is fine.
    """

    argv: tuple[str, ...] = ()
    shell: str | None = None
    cwd: str | None = None
    env: Mapping[str, str] | None = None
    stdin: bytes = b""

    def __post_init__(self) -> None:
        """Refuse a command with no program, or with two."""
        if bool(self.argv) == (self.shell is not None):
            raise ValueError("a Command has either argv or shell")

    @property
    def words(self) -> tuple[str, ...]:
        """The argument list that is executed."""
        return self.argv or ("/bin/sh", "-c", self.shell or "")


class Outcome(Struct, frozen=True):
    """How a command ended. `exit_code` is None when we ended it; -N when signal N did.

    `stdout` is whole unless `too_large`, and empty when a listener took it. `stderr` holds its last 2,000 characters,
    bad bytes replaced.
    """

    exit_code: int | None
    stdout: bytes
    stderr: str
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
    """Run a command in a session of its own and return how it ended; none of its descendants outlives the call.

    A `listener` gets standard output chunk by chunk while the command runs, and decides instead of `max_output_bytes`
    what is too large. Past `timeout_s`, past `max_output_bytes` of standard output, and on cancellation the whole tree
    gets SIGTERM, after two seconds SIGKILL; what a successful command left in the background likewise. Raises OSError
    when it cannot be started (no such program or folder, arguments too long), ValueError when an argument holds a NUL.
    """
    started = time.monotonic()
    exits = Exits.of(asyncio.get_running_loop())
    try:
        exchange = Exchange(command.stdin, exits.nothing, max_output_bytes, listener)
        start = Start(command.words, cwd=command.cwd, env=command.env, exchange=exchange, exits=exits)
        try:
            exchange.begin(timeout_s, start.is_done)
            start.begin()
            await exchange.over
        finally:
            try:
                if not start.release():
                    await finish(start.end())
            finally:
                start.close()
                exchange.close()
    finally:
        exits.leave()
    error = start.error or exchange.error
    if error is not None:
        raise error
    return Outcome(
        exit_code=None if exchange.timed_out or exchange.too_large else start.exit_code,
        stdout=bytes(exchange.output),
        stderr=exchange.errors.decode(errors="replace")[-STDERR_TAIL:],
        timed_out=exchange.timed_out,
        too_large=exchange.too_large,
        duration_s=time.monotonic() - started,
    )
