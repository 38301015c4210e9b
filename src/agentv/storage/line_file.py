"""One append-only file of lines: whole lines or nothing, numbered, with a torn end cut off."""

import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from agentv.storage.own_file import open_lines, open_own

_CHUNK = 1 << 20
_libc = ctypes.PyDLL(None, use_errno=True)
_libc.write.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)
_libc.write.restype = ctypes.c_ssize_t


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
        try:
            written = _write(self.descriptor, data)
            # A disk that fills up takes a part and fails at the next call, so the rest is tried once to learn why.
            if written < len(data):
                _write_rest(self.descriptor, data[written:])
        except OSError:
            os.ftruncate(self.descriptor, self._end)
            raise
        self._end += len(data)
        self.next_seq += 1

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.descriptor)


def _write(descriptor: int, data: bytes) -> int:
    """Write as `os.write` does, but without letting other threads run meanwhile.

    The page cache takes a line in a microsecond. To let go of the interpreter for that long wakes the thread that syncs
    each time, for nothing: it comes too late, over and over, so that it hardly ever syncs and a run takes a fifth more.
    """
    while True:
        written: int = _libc.write(descriptor, data, len(data))
        if written >= 0:
            return written
        number = ctypes.get_errno()
        if number != errno.EINTR:  # a signal, on a network disk: tried again, as Python's own does
            raise OSError(number, os.strerror(number))


def _write_rest(descriptor: int, data: bytes) -> None:
    while data:
        data = data[_write(descriptor, data) :]


def _count_lines(descriptor: int) -> tuple[int, int]:
    """Return how many whole lines a file has, and where the last of them ends."""
    lines = end = offset = 0
    while chunk := os.pread(descriptor, _CHUNK, offset):
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
