"""Run a command to its end, whatever it does: hang, flood, fork, close its pipes, or never read its input.

The event loop moves the bytes and waits on a pidfd, so no thread is needed. asyncio's own subprocess support is not
used: its wait lasts as long as any grandchild holds the pipe.
"""

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from typing import IO, TypeAlias

from agentv.execution.tree import finish, start_tree
from agentv.types.dataclass import dataclass

__all__ = ["MAX_OUTPUT_BYTES", "Command", "Listener", "Outcome", "run_process"]

Listener: TypeAlias = Callable[[bytes], bool]
"""Takes standard output as it comes, and says whether the command may go on. It must be quick and not raise."""

MAX_OUTPUT_BYTES = 10 * 2**20
STDERR_TAIL = 2_000
"""How many characters of standard error are kept, from its end."""

_CHUNK = 64 * 1024
_MOMENT_S = 0.01
"""When to begin to listen to a command: most rules and small programs are over by then, and cost less unwatched."""

_DRAIN_CHUNKS = 64
"""What a pipe can hold at most when its writer has exited; a grandchild that goes on writing is not listened to."""


@dataclass(frozen=True, slots=True)
class Command:
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


@dataclass(frozen=True, slots=True)
class Outcome:
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
    stdin = subprocess.PIPE if command.stdin else subprocess.DEVNULL
    tree = start_tree(command.words, cwd=command.cwd, env=command.env, stdin=stdin)
    exchange = _Exchange(tree.process, command.stdin, max_output_bytes, listener)
    exchange.begin(timeout_s)
    try:
        await exchange.over
    finally:
        try:
            if not tree.let_go():
                await finish(tree.end())
        finally:
            exchange.close()
    return Outcome(
        exit_code=None if exchange.timed_out or exchange.too_large else tree.process.returncode,
        stdout=bytes(exchange.stdout),
        stderr=exchange.stderr.decode(errors="replace")[-STDERR_TAIL:],
        timed_out=exchange.timed_out,
        too_large=exchange.too_large,
        duration_s=time.monotonic() - started,
    )


class _Exchange:
    """The bytes that go in and out of one running command. `over` is done when it exited, or is to be ended.

    The pipes of a command that is over in a moment are never watched: what it wrote is read when it exits.
    """

    def __init__(
        self, process: "subprocess.Popen[bytes]", stdin: bytes, max_output_bytes: int, listener: Listener | None
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self.stdout = bytearray()
        self.stderr = bytearray()
        self.too_large = False
        self.timed_out = False
        self._limit = max_output_bytes
        self._take = listener or self._keep
        self._process = process
        self._unsent = memoryview(stdin)
        self._open = {pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe is not None}
        self._is_watching = False
        self._alarm: asyncio.TimerHandle | None = None
        self._pidfd: int | None = None

    def begin(self, timeout_s: float | None) -> None:
        """Send what there is to send, and wait for the end: of the command, or of its time."""
        for pipe in self._open:
            os.set_blocking(pipe.fileno(), False)
        if self._process.stdin is not None:
            self._write(self._process.stdin)
            if self._process.stdin in self._open:
                self._loop.add_writer(self._process.stdin, self._write, self._process.stdin)
        self._pidfd = self._wait_for_exit()
        ends_at = None if timeout_s is None else self._loop.time() + timeout_s
        self._alarm = self._loop.call_later(_MOMENT_S, self._watch, ends_at)

    def _watch(self, ends_at: float | None) -> None:
        """Read what the command writes while it runs, until its time is over."""
        self._is_watching = True
        for pipe, react in ((self._process.stdout, self._read_stdout), (self._process.stderr, self._read_stderr)):
            if pipe in self._open:
                self._loop.add_reader(pipe, react)
        self._alarm = None if ends_at is None else self._loop.call_at(ends_at, self._time_out)

    def _time_out(self) -> None:
        self.timed_out = not self.over.done()
        self._end()

    def _end(self) -> None:
        if not self.over.done():
            self.over.set_result(None)

    def _wait_for_exit(self) -> int | None:
        """Arrange for `_exited` to be called: by a pidfd on Linux, elsewhere by a waiting thread."""
        try:
            pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):
            threading.Thread(target=self._wait_in_thread, daemon=True, name="agentv-wait").start()
            return None
        self._loop.add_reader(pidfd, self._exited)
        return pidfd

    def _wait_in_thread(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._exited)

    def _exited(self) -> None:
        """Take what is left in the pipes, and stop listening: a grandchild may hold them for ever."""
        for _ in range(_DRAIN_CHUNKS):
            if not (self._read_stdout() | self._read_stderr()):
                break
        self.close()
        self._end()

    def _read(self, pipe: IO[bytes] | None) -> bytes:
        """Return what the pipe holds now, at most one chunk; at its end let go of it."""
        if pipe is None or pipe not in self._open:
            return b""
        try:
            chunk = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            chunk = b""
        if not chunk:
            self._close(pipe)
        return chunk

    def _read_stdout(self) -> bool:
        chunk = self._read(self._process.stdout)
        if chunk and not self._take(chunk):
            self.too_large = True
            self._end()
            self._close(self._process.stdout)
        return bool(chunk)

    def _keep(self, chunk: bytes) -> bool:
        room = self._limit - len(self.stdout)
        self.stdout += chunk[:room]
        return len(chunk) <= room

    def _read_stderr(self) -> bool:
        chunk = self._read(self._process.stderr)
        self.stderr += chunk
        del self.stderr[: -4 * STDERR_TAIL]
        return bool(chunk)

    def _write(self, pipe: IO[bytes]) -> None:
        try:
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:  # it does not read: not our concern
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._close(pipe)

    def _close(self, pipe: IO[bytes] | None) -> None:
        if pipe is None or pipe not in self._open:
            return
        self._open.remove(pipe)
        if pipe is self._process.stdin:
            self._loop.remove_writer(pipe)
        elif self._is_watching:
            self._loop.remove_reader(pipe)
        pipe.close()

    def close(self) -> None:
        """Let go of everything."""
        if self._alarm is not None:
            self._alarm.cancel()
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        for pipe in tuple(self._open):
            self._close(pipe)
