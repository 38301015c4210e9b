"""A temporary file for sums over the cases of a long stream, which would not fit into memory."""

import os
import tempfile
import weakref


class TemporarySpill:
    """A `Spill` in an unnamed temporary file, which is created by the first `write` and deleted with this object."""

    def __init__(self) -> None:
        self._descriptor: int | None = None
        self._size = 0

    def write(self, data: bytes) -> int | None:
        """Append data and return its offset; None if it cannot be written."""
        offset = self._size
        try:
            descriptor = self._open() if self._descriptor is None else self._descriptor
            rest = memoryview(data)
            while rest:
                rest = rest[os.pwrite(descriptor, rest, offset + len(data) - len(rest)) :]
        except OSError:
            return None
        self._size += len(data)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        """Return data that was written. Raises OSError."""
        return b"" if self._descriptor is None else os.pread(self._descriptor, size, offset)

    def _open(self) -> int:
        with tempfile.TemporaryFile(prefix="agentv-") as file:
            self._descriptor = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._descriptor)
        return self._descriptor
