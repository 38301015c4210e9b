"""The lines of a run's file that were not brought to the database yet, read as the file grows."""

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

MOST_LINES = 1000
MOST_BYTES = 4 << 20
_CHUNK = 1 << 20


class LineReader:
    """Reads whole lines of a growing file from a place that moves on when `advance` says that they are safe.

    `seq` is the number of the next line. A torn last line waits for its end; a missing file has no lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seq = 0
        self._offset = 0

    def read(self) -> list[bytes]:
        """Return the next lines without their newlines: at most a thousand, and about four megabytes."""
        lines: list[bytes] = []
        size = 0
        try:
            file = self.path.open("rb", buffering=_CHUNK)
        except FileNotFoundError:
            return lines
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                lines.append(line[:-1])
                size += len(line)
                if len(lines) == MOST_LINES or size >= MOST_BYTES:
                    break
        return lines

    def advance(self, lines: list[bytes]) -> None:
        """Go on behind these lines."""
        self.seq += len(lines)
        self._offset += sum(len(line) + 1 for line in lines)

    def rest(self) -> int:
        """Count the whole lines that are not brought yet."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            return 0
        with file:
            file.seek(self._offset)
            return sum(chunk.count(b"\n") for chunk in _chunks(file))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK):
        yield chunk
