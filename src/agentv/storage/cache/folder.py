"""A folder of a cache: one file per key, named after its digest; several processes may write to it.

A file is written under a temporary name and then renamed, so that readers never see a partial file. A failed write is
ignored: a cache never ends a run.
"""

import contextlib
import os
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct


class CacheFile(Struct, frozen=True):
    """A file of a cache: its size in bytes, and when it was last used, in seconds since 1970."""

    path: Path
    size: int
    used_at: float

    def remove(self) -> bool:
        """Delete the file; return False when it is already deleted or cannot be deleted."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


class CacheFolder:
    """The files of one cache, in subfolders by the first two digits of the digest. The first write creates it."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix

    def path_of(self, digest: str) -> Path:
        """Return the path for the file of a digest, which may not exist."""
        return self._folder / digest[:2] / f"{digest[2:]}{self._suffix}"

    def read(self, digest: str) -> bytes | None:
        """Return the content of a digest's file, or None when it cannot be read."""
        try:
            return self.path_of(digest).read_bytes()
        except OSError:
            return None

    def write(self, digest: str, content: bytes) -> bool:
        """Write a file with mode 0600; return False when that fails."""
        path = self.path_of(digest)
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(_create(temporary), "wb") as file:
                file.write(content)
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink()
            return False
        return True

    def touch(self, digest: str) -> None:
        """Mark a file as used now, for the least-recently-used order."""
        with contextlib.suppress(OSError):
            os.utime(self.path_of(digest))

    def files(self) -> Iterator[CacheFile]:
        """Yield every file, in no order; skip files that another process deletes at the same time.

        Temporary files of a killed process are included, so that they are cleared as well.
        """
        subfolders = [entry.path for entry in _entries(self._folder) if entry.is_dir(follow_symlinks=False)]
        for subfolder in subfolders:
            for entry in _entries(subfolder):
                is_temporary = f"{self._suffix}." in entry.name
                if is_temporary or entry.name.endswith(self._suffix):
                    with contextlib.suppress(OSError):
                        stat = entry.stat(follow_symlinks=False)
                        yield CacheFile(Path(entry.path), stat.st_size, stat.st_mtime)


def _create(path: Path) -> int:
    """Create a file and return its descriptor; create its folder when needed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(path, flags, 0o600)


def _entries(folder: Path | str) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


MOST_BYTES = 1 << 30
"""The default limit of one cache in bytes: 1 GiB."""

SHARE_AFTER_EVICTION = 0.9
"""Eviction stops at this share of the limit, so that the next files fit without another eviction."""


class CacheLimit:
    """Keeps the files of one cache within `most_bytes` by deleting the least recently used. Thread-safe."""

    def __init__(self, files: CacheFolder, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._files = files
        self._bytes: int | None = None
        self._lock = threading.Lock()

    def add(self, written: int) -> None:
        """Count written bytes; on the first call and above the limit, measure the folder and evict files."""
        with self._lock:
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
                if self._bytes <= self.most_bytes * SHARE_AFTER_EVICTION:
                    return
