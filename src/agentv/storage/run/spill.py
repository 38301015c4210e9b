"""A temporary file for sums that a stream without end must not hold in memory."""

import os
import tempfile
from typing import IO


class TemporarySpill:
    """A `Spill` in an unnamed temporary file, which is made for the first data and vanishes with the process."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._size = 0

    def write(self, data: bytes) -> int | None:
        """Append data and return its offset; None if it cannot be written."""
        offset = self._size
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="agentv-", buffering=0)  # noqa: SIM115 - open as long as this
            rest = memoryview(data)
            while rest:
                rest = rest[os.pwrite(self._file.fileno(), rest, self._size + len(data) - len(rest)) :]
        except OSError:
            return None
        self._size += len(data)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        """Return data that was written. Raises OSError."""
        return b"" if self._file is None else os.pread(self._file.fileno(), size, offset)
