"""How much room a cache takes at most: what nobody used for longest goes first."""

import threading

from agentv.storage.cache_folder import CacheFolder

MOST_BYTES = 1 << 30
"""How much room one cache takes at most: a gibibyte."""

LEFT_SHARE = 0.9
"""How much of that is left when there was no more room: not every further file has to make some."""


class CacheRoom:
    """Keeps the files of one cache within `most_bytes`. It may be called from several threads."""

    def __init__(self, files: CacheFolder, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._files = files
        self._bytes: int | None = None
        self._making_room = threading.Lock()

    def take(self, written: int) -> None:
        """Count what was written; the first time, and when there is too much, look what is really there."""
        with self._making_room:
            if self._bytes is not None and self._bytes + written <= self.most_bytes:
                self._bytes += written
                return
            files = sorted(self._files.files(), key=lambda file: file.used_at)
            self._bytes = sum(file.size for file in files)
            if self._bytes <= self.most_bytes:
                return
            for file in files:
                file.remove()
                self._bytes -= file.size
                if self._bytes <= self.most_bytes * LEFT_SHARE:
                    return
