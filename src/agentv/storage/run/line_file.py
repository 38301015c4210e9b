"""One append-only file of lines: whole lines or nothing, numbered, with a torn end cut off."""

import ctypes
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeVar

from msgspec.structs import force_setattr, replace

from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult

_CHUNK = 1 << 20


def open_own(path: Path, flags: int) -> int:
    """Open a file of a run to write it, for its owner alone. Raises OSError for a link, a pipe, and the like.

    A link would let a file elsewhere be written and cut.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "this is a symbolic link, and a run's files are its own", str(path)) from error
        raise
    return _checked(descriptor, path)


def open_lines(path: Path) -> BinaryIO:
    """Open a file of a run to read it. Raises OSError for a pipe, which would be waited for without an end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return os.fdopen(_checked(descriptor, path), "rb", buffering=_CHUNK)


def _checked(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "this is no regular file", str(path))


_COPIED_BYTES = 1 << 20
_LARGE = 1 << 30

_write = ctypes.PyDLL(None).write
"""`write` of the C library: `os.write` without letting other threads run meanwhile. Returns -1 where that raises.

The page cache takes a line in a microsecond. To let go of the interpreter for that long wakes the thread that syncs
each time, for nothing: it comes too late, over and over, so that it hardly ever syncs and a run takes a fifth more.
A length is given as a C `int`, which is right for all but large lines; to declare its type doubles what a call costs.
"""
_write.restype = ctypes.c_ssize_t


class LineFile:
    """A file that grows by whole lines. One writer at a time; `next_seq` is the number of the next line, from 0.

    Opening it cuts off a last line without its newline, which nobody was told is written; `torn_bytes` says how much.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.descriptor = open_own(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self.descriptor).st_size
        self.next_seq, self._end = _count_lines(self.descriptor)
        self.torn_bytes = size - self._end
        if self.torn_bytes:
            os.ftruncate(self.descriptor, self._end)

    def append(self, line: bytes) -> None:
        """Write one line, given without its newline; when this returns, the line survives the process.

        Raises OSError when the line could not be written whole; nothing of it stays in the file then.
        """
        data = line + b"\n"
        size = len(data)
        written = _write(self.descriptor, data, size) if size < _LARGE else 0
        if written != size:
            self._write_rest(data[max(written, 0) :])
        self._end += size
        self.next_seq += 1

    def _write_rest(self, data: bytes) -> None:
        """Write what was not taken, or say why: a disk that fills up takes a part and fails at the next call."""
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except BaseException:  # an interrupt as well: what follows would stand behind half a line
            os.ftruncate(self.descriptor, self._end)
            raise

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)


def _count_lines(descriptor: int) -> tuple[int, int]:
    """Return how many whole lines a file has, and where the last of them ends."""
    lines = end = offset = 0
    while chunk := os.pread(descriptor, _COPIED_BYTES, offset):
        lines += chunk.count(b"\n")
        last = chunk.rfind(b"\n")
        if last >= 0:
            end = offset + last + 1
        offset += len(chunk)
    return lines, end


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their newlines; a torn last one is left out, a missing file has none."""
    try:
        file = open_lines(path)
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


S = TypeVar("S", Answer, CaseResult)


def numbered(value: S, *, seq: int, run_id: str) -> S:
    """Return an answer or a result with its number in a store and its run.

    One without a number was made to be stored and is not shared yet, so it gets the number itself: a copy of its forty
    fields costs more than writing them. One with the number of another store is copied.
    """
    if value.seq is not None:
        return replace(value, seq=seq, run_id=run_id)
    force_setattr(value, "seq", seq)
    force_setattr(value, "run_id", run_id)
    return value
