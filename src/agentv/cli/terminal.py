"""What the terminal at the other end can show: its width, its characters, colour."""

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


_GONE = (errno.EPIPE, errno.EBADF)
_STDOUT, _STDERR = 1, 2


class _Descriptor(io.FileIO):
    """A stream's lower end. After the first failure, which it keeps, it takes everything and writes nothing."""

    error: OSError | None = None

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write, or drop what nobody can have any more."""
        if self.error is None:
            try:
                return super().write(data)
            except OSError as error:
                self.error = error
        return memoryview(data).nbytes


class StandardStream(io.TextIOWrapper):
    """A standard stream on a descriptor of its own, so that it can be kept when the number 1 is given to others."""

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

    @property
    def error(self) -> OSError | None:
        """What the first write that failed raised, once everything is written."""
        self.flush()
        return self._descriptor.error


def hold_streams() -> None:
    """Put streams that never raise in the place of Python's own; descriptors that are closed lead nowhere from now on.

    A stream that somebody has replaced already (a test, an embedding program) is left alone. An output that was closed
    cannot be written, as before, but no file that is opened later can take its number and get what is printed.
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


@contextmanager
def own_stdout() -> Iterator[TextIO]:
    """Yield standard output for us alone: until the end whatever else prints goes to standard error.

    That holds for Python's `print` and, when standard output is ours, for descriptor 1, which C code and child
    processes write to.
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


def reader_is_gone(stream: TextIO) -> OSError | None:
    """Return the error of a stream that nobody reads any more: a closed pipe, a closed descriptor."""
    error = stream.error if isinstance(stream, StandardStream) else None
    return error if error is not None and error.errno in _GONE else None


def loss(stream: TextIO) -> OSError | None:
    """Return the error of a stream that somebody waits for and that could not be written: a full disk."""
    error = stream.error if isinstance(stream, StandardStream) else None
    return error if error is not None and error.errno not in _GONE else None
