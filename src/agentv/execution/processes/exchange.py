"""The bytes that go in and out of one command, and how long it may take."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeAlias

Listener: TypeAlias = Callable[[bytes], bool]
"""Takes standard output as it comes, and says whether the command may go on. It must be quick and not raise."""

STDERR_TAIL = 2_000
"""How many characters of standard error are kept, from its end."""

_CHUNK = 64 * 1024
_MOMENT_S = 0.01
"""When to begin to listen to a command: most rules and small programs are over by then, and cost less unwatched."""

_DRAIN_CHUNKS = 64
"""What a pipe can hold at most when its writer has exited; a grandchild that goes on writing is not listened to."""


class Exchange:
    """Three pipes to a command. `over` is done when it has exited, or is to be ended; `error` says why nobody listens.

    Who starts the command opens them: what waits for its turn holds nothing open. Until it has started they are that
    thread's, then the loop's. The pipes of a command that is over in a moment are never watched: what it wrote is read
    when it exits.
    """

    def __init__(self, unsent: bytes, nothing: int, max_output_bytes: int, listener: Listener | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.over: asyncio.Future[None] = self._loop.create_future()
        self.output = bytearray()
        self.errors = bytearray()
        self.too_large = False
        self.timed_out = False
        self.has_exited = False
        self.error: OSError | None = None
        self._limit = max_output_bytes
        self._take = listener or self._keep
        self._unsent = memoryview(unsent)
        self._nothing = nothing
        self._open: set[int] = set()
        self._theirs: set[int] = set()
        self._is_watching = False
        self._is_writing = False
        self._alarm: asyncio.TimerHandle | None = None
        self._to_stdin = self._from_stdout = self._from_stderr = -1

    def open(self) -> tuple[int, int, int]:
        """Open the pipes, return the command's ends: standard input (the null device when it gets none), output, error.

        Raises OSError when too many files are open.
        """
        self._from_stdout, stdout = self._pipe()
        self._from_stderr, stderr = self._pipe()
        return self._sender() if self._unsent else self._nothing, stdout, stderr

    def _pipe(self) -> tuple[int, int]:
        """Return our end, which never makes us wait, and theirs."""
        ours, theirs = os.pipe()
        self._open.add(ours)
        self._theirs.add(theirs)
        os.set_blocking(ours, False)
        return ours, theirs

    def _sender(self) -> int:
        theirs, self._to_stdin = os.pipe()
        self._open.add(self._to_stdin)
        self._theirs.add(theirs)
        os.set_blocking(self._to_stdin, False)
        return theirs

    def started(self) -> None:
        """Send what the pipe takes, and let go of the command's own ends: without that no pipe would ever end."""
        self._close_theirs()
        if self._to_stdin in self._open:
            self._write()
        if self._to_stdin in self._open:
            self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
        """Send the rest whenever the command has read some."""
        self._is_writing = True
        self._attend(self._loop.add_writer, self._to_stdin, self._write)

    def _attend(self, add: Callable[[int, Callable[[], object]], None], pipe: int, move: Callable[[], object]) -> None:
        if pipe not in self._open:
            return
        try:
            add(pipe, move)
        except OSError as error:  # the system watches as many files as it can
            self.error = error
            self.end()

    def begin(self, timeout_s: float | None, has_started: Callable[[], bool]) -> None:
        """Wait for the end: of the command, or of its time."""
        ends_at = None if timeout_s is None else self._loop.time() + timeout_s
        self._alarm = self._loop.call_later(_MOMENT_S, self._watch, ends_at, has_started)

    def _watch(self, ends_at: float | None, has_started: Callable[[], bool]) -> None:
        """Read what the command writes while it runs, until its time is over."""
        if not has_started():
            self._alarm = self._loop.call_later(_MOMENT_S, self._watch, ends_at, has_started)
            return
        self._is_watching = True
        self._attend(self._loop.add_reader, self._from_stdout, self._read_output)
        self._attend(self._loop.add_reader, self._from_stderr, self._read_errors)
        self._alarm = None if ends_at is None else self._loop.call_at(ends_at, self._time_out)

    def _time_out(self) -> None:
        self.timed_out = not self.over.done()
        self.end()

    def end(self) -> None:
        """Wait no longer; a command that still runs is to be ended."""
        if not self.over.done():
            self.over.set_result(None)

    def exited(self) -> None:
        """Take what is left in the pipes, and stop listening: a grandchild may hold them for ever."""
        self.has_exited = True
        for _ in range(_DRAIN_CHUNKS):
            if not (self._read_output() | self._read_errors()):
                break
        self.close()
        self.end()

    def _read(self, pipe: int) -> bytes:
        """Return what the pipe holds now, at most one chunk; at its end let go of it."""
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
        """Take what there is; return whether there may be more."""
        chunk = self._read(self._from_stdout)
        if chunk and not self._take(chunk):
            self.too_large = True
            self.end()
            self._close(self._from_stdout)
        return len(chunk) == _CHUNK

    def _keep(self, chunk: bytes) -> bool:
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
        except OSError:  # it does not read: not our concern
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

    def _close_theirs(self) -> None:
        for pipe in self._theirs:
            os.close(pipe)
        self._theirs.clear()

    def close(self) -> None:
        """Let go of everything."""
        if self._alarm is not None:
            self._alarm.cancel()
        self._close_theirs()
        for pipe in tuple(self._open):
            self._close(pipe)
