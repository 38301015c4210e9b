"""A file of a run as one file: its listed segments first, then its parts in the run's folder."""

import io
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from msgspec import Struct

from agentv.storage.files.line_file import FileEnd, LineFile, open_lines, part_path
from agentv.storage.files.object_store import open_stored, storage_errors
from agentv.storage.files.segments import SEGMENTS_FILE, Segment, load_segments
from agentv.types.errors import StorageError

_CHUNK = 1 << 20


def open_file(path: Path, *, buffering: int = _CHUNK) -> BinaryIO:
    """Open a file of a run for reading, given the path of its first part. Offsets count through all parts.

    Raises FileNotFoundError if it has no part, StorageError for an invalid segments.jsonl. Reading raises StorageError
    for a segment that is missing or not as listed; the checksum of a segment is compared if the segment is read from
    its first to its last byte.
    """
    parts = _open_parts(path)
    if parts is None:
        return open_lines(path, buffering=buffering)
    return io.BufferedReader(_JoinedFile(path.parent, parts), buffering)


def whole_lines(path: Path) -> Iterator[bytes]:
    """Yield the whole lines of a file of a run without their newlines, none for a missing file."""
    try:
        file = open_file(path)
    except FileNotFoundError:
        return
    with file:
        for line in file:
            if line.endswith(b"\n"):
                yield line[:-1]


def size_of(path: Path) -> int:
    """Return the size of a file of a run in bytes, 0 for a missing file."""
    try:
        with open_file(path) as file:
            return file.seek(0, os.SEEK_END)
    except FileNotFoundError:
        return 0


def why_segments_lost(path: Path, size: int) -> str | None:
    """Return what is missing of a file with segments that should have `size` bytes; None if nothing is."""
    folder = path.parent
    try:
        segments = load_segments(folder)
        for segment in () if segments is None else segments.of(path.name):
            file, found = open_stored(segment.url, base=folder)
            file.close()
            if found != segment.record.bytes:
                return f"{segment.url} has {found:,} bytes, but {segment.record.bytes:,} were written"
        present = size_of(path)
    except (StorageError, OSError) as error:
        return f"{path.name}: {error}"
    return None if present == size else f"{path.name} has {present:,} bytes, but {size:,} were written"


def stamp_of(path: Path) -> str:
    """Return a text that changes when a file of a run changes.

    It has the inode, size and modification time of the last part in the run's folder or, if all parts are segments,
    their number.
    """
    segments = load_segments(path.parent)
    listed = 0 if segments is None else len(segments.of(path.name))
    last = _last_local_part(path, listed)
    try:
        found = part_path(path, last).stat()
    except FileNotFoundError:
        return f"part {listed}" if listed else "none"
    stamp = f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
    return f"{last}:{stamp}" if last else stamp


def append_to(path: Path) -> LineFile:
    """Open the last part of a file of a run for writing. Raises OSError, StorageError for an invalid segments.jsonl."""
    segments = load_segments(path.parent)
    listed = () if segments is None else segments.of(path.name)
    end = listed[-1].end if listed else FileEnd()
    last = _last_local_part(path, len(listed))
    if segments is not None and (missing := _missing_part(path, len(listed))) is not None:
        raise _gap_error(missing)
    for part in range(len(listed), last):
        complete = LineFile(path, part=part, before=end)
        complete.close()
        end = complete.end
    return LineFile(path, part=last, before=end)


def _last_local_part(path: Path, first: int) -> int:
    """Return the number of the last local part; `first` is the number of the first part that is not a segment."""
    last = first
    while part_path(path, last + 1).exists():
        last += 1
    return last


def _missing_part(path: Path, first: int) -> Path | None:
    """Return the first local part that is missing although later parts exist; `first` is the first local part."""
    last = max(map(_part_number, path.parent.glob(f"{path.stem}.*{path.suffix}")), default=first)
    return next((part_path(path, part) for part in range(first, last) if not part_path(path, part).exists()), None)


def _gap_error(missing: Path) -> StorageError:
    return StorageError(f"{missing} is missing, but later parts of the file exist; restore it from a copy")


def _part_number(path: Path) -> int:
    """Return the number of a local part by its name, -1 for part 0 and for other files."""
    number = path.stem.rpartition(".")[2]
    return int(number) if number.isascii() and number.isdigit() else -1


class _Part(Struct):
    """A part of a file: its offset in the whole file, its size, and the open file or segment that has its bytes."""

    start: int
    size: int
    file: BinaryIO | None = None
    segment: Segment | None = None


def _open_parts(path: Path) -> list[_Part] | None:
    """Return the parts of a file, local parts opened; None if the run has no segments.

    The writer of the run may list a part at the same time, which removes the part's local file. If the list of segments
    has grown, everything is read again.
    """
    while True:
        list_size = _size_of_list(path.parent)
        if list_size is None:
            return None
        segments = load_segments(path.parent)
        found = () if segments is None else segments.of(path.name)
        missing = _missing_part(path, len(found))
        local = _open_local(path, len(found)) if missing is None else []
        if _size_of_list(path.parent) == list_size:
            break
        for file, _ in local:
            file.close()
    if missing is not None:
        raise _gap_error(missing)
    if not found and not local:
        raise FileNotFoundError(path)
    parts, start = [], 0
    for segment in found:
        parts.append(_Part(start, segment.record.bytes, segment=segment))
        start += segment.record.bytes
    for file, size in local:
        parts.append(_Part(start, size, file=file))
        start += size
    return parts


def _size_of_list(folder: Path) -> int | None:
    """Return the size of segments.jsonl, None for a run without it."""
    try:
        return (folder / SEGMENTS_FILE).stat().st_size
    except FileNotFoundError:
        return None


def _open_local(path: Path, first: int) -> list[tuple[BinaryIO, int]]:
    """Open the local parts of a file from part `first` on; return each with its size.

    A part is complete once the next part exists, which is therefore checked before the size is read.
    """
    opened: list[tuple[BinaryIO, int]] = []
    part, has_next = first, True
    while has_next:
        try:
            file = open_lines(part_path(path, part), buffering=0)
        except FileNotFoundError:
            break
        has_next = part_path(path, part + 1).exists()
        opened.append((file, os.fstat(file.fileno()).st_size))
        part += 1
    return opened


class _JoinedFile(io.RawIOBase):
    """The parts of a file as one file for reading.

    `_position` is the position in the whole file. `_part` is the part that was read last, `_file` its open file,
    `_part_offset` the position in it, and `_crc` the CRC-32 of its bytes so far; None after a jump inside the part.
    """

    def __init__(self, folder: Path, parts: Sequence[_Part]) -> None:
        super().__init__()
        self._folder = folder
        self._parts = parts
        self._starts = [part.start for part in parts]
        self._size = parts[-1].start + parts[-1].size
        self._position = 0
        self._part: _Part | None = None
        self._file: BinaryIO | None = None
        self._part_offset = 0
        self._crc: int | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        if self._position >= self._size:
            return 0
        part = self._parts[bisect_right(self._starts, self._position) - 1]
        offset = self._position - part.start
        file = self._file if part is self._part and self._file is not None else self._open_part(part)
        if offset != self._part_offset:
            self._crc = 0 if offset == 0 else None
        data = self._read(part, file, offset, min(len(buffer), part.size - offset))
        if not data:
            raise self._damage_error(part, f"ends after {offset} bytes")
        self._part_offset = offset + len(data)
        if part.segment is not None and self._crc is not None:
            self._crc = crc32(data, self._crc)
            if self._part_offset == part.size and f"{self._crc:08x}" != part.segment.record.crc32:
                raise self._damage_error(part, f"has the CRC-32 {self._crc:08x}")
        self._position += len(data)
        buffer[: len(data)] = data
        return len(data)

    def _read(self, part: _Part, file: BinaryIO, offset: int, size: int) -> bytes:
        try:
            with storage_errors("read", str(self._folder) if part.segment is None else part.segment.url):
                if offset != self._part_offset:
                    file.seek(offset)
                return file.read(size)
        except StorageError as error:
            raise StorageError(f"{self._place_of(part)}: {error}") from error

    def close(self) -> None:
        if not self.closed:
            self._close_segment()
            for part in self._parts:
                if part.file is not None:
                    part.file.close()
        super().close()

    def _open_part(self, part: _Part) -> BinaryIO:
        """Open a part, and close the segment that was read before."""
        self._close_segment()
        if part.file is not None:
            file = part.file
            file.seek(0)
        else:
            file = self._open_segment(part)
        self._part, self._file, self._part_offset, self._crc = part, file, 0, 0
        return file

    def _open_segment(self, part: _Part) -> BinaryIO:
        if part.segment is None:
            raise StorageError(f"{self._folder}: a part of the run has neither a file nor a segment")
        try:
            file, size = open_stored(part.segment.url, base=self._folder)
        except StorageError as error:
            raise StorageError(f"{self._place_of(part)}: {error}; restore it from a copy") from error
        if size != part.size:
            file.close()
            raise self._damage_error(part, f"has {size} bytes")
        return file

    def _close_segment(self) -> None:
        if self._file is not None and self._part is not None and self._part.segment is not None:
            self._file.close()
        self._part = self._file = None

    def _damage_error(self, part: _Part, how: str) -> StorageError:
        if part.segment is None:
            return StorageError(f"{self._folder}: a file of the run was truncated while it was being read")
        record = part.segment.record
        return StorageError(
            f"{self._place_of(part)}: {part.segment.url} {how}, but was listed with {record.bytes} bytes and the "
            f"CRC-32 {record.crc32}; restore it from a copy"
        )

    def _place_of(self, part: _Part) -> str:
        line = 0 if part.segment is None else part.segment.line
        return f"{self._folder / SEGMENTS_FILE}:{line}"
