"""Pull a run from the database into a run folder, byte for byte."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.postgres.blob_tables import pull_blobs
from agentv.storage.postgres.connection import store_errors
from agentv.storage.postgres.line_columns import TABLES, LineTable
from agentv.storage.postgres.run_rows import same_run
from agentv.storage.run.folder import RUN_FILE, make_run_folder
from agentv.storage.run.line_file import LineFile, whole_lines
from agentv.storage.run.lock import RunLock
from agentv.storage.run.stored import StoredRun
from agentv.storage.shared_runs import Pulled
from agentv.types.errors import StorageError

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl

PAGE = 1000
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RunPuller:
    """Pulls one run into the folder of runs. Raises StorageError when that has a different run with the same id.

    A folder with the beginning of the run gets the rest; one with more than the database stays as it is. Locks, logs
    and workspaces are not pulled.
    """

    def __init__(self, connection: "Connection", url: "StoreUrl", run_id: str) -> None:
        if not _SAFE_ID.fullmatch(run_id):
            raise StorageError(f"the store {url} has a run {run_id!r}, which is not a valid folder name")
        self._connection = connection
        self._url = url
        self._run_id = run_id

    def pull(self, runs_folder: Path) -> Pulled:
        """Pull the run; a new folder appears only when it is complete."""
        folder = runs_folder / self._run_id
        with store_errors(self._url, f"cannot provide run {self._run_id}"), self._connection.transaction():
            # All statements read one snapshot of the database.
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return self._complete(folder) if folder.exists() else self._make(folder)

    def _make(self, folder: Path) -> Pulled:
        part = folder.with_name(f".{folder.name}.part-{os.getpid()}")
        shutil.rmtree(part, ignore_errors=True)
        make_run_folder(part)
        try:
            pull_blobs(self._connection, self._run_id, part / "blobs")
            lines = sum(self._append(table, part) for table in TABLES)
            descriptor = os.open(part / RUN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._record())
            part.rename(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return Pulled(folder, lines)

    def _complete(self, folder: Path) -> Pulled:
        stored = StoredRun(folder)
        if not same_run(self._record(), stored.run):
            raise self._another(folder, RUN_FILE)
        lock = RunLock(folder)
        try:
            for table in TABLES:
                self._compare(table, folder)
            pull_blobs(self._connection, self._run_id, folder / "blobs")
            return Pulled(folder, sum(self._append(table, folder) for table in TABLES))
        finally:
            lock.release()

    def _record(self) -> bytes:
        query = "SELECT record FROM agentv.runs WHERE run_id = %s"
        row = self._connection.execute(query, [self._run_id], binary=True).fetchone()
        if row is None:
            raise StorageError(f"the store {self._url} has no run {self._run_id}")
        return bytes(row[0])

    def _compare(self, table: LineTable, folder: Path) -> None:
        """Raise StorageError unless the folder's lines and the database's are equal as far as both go."""
        for ours, theirs in zip(whole_lines(folder / table.file), self._lines(table, 0), strict=False):
            if ours != theirs:
                raise self._another(folder, table.file)

    def _append(self, table: LineTable, folder: Path) -> int:
        """Write the lines that a file lacks; return their number."""
        path = folder / table.file
        # A run without labels has no file for them.
        if not path.exists() and next(self._lines(table, 0), None) is None:
            return 0
        file = LineFile(path)
        try:
            before = file.next_seq
            for line in self._lines(table, before):
                file.append(line)
            os.fsync(file.descriptor)
            return file.next_seq - before
        finally:
            file.close()

    def _lines(self, table: LineTable, start: int) -> Iterator[bytes]:
        query = (
            f"SELECT seq, line FROM {table.table} WHERE run_id = %s AND seq >= %s ORDER BY seq LIMIT {PAGE}"  # noqa: S608 - constant table name
        ).encode()
        while True:
            rows = self._connection.execute(query, [self._run_id, start], binary=True).fetchall()
            for seq, line in rows:
                if seq != start:
                    raise StorageError(f"the store {self._url} lacks line {start + 1} of {table.file}; push it again")
                yield bytes(line)
                start += 1
            if len(rows) < PAGE:
                return

    def _another(self, folder: Path, file: str) -> StorageError:
        return StorageError(
            f"{folder} holds a different run with this id: its {file} differs from that of the store {self._url}. "
            "Nothing was changed; move the folder away to pull"
        )
