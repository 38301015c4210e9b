"""Files of a run: append-only files of lines, and files that are replaced as a whole.

A write adds a whole line or nothing. A partial last line, which a killed process left, is cut off. A file of lines may
have several parts (segments.py).
"""

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from msgspec import Struct

from agentv.types.json_value import JsonObject, JsonValue

_CHUNK = 1 << 20


def open_for_writing(path: Path, flags: int) -> int:
    """Open a file of a run for writing, mode 0600. Raises OSError unless it is a regular file.

    A symbolic link is refused because a file outside the run would be written and truncated.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "symbolic links are not allowed in a run folder", str(path)) from error
        raise
    return _require_regular_file(descriptor, path)


def open_lines(path: Path, *, buffering: int = _CHUNK) -> BinaryIO:
    """Open a file of a run for reading. Raises OSError for a pipe, which would block for ever."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    return os.fdopen(_require_regular_file(descriptor, path), "rb", buffering=buffering)


def _require_regular_file(descriptor: int, path: Path) -> int:
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


_READ_BYTES = 1 << 20
_LARGE_LINE = 1 << 30

_write = ctypes.PyDLL(None).write
"""`write` of the C library: `os.write` without releasing the GIL. Returns -1 where `os.write` raises.

Releasing the GIL for a short write would let a waiting thread, such as the Flusher, take it, and the run would wait to
get it back. The length is passed as a C `int`, enough for all but large lines; declaring `argtypes` would make each
call slower.
"""
_write.restype = ctypes.c_ssize_t


def part_path(path: Path, part: int) -> Path:
    """Return the local file of a part of a file, given the path of part 0."""
    return path.with_name(f"{path.stem}.{part}{path.suffix}") if part else path


_POLYNOMIAL = 0xEDB88320
"""The polynomial of CRC-32, with the coefficient of the highest power in the lowest bit."""


def _product(left: int, right: int) -> int:
    """Return the product of two polynomials over GF(2), modulo the polynomial of CRC-32."""
    product = 0
    for bit in range(31, -1, -1):
        if right >> bit & 1:
            product ^= left
        left = left >> 1 ^ (_POLYNOMIAL if left & 1 else 0)
    return product


def joined_crc(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two joined byte strings, given the CRC-32 of each and the size of the second.

    The first CRC-32 is shifted by the bits of the second string: multiplied by x to the power of `8 * size`.
    """
    power, shift = 1 << 23, 1 << 31  # x to the power of 8, and of 0
    while size:
        if size & 1:
            shift = _product(shift, power)
        power, size = _product(power, power), size >> 1
    return _product(first, shift) ^ second


class FileEnd(Struct, frozen=True):
    """A position in a file of lines: the number, the size in bytes and the CRC-32 of the lines before it."""

    lines: int = 0
    size: int = 0
    crc: int = 0

    def after(self, *, lines: int, size: int, crc: int) -> "FileEnd":
        """Return the end after more lines, of which the number, the size and the CRC-32 are known."""
        return FileEnd(self.lines + lines, self.size + size, joined_crc(self.crc, crc, size))

    def to_json(self) -> dict[str, JsonValue]:
        """Return the end as events record it (docs/reference/run-folder.md)."""
        return {"lines": self.lines, "bytes": self.size, "crc32": f"{self.crc:08x}"}


class LineFile:
    """A file that grows by whole lines. One writer at a time; `next_seq` is the number of the next line, from 0.

    A CRC-32 of all lines is computed along with every write. `path` is the path of part 0, lines go to part `part`,
    and `before` is the end of the parts before it (segments.py). `own_bytes` is the size of this part.

    Opening the file cuts off a last line without a newline, which was never acknowledged; `torn_bytes` is its size.
    """

    def __init__(self, path: Path, *, part: int = 0, before: FileEnd = FileEnd()) -> None:  # noqa: B008 - frozen
        self.path = path
        self.part = part
        self.descriptor = open_for_writing(self.current_path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
        size = os.fstat(self.descriptor).st_size
        lines, self.own_bytes, self._crc = _measure_lines(self.descriptor, before.crc)
        self.next_seq = before.lines + lines
        self._before = before
        self.torn_bytes = size - self.own_bytes
        if self.torn_bytes:
            os.ftruncate(self.descriptor, self.own_bytes)

    def append(self, line: bytes) -> None:
        """Write one line, given without its newline; when this returns, the line survives a crash of the process.

        Raises OSError when the whole line cannot be written; the file is then as before.
        """
        data = line + b"\n"
        size = len(data)
        written = _write(self.descriptor, data, size) if size < _LARGE_LINE else 0
        if written != size:
            self._write_rest(data[max(written, 0) :])
        self.own_bytes += size
        self.next_seq += 1
        self._crc = crc32(data, self._crc)

    @property
    def current_path(self) -> Path:
        """The path of the part that is written."""
        return part_path(self.path, self.part)

    @property
    def end(self) -> FileEnd:
        """The end of all lines so far."""
        return FileEnd(self.next_seq, self._before.size + self.own_bytes, self._crc)

    @property
    def checksum(self) -> JsonObject:
        """The number of lines so far, their size, and their CRC-32 (docs/reference/run-folder.md)."""
        return self.end.to_json()

    def why_lost(self) -> str | None:
        """Return how the part on disk differs in place or size from what was written; None if it does not."""
        name = self.current_path.name
        written = os.fstat(self.descriptor)
        try:
            found = self.current_path.lstat()
        except OSError as error:
            return f"{name} cannot be found: {error.strerror or error}"
        if (found.st_dev, found.st_ino) != (written.st_dev, written.st_ino):
            return f"{name} was replaced by another file"
        if found.st_size != self.own_bytes:
            return f"{name} has {found.st_size:,} bytes, but {self.own_bytes:,} were written"
        return None

    def begin_part(self) -> None:
        """Sync this part and continue with the next one. Raises OSError; lines then still go to this part.

        The descriptor keeps its number, which the thread that syncs the file uses.
        """
        os.fsync(self.descriptor)
        self._continue_at(self._open_next_part(), self.end)

    def replace_empty_part(self, list_segment: Callable[[], FileEnd]) -> None:
        """Replace this part, which is empty, by a segment that another process uploaded; continue with the next part.

        `list_segment` lists the segment and returns its end. The next part is opened first, because no line may be
        written to this part once the segment is listed.
        """
        empty_path, descriptor = self.current_path, self._open_next_part()
        try:
            end = list_segment()
        except BaseException:
            os.close(descriptor)
            raise
        self._continue_at(descriptor, end)
        empty_path.unlink(missing_ok=True)

    def _open_next_part(self) -> int:
        return open_for_writing(part_path(self.path, self.part + 1), os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC)

    def _continue_at(self, descriptor: int, before: FileEnd) -> None:
        """Continue with the next part, which begins at `before`."""
        self._before, self.part, self.own_bytes = before, self.part + 1, 0
        self.next_seq, self._crc = before.lines, before.crc
        os.dup2(descriptor, self.descriptor, inheritable=False)
        os.close(descriptor)

    def _write_rest(self, data: bytes) -> None:
        """Write the rest of a partly written line. Raises OSError, for instance if the disk is full."""
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except BaseException:  # also for an interrupt: the next line must not follow half a line
            os.ftruncate(self.descriptor, self.own_bytes)
            raise

    def close(self) -> None:
        """Close the file."""
        os.close(self.descriptor)


def _measure_lines(descriptor: int, crc: int) -> tuple[int, int, int]:
    """Return the number of whole lines of a file, the offset of their end, and the CRC-32 up to there.

    `crc` is the CRC-32 of the parts before this file.
    """
    lines = end = offset = 0
    end_crc = read_crc = crc  # of the whole lines, and of all bytes read
    while chunk := os.pread(descriptor, _READ_BYTES, offset):
        lines += chunk.count(b"\n")
        whole = chunk.rfind(b"\n") + 1
        if whole:
            end = offset + whole
            end_crc = read_crc = crc32(memoryview(chunk)[:whole], read_crc)
        read_crc = crc32(memoryview(chunk)[whole:], read_crc)
        offset += len(chunk)
    return lines, end, end_crc


def plain_lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of one file without their newlines, none for a missing file.

    For a file of a run, of which parts may be elsewhere, use `whole_lines` of run_file.py.
    """
    try:
        file = open_lines(path)
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


def sync(descriptor: int) -> None:
    """Sync a file or a folder to the disk; a file system that cannot sync folders, as over a network, is no error."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP) or not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise


def write_by_rename(path: Path, data: bytes) -> None:
    """Replace a file atomically, also across a power loss."""
    temporary = path.with_suffix(".part")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
