"""Standard streams that never raise, and standard output reserved for a command's own output."""

import errno
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, cast

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

    from agentv.reports.text.printable import CommandGuard

_CI_RUNNER_VARIABLES = {"GITHUB_ACTIONS", "TF_BUILD", "TEAMCITY_VERSION"}
"""Environment variables of CI runners. The module with `CommandGuard` is imported only if one of them is set."""

_CLOSED_ERRNOS = (errno.EPIPE, errno.EBADF)
_STDOUT, _STDERR = 1, 2


def terminal_columns() -> int:
    """Return the width of the terminal in columns, 80 if it is unknown."""
    from shutil import get_terminal_size  # also loads three compressors

    return get_terminal_size().columns


class _Descriptor(io.FileIO):
    """The raw file of a stream. It stores the first write error and discards all data from then on."""

    error: OSError | None = None

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write the data, or discard it after an earlier write failed."""
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


class StandardStream(io.TextIOWrapper):
    """A standard stream on its own descriptor, so that it still works while descriptors 1 and 2 are redirected.

    Encoding, error handler and buffering are those of `like`.
    """

    guard: "CommandGuard | None" = None
    """Escapes commands to a CI runner in the text."""

    def __init__(self, number: int, like: TextIO | None) -> None:
        self._descriptor = _Descriptor(os.dup(number), "w")
        given = like if isinstance(like, io.TextIOWrapper) else None
        super().__init__(
            io.BufferedWriter(self._descriptor),
            encoding=given.encoding if given else "utf-8",
            errors=given.errors if given else "backslashreplace",
            line_buffering=given.line_buffering if given else False,
            write_through=given.write_through if given else False,
        )

    def write(self, text: str, /) -> int:
        """Write text; the guard, if there is one, escapes commands in it."""
        super().write(text if self.guard is None else self.guard.escape(text))
        return len(text)

    def write_command(self, text: str) -> int:
        """Write whole lines that may contain commands to a CI runner."""
        return super().write(text)

    @property
    def error(self) -> OSError | None:
        """The error of the first failed write, after flushing; None if every write succeeded."""
        self.flush()
        return self._descriptor.error


def hold_streams() -> None:
    """Replace standard output and standard error with streams that never raise.

    A stream that a test or an embedding program has already replaced is not changed. A standard descriptor that is
    closed is opened on /dev/null, so that no file opened later can take its number and receive what is printed. Closed
    standard output is opened for reading, so that writing to it still fails; what is written to closed standard error
    is discarded.
    """
    for number in range(_STDERR + 1):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_WRONLY if number == _STDERR else os.O_RDONLY)
    if sys.stdout is sys.__stdout__:
        sys.stdout = StandardStream(_STDOUT, sys.__stdout__)
    if sys.stderr is sys.__stderr__:
        sys.stderr = StandardStream(_STDERR, sys.__stderr__)


class GuardedText:
    """A stream of an embedding program whose `write` escapes commands; other attributes are those of the stream."""

    def __init__(self, stream: TextIO, guard: "CommandGuard") -> None:
        self._stream = stream
        self._guard = guard

    def __getattr__(self, name: str) -> object:
        """Return the attribute of the stream."""
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        """Write text with commands escaped."""
        self._stream.write(self._guard.escape(text))
        return len(text)

    def write_command(self, text: str) -> int:
        """Write whole lines that may contain commands to a CI runner."""
        return self._stream.write(text)


class CommandText:
    """A wrapper that bypasses the guard of a stream, for agentv's own commands and for text that is already escaped."""

    def __init__(self, stream: StandardStream | GuardedText) -> None:
        self._stream = stream
        self.write = stream.write_command

    def __getattr__(self, name: str) -> object:
        """Return the attribute of the stream."""
        return getattr(self._stream, name)


def command_stream(stream: TextIO) -> TextIO:
    """Return a stream that does not escape commands to a CI runner; the caller must escape them in untrusted text."""
    guarded: object = stream
    return cast(TextIO, CommandText(guarded)) if isinstance(guarded, StandardStream | GuardedText) else stream


@contextmanager
def guarded_streams(env: Mapping[str, str]) -> Iterator[None]:
    """Escape commands in everything that is printed if a CI runner parses the log for commands."""
    if not _CI_RUNNER_VARIABLES & env.keys():
        yield
        return
    from agentv.reports.text.printable import CommandGuard, runner_parses_log

    given = sys.stdout, sys.stderr
    try:
        if runner_parses_log(env):
            sys.stdout, sys.stderr = (_guarded(stream, CommandGuard()) for stream in given)
        yield
    finally:
        sys.stdout, sys.stderr = given


def _guarded(stream: TextIO, guard: "CommandGuard") -> TextIO:
    if isinstance(stream, StandardStream):
        stream.guard = guard
        return stream
    return cast(TextIO, GuardedText(stream, guard))


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Yield standard output for agentv alone; until the end, all other output goes to standard error.

    This covers Python's `print` and, after `hold_streams`, descriptor 1, which C code and child processes write to.
    """
    stdout = sys.stdout
    is_held = isinstance(stdout, StandardStream)
    sys.stdout = sys.stderr
    if is_held:
        os.dup2(_STDERR, _STDOUT)
    try:
        yield stdout
    finally:
        sys.stdout = stdout
        if is_held:
            os.dup2(stdout.fileno(), _STDOUT)


def broken_pipe_error(stream: TextIO) -> OSError | None:
    """Return the write error of a stream whose pipe or descriptor is closed; None otherwise."""
    error = stream.error if isinstance(stream, StandardStream) else None
    return error if error is not None and error.errno in _CLOSED_ERRNOS else None


def unexpected_write_error(stream: TextIO) -> OSError | None:
    """Return a stream's write error, such as a full disk; None without one, or if its pipe or descriptor is closed."""
    error = stream.error if isinstance(stream, StandardStream) else None
    return error if error is not None and error.errno not in _CLOSED_ERRNOS else None


def user_name() -> str:
    """Return the name of the user; empty where the system has none."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
