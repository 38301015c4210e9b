"""A folder of a cache: one file per key, named after its digest, which two processes may write at once.

A file is written beside its place and then renamed, so that nobody ever reads half of one. What cannot be written is
asked again another time: a cache never ends a run.
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
        """Delete the file; False when another process has done so already, or it cannot be deleted."""
        try:
            self.path.unlink()
        except OSError:
            return False
        return True


class CacheFolder:
    """The files of one cache, in subfolders by the first two digits; it is made when something is first kept."""

    def __init__(self, folder: Path, suffix: str) -> None:
        self._folder = folder
        self._suffix = suffix

    def place(self, digest: str) -> Path:
        """Return where the file of a digest lies, if there is one."""
        return self._folder / digest[:2] / f"{digest[2:]}{self._suffix}"

    def read(self, digest: str) -> bytes | None:
        """Return the content of a digest's file, None when there is none that can be read."""
        try:
            return self.place(digest).read_bytes()
        except OSError:
            return None

    def write(self, digest: str, content: bytes) -> bool:
        """Keep a content; False when the disk does not take it. Only the user himself may read what is kept."""
        path = self.place(digest)
        beside = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        try:
            with os.fdopen(_created(beside), "wb") as file:
                file.write(content)
            beside.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                beside.unlink()
            return False
        return True

    def touch(self, digest: str) -> None:
        """Note that a file was used now: the oldest go first when there is no more room."""
        with contextlib.suppress(OSError):
            os.utime(self.place(digest))

    def files(self) -> Iterator[CacheFile]:
        """Yield every file, in no order; one that goes away meanwhile is left out.

        Those that a killed process left half written are among them, so that they are cleared as well.
        """
        for subfolder in _entries(self._folder):
            for entry in _entries(subfolder.path) if subfolder.is_dir(follow_symlinks=False) else ():
                if entry.name.endswith(self._suffix) or f"{self._suffix}." in entry.name:
                    with contextlib.suppress(OSError):
                        known = entry.stat(follow_symlinks=False)
                        yield CacheFile(Path(entry.path), known.st_size, known.st_mtime)


def _created(path: Path) -> int:
    """Return a new file that is open for writing; its folder is made when it is not there."""
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
