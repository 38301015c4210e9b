"""Blobs in the database: stored once for all runs, by their SHA-256, in parts of 4 MiB."""

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.types.errors import StorageError

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection

PART_BYTES = 4 << 20
_NAME = re.compile(r"sha256-([0-9a-f]{64})")
_REFER = "INSERT INTO agentv.run_blobs (run_id, sha256) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_ADD_PART = "INSERT INTO agentv.blobs (sha256, part, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_KNOWN = "SELECT EXISTS (SELECT FROM agentv.blobs WHERE sha256 = %s)"


class BlobPusher:
    """Pushes the blobs of a run that are not in the database yet."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder = folder
        self._run_id = run_id
        self._pushed: set[str] = set()

    def push(self, connection: "Connection") -> set[str]:
        """Write new blobs in the caller's transaction; return their digests, for `mark_pushed` after its commit."""
        new = _digests(self._folder) - self._pushed
        for sha256 in sorted(new):
            # The reference comes first, so that `remove_shared_runs` does not delete the blob as unused.
            connection.execute(_REFER, [self._run_id, sha256])
            known = connection.execute(_KNOWN, [sha256]).fetchone()
            if known is None or not known[0]:
                self._write(connection, sha256)
        return new

    def mark_pushed(self, digests: set[str]) -> None:
        """Note that the transaction with these blobs was committed."""
        self._pushed |= digests

    def _write(self, connection: "Connection", sha256: str) -> None:
        with (self._folder / f"sha256-{sha256}").open("rb") as file:
            part = 0
            while data := file.read(PART_BYTES):
                connection.execute(_ADD_PART, [sha256, part, data])
                part += 1


def pull_blobs(connection: "Connection", run_id: str, folder: Path) -> int:
    """Write the missing blobs of a run into a folder; return their number.

    Raises StorageError when the database's copy is damaged.
    """
    rows = connection.execute("SELECT sha256 FROM agentv.run_blobs WHERE run_id = %s", [run_id]).fetchall()
    missing = {str(row[0]) for row in rows} - _digests(folder)
    for sha256 in sorted(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        _pull(connection, sha256, folder)
    return len(missing)


def _pull(connection: "Connection", sha256: str, folder: Path) -> None:
    if not _NAME.fullmatch(f"sha256-{sha256}"):
        raise StorageError(f"the store lists a blob {sha256!r}, which is not a valid SHA-256")
    path = folder / f"sha256-{sha256}"
    part = path.with_suffix(".part")
    digest = hashlib.sha256()
    number = 0
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        query = "SELECT data FROM agentv.blobs WHERE sha256 = %s AND part = %s"
        while row := connection.execute(query, [sha256, number], binary=True).fetchone():
            data = bytes(row[0])
            digest.update(data)
            file.write(data)
            number += 1
        os.fsync(file.fileno())
    if digest.hexdigest() != sha256:
        part.unlink()
        raise StorageError(f"the store's copy of the blob {sha256} is damaged; push its run again")
    part.rename(path)


def _digests(folder: Path) -> set[str]:
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return set()
    return {found[1] for found in map(_NAME.fullmatch, names) if found}
