"""Brings written lines to the disk's surface in the background."""

import os
import threading
from collections.abc import Callable

MAX_WAIT_S = 0.05


class Flusher:
    """A thread that syncs files that were written to, 50 ms after the first line that is not synced.

    A written line survives the process at once; this makes it survive a power loss. A failed fsync is kept in `error`
    for the writer to raise, because the line it belongs to is long acknowledged. The thread is woken once for all
    lines of 50 ms: to wake it for every 64 of them took a tenth of the time of a quick run.
    """

    def __init__(self, *, fsync: Callable[[int], None] = os.fsync, max_wait_s: float = MAX_WAIT_S) -> None:
        self.error: OSError | None = None
        self._fsync = fsync
        self._max_wait_s = max_wait_s
        self.dirty: set[int] = set()
        self._lock = threading.Lock()
        self._wrote = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentv-fsync", daemon=True)
        self._thread.start()

    def wrote(self, descriptor: int) -> None:
        """Take note that a line was written to a file; not needed for one that is `dirty` already."""
        with self._lock:
            self.dirty.add(descriptor)
        self._wrote.set()

    def close(self) -> None:
        """Sync what is still open and end the thread."""
        self._closed.set()
        self._wrote.set()
        self._thread.join()
        self._sync()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wrote.wait()
            self._closed.wait(self._max_wait_s)
            self._sync()

    def _sync(self) -> None:
        with self._lock:
            descriptors, self.dirty = self.dirty, set()
            self._wrote.clear()
        for descriptor in descriptors:
            try:
                self._fsync(descriptor)
            except OSError as error:
                self.error = self.error or error
