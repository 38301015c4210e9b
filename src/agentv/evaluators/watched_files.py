"""Files that evaluators read or run, watched for changes: an agent in the project may overwrite its own judge."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

Stamp: TypeAlias = tuple[int, ...] | None
"""Changes whenever a file is written, replaced or restored; None for a file that cannot be found."""


class WatchedFiles:
    """Files as they were when they were first seen. Each is read once, and again only when its stamp has changed."""

    def __init__(self, paths: Iterable[str] = ()) -> None:
        self._first: dict[str, str | None] = {}
        self._latest: dict[str, tuple[Stamp, str | None]] = {}
        self.add(paths)

    def add(self, paths: Iterable[str]) -> None:
        """Watch further files from now on."""
        for path in paths:
            if path not in self._first:
                self._first[path] = self._digest_now(path)

    def digest(self, path: str) -> str | None:
        """Return the SHA-256 of a file when it was first seen; None if it could not be read."""
        self.add([path])
        return self._first[path]

    def stamps(self, paths: Iterable[str]) -> list[Stamp]:
        """Return the present stamps of files."""
        return [_stamp_of(path) for path in paths]

    def changed(self, paths: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return those of the files (None: all) whose content is not as it was first."""
        watched = self._first if paths is None else paths
        return tuple(path for path in tuple(watched) if self._digest_now(path) != self.digest(path))

    def _digest_now(self, path: str) -> str | None:
        stamp = _stamp_of(path)
        known = self._latest.get(path)
        if known is None or known[0] != stamp:
            known = self._latest[path] = (stamp, _read_digest(path))
        return known[1]


def _stamp_of(path: str) -> Stamp:
    try:
        found = os.stat(path)  # noqa: PTH116 - faster, and called for each case
    except (OSError, ValueError):
        return None
    # The time of the last change of the inode, unlike that of the content, cannot be set.
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _read_digest(path: str) -> str | None:
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except (OSError, ValueError):
        return None
