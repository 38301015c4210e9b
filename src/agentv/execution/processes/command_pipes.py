"""Standard input, output and error of one command, and its timeout."""

import asyncio
import os
from collections.abc import Callable
from typing import TypeAlias

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
    """Three pipes to a command. `done` is set when it has exited or must be ended; `error` is set if watching fails.

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
        self._take = listener or self._store
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
        return self._sender() if self._unsent else self._null_device, stdout, stderr

    def _pipe(self) -> tuple[int, int]:
        """Return our end, which is non-blocking, and the command's end."""
        ours, theirs = os.pipe()
        self._open.add(ours)
        self._child_ends.add(theirs)
        os.set_blocking(ours, False)
        return ours, theirs

    def _sender(self) -> int:
        theirs, self._to_stdin = os.pipe()
        self._open.add(self._to_stdin)
        self._child_ends.add(theirs)
        os.set_blocking(self._to_stdin, False)
        return theirs

    def send_input(self) -> None:
        """Send what the pipe accepts, and close our copies of the command's descriptors.

        Otherwise its pipes would never report end of file.
        """
        self._close_child_ends()
        if self._to_stdin in self._open:
            self._write()
        if self._to_stdin in self._open:
            self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
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

    def start_timer(self, timeout_s: float | None, is_started: Callable[[], bool]) -> None:
        """Start the timer that gives up on the command after `timeout_s`."""
        ends_at = None if timeout_s is None else self._loop.time() + timeout_s
        self._alarm = self._loop.call_later(_WATCH_DELAY_S, self._watch, ends_at, is_started)

    def _watch(self, ends_at: float | None, is_started: Callable[[], bool]) -> None:
        """Read the command's output while it runs, until its timeout."""
        if not is_started():
            self._alarm = self._loop.call_later(_WATCH_DELAY_S, self._watch, ends_at, is_started)
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

    def exited(self) -> None:
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
        if chunk and not self._take(chunk):
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
