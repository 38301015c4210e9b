"""Brings written lines to the disk's surface in the background."""

import os
import threading
from collections.abc import Callable

MAX_ROWS = 64
MAX_WAIT_S = 0.05


class Flusher:
    """A thread that syncs files that were written to: after 64 rows of one of them, or 50 ms after the first row.

    A written line survives the process at once; this makes it survive a power loss. A failed fsync is kept in `error`
    for the writer to raise, because the row it belongs to is long acknowledged.
    """

    def __init__(self, *, fsync: Callable[[int], None] = os.fsync, max_wait_s: float = MAX_WAIT_S) -> None:
        self.error: OSError | None = None
        self._fsync = fsync
        self._max_wait_s = max_wait_s
        self._rows: dict[int, int] = {}
        self._closed = False
        self._lock = threading.Lock()
        self._first = threading.Event()
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentv-fsync", daemon=True)
        self._thread.start()

    def wrote(self, descriptor: int) -> None:
        """Take note that a row was written to a file."""
        with self._lock:
            is_first = not self._rows
            rows = self._rows[descriptor] = self._rows.get(descriptor, 0) + 1
        if is_first:
            self._first.set()
        elif rows == MAX_ROWS:
            self._enough.set()

    def close(self) -> None:
        """Sync what is still open and end the thread."""
        self._closed = True
        self._first.set()
        self._enough.set()
        self._thread.join()
        self._sync()

    def _run(self) -> None:
        while not self._closed:
            self._first.wait()
            self._enough.wait(self._max_wait_s)
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            descriptors, self._rows = self._rows, {}
            self._first.clear()
            self._enough.clear()
        for descriptor in descriptors:
            try:
                self._fsync(descriptor)
            except OSError as error:
                self.error = self.error or error
