"""Copy a run between its folder and the database: every line once, in order, byte for byte.

Blobs are stored once for all runs, by their SHA-256, in parts of 4 MiB.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.files.run_file import append_to, open_file, size_of, whole_lines
from agentv.storage.postgres.connection import store_errors
from agentv.storage.postgres.line_columns import EVENTS, TABLES, Column, LineTable, fitting_text
from agentv.storage.postgres.review_files import ReviewPusher, pull_reviews
from agentv.storage.postgres.run_rows import is_same_run
from agentv.storage.records.json_line import decode
from agentv.storage.run.folder import RUN_FILE, make_run_folder
from agentv.storage.run.labels import LABELS_LOCK, WAIT_S
from agentv.storage.run.lock import RunLock
from agentv.storage.run.stored import StoredRun
from agentv.storage.shared_runs import Pulled
from agentv.types.errors import StorageError
from agentv.types.protocols import Clock

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl


MOST_LINES = 1000
MOST_BYTES = 4 << 20


class GrowingFileReader:
    """Reads whole lines of a growing file. Only `advance`, called when lines are stored, moves its position.

    `seq` is the number of the next line. A partial last line is not read; a missing file has no lines.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.seq = 0
        self._offset = 0

    def read(self) -> list[bytes]:
        """Return the next lines without their newlines: at most MOST_LINES, and about MOST_BYTES."""
        lines: list[bytes] = []
        size = 0
        try:
            file = open_file(self.path)
        except FileNotFoundError:
            return lines
        with file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                lines.append(line[:-1])
                size += len(line)
                if len(lines) == MOST_LINES or size >= MOST_BYTES:
                    break
        return lines

    def advance(self, lines: list[bytes]) -> None:
        """Move the position past these lines."""
        self.seq += len(lines)
        self._offset += sum(len(line) + 1 for line in lines)


_ADDED_BY_OTHERS = {
    "labels.jsonl": (
        "labels were added to another copy of the run. To add those of this folder: move it away, run `agentv store "
        "pull {run}`, then `agentv label {run} --in FOLDER/labels.jsonl`, and push"
    ),
    "categories.jsonl": "categories were changed in another copy of the run; pull it, and change them there",
}
"""Why the lines of a file may differ although the runs are the same, and what to do."""

_PUT_RUN = """
INSERT INTO agentv.runs (run_id, record, name, created_at, agentv_version, planned, started_at)
VALUES (%s, %s, %s, %s, %s, %s, now() - greatest(%s, interval '0'))
ON CONFLICT (run_id) DO UPDATE SET record = excluded.record, name = excluded.name, pushed_at = now()
"""
_SET_STATE = "UPDATE agentv.runs SET state = %s, pushed_at = now() WHERE run_id = %s"


def utc_now() -> datetime:
    """Return the time of this machine's clock."""
    return datetime.now(UTC)


class RunPusher:
    """Pushes the lines of one run's folder, also those written later, to the database.

    A run started as long before its first push as `clock`, the one of its machine, says; the server's clock gives the
    time of the push.

    The constructor compares the database's lines of the run with the folder; `push` continues after them. Raises
    StorageError when the database has different or more lines than the folder, or when the connection breaks; a new
    pusher on a new connection then continues.
    """

    def __init__(self, folder: Path, connection: "Connection", url: "StoreUrl", *, clock: Clock = utc_now) -> None:
        self._connection = connection
        self._url = url
        self._clock = clock
        self._stored = StoredRun(folder)
        self.run_id = self._stored.run_id
        self.pushed = 0
        self._blobs = BlobPusher(folder / "blobs", self.run_id)
        self._reviews = ReviewPusher(folder, self.run_id, url)
        self._readers = {table.file: GrowingFileReader(folder / table.file) for table in TABLES}
        with store_errors(url, f"cannot store run {self.run_id}"):
            self._write_run(folder / RUN_FILE)
            for table in TABLES:
                self._skip_pushed(table)

    def push(self, on_batch: Callable[[], None] = lambda: None) -> int:
        """Push all new lines of the folder; return the number that the database lacked. Raises StorageError.

        `on_batch` is called after each batch that was stored.
        """
        before = self.pushed
        with store_errors(self._url, f"cannot store run {self.run_id}"):
            self.pushed += self._reviews.push(self._connection)
            for table in TABLES:
                reader = self._readers[table.file]
                while lines := reader.read():
                    self.pushed += self._write(table, reader.seq, lines)
                    reader.advance(lines)
                    on_batch()
        return self.pushed - before

    def push_state(self) -> None:
        """Store the state of the run, read from its folder: no line records the state of a killed run."""
        with store_errors(self._url, f"cannot store run {self.run_id}"):
            self._connection.execute(_SET_STATE, [self._stored.state(), self.run_id])

    def _write_run(self, path: Path) -> None:
        run = self._stored.run
        row = self._connection.execute("SELECT record FROM agentv.runs WHERE run_id = %s", [run.run_id]).fetchone()
        if row is not None and not is_same_run(bytes(row[0]), run):
            raise StorageError(f"the store {self._url} has a different run {run.run_id}; this one was not pushed")
        record = path.read_bytes()
        if row is not None and bytes(row[0]) == record:
            return
        planned = run.plan.get("rows")
        values = [
            run.run_id,
            record,
            fitting_text(run.name),
            run.created_at,
            fitting_text(run.agentv_version),
            planned if isinstance(planned, int) else None,
            self._clock() - run.created_at,
        ]
        self._connection.execute(_PUT_RUN, values)

    def _skip_pushed(self, table: LineTable) -> None:
        """Move past the first lines that the database has, which must equal the folder's."""
        reader = self._readers[table.file]
        while lines := reader.read():
            stored = self._stored_digests(table, reader.seq, len(lines))
            self._check_equal(table, reader.seq, lines, stored)
            # Older versions pushed only one line for each result. Continue at the first line that is missing.
            first_missing = next((index for index in range(len(lines)) if reader.seq + index not in stored), len(lines))
            reader.advance(lines[:first_missing])
            if first_missing < len(lines):
                return
        if self._stored_digests(table, reader.seq, 1):
            raise StorageError(
                f"the store {self._url} has more lines in {table.file} of run {self.run_id} than this folder; "
                f"pull it first: agentv store pull {self.run_id}"
            )

    def _check_equal(self, table: LineTable, seq: int, lines: list[bytes], stored: dict[int, bytes]) -> None:
        """Raise StorageError if a stored line (its SHA-256 by number) differs from the folder's line."""
        for number, line in enumerate(lines, seq):
            if number in stored and hashlib.sha256(line).digest() != stored[number]:
                why = _ADDED_BY_OTHERS.get(table.file, "another run with this id was pushed")
                raise StorageError(
                    f"the store {self._url} has a different line {number + 1} in {table.file} of run {self.run_id}: "
                    f"{why.format(run=self.run_id)}. The lines of this folder were not pushed"
                )

    def _stored_digests(self, table: LineTable, seq: int, most: int) -> dict[int, bytes]:
        """Return the SHA-256 of each stored line by its number, for up to `most` numbers from `seq`."""
        query = (
            f"SELECT seq, sha256(line) FROM ({table.lines_query}) AS lines WHERE run_id = %s AND seq >= %s AND seq < %s"  # noqa: S608 - constant table names
        )
        rows = self._connection.execute(query.encode(), [self.run_id, seq, seq + most], binary=True).fetchall()
        return {int(row[0]): bytes(row[1]) for row in rows}

    def _write(self, table: LineTable, seq: int, lines: list[bytes]) -> int:
        """Write lines with the new blobs, in one transaction; return the number of lines that the database lacked."""
        with self._connection.transaction():
            blobs = self._blobs.push(self._connection)
            inserted = self._connection.execute(_insert_into(table), _arrays(table, self.run_id, seq, lines)).rowcount
            if inserted < len(lines):
                # Another process pushed some of these lines, or they repeat a result.
                stored = self._stored_digests(table, seq, len(lines))
                self._check_equal(table, seq, lines, stored)
                inserted += self._write_repeats(
                    table, [(number, line) for number, line in enumerate(lines, seq) if number not in stored]
                )
            state = _state_in(lines) if table is EVENTS else None
            if state is not None:
                self._connection.execute(_SET_STATE, [state, self.run_id])
        self._blobs.mark_pushed(blobs)
        return inserted

    def _write_repeats(self, table: LineTable, lines: list[tuple[int, bytes]]) -> int:
        """Write lines, given with their numbers, that repeat a result of the table; return the number of lines."""
        if table.repeats is None or not lines:
            return 0
        query = f"INSERT INTO {table.repeats} (run_id, seq, line) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"  # noqa: S608 - constant table name
        with self._connection.cursor() as cursor:
            cursor.executemany(query.encode(), [(self.run_id, number, line) for number, line in lines])
        return len(lines)


def _insert_into(table: LineTable) -> bytes:
    """Return the statement that inserts many lines and ignores those that exist."""
    names = ", ".join(("seq", "line", *table.columns))
    types = ("bigint", "bytea", *table.sql_types.values())
    arrays = ", ".join(f"%b::{sql_type}[]" for sql_type in types)
    return (
        f"INSERT INTO {table.table} (run_id, {names}) SELECT %b, * FROM unnest({arrays}) "  # noqa: S608 - constant names
        "ON CONFLICT DO NOTHING"
    ).encode()


def _arrays(table: LineTable, run_id: str, seq: int, lines: list[bytes]) -> list[object]:
    """Return the parameters of `_insert_into`: the run's id, then an array for each column."""
    columns: list[list[Column]] = [list(values) for values in zip(*map(table.values, lines), strict=True)]
    return [run_id, list(range(seq, seq + len(lines))), lines, *columns]


def _state_in(lines: list[bytes]) -> str | None:
    """Return the run's state after these events, None when they do not change it."""
    for line in reversed(lines):
        try:
            event = decode(line)
        except ValueError:
            continue
        if event.get("type") == "ended":
            return fitting_text(event.get("state")) or "finished"
        if event.get("type") == "started":
            return "running"
    return None


LINES_PER_QUERY = 1000
_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


class RunPuller:
    """Pulls one run into the folder of runs. Raises StorageError when the folder has a different run with its id.

    A folder that has the first lines of the run gets the rest; a folder that has more than the database is not
    changed. Locks, logs and workspaces are not pulled.
    """

    def __init__(self, connection: "Connection", url: "StoreUrl", run_id: str) -> None:
        if not _SAFE_ID.fullmatch(run_id):
            raise StorageError(f"the store {url} has a run {run_id!r}, which is not a valid folder name")
        self._connection = connection
        self._url = url
        self._run_id = run_id

    def pull(self, runs_folder: Path, *, files: Collection[str] | None = None) -> Pulled:
        """Pull the run; a new folder appears only when it is complete.

        With `files`, a new folder gets only these files, and the blobs that they refer to.
        """
        folder = runs_folder / self._run_id
        with store_errors(self._url, f"cannot send run {self._run_id}"), self._connection.transaction():
            # All statements read one snapshot of the database.
            self._connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            return self._extend(folder) if folder.exists() else self._create(folder, files)

    def _create(self, folder: Path, files: Collection[str] | None) -> Pulled:
        partial = folder.with_name(f".{folder.name}.part-{os.getpid()}")
        shutil.rmtree(partial, ignore_errors=True)
        make_run_folder(partial)
        try:
            wanted = [table for table in TABLES if files is None or table.file in files]
            lines = sum(self._append(table, partial) for table in wanted)
            only = None if files is None else _blobs_named_in(partial / table.file for table in wanted)
            pull_blobs(self._connection, self._run_id, partial / "blobs", only=only)
            if files is None:
                lines += pull_reviews(self._connection, self._url, self._run_id, partial)
            descriptor = os.open(partial / RUN_FILE, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(self._record())
            partial.rename(folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return Pulled(folder, lines)

    def _extend(self, folder: Path) -> Pulled:
        stored = StoredRun(folder)
        if not is_same_run(self._record(), stored.run):
            raise self._different_run_error(folder, RUN_FILE)
        lock = RunLock(folder)
        try:
            labels_lock = RunLock(folder, LABELS_LOCK, what="the label file of run", wait_s=WAIT_S)
        except BaseException:
            lock.release()
            raise
        try:
            for table in TABLES:
                self._compare(table, folder)
            pull_blobs(self._connection, self._run_id, folder / "blobs")
            queues = pull_reviews(self._connection, self._url, self._run_id, folder)
            return Pulled(folder, queues + sum(self._append(table, folder) for table in TABLES))
        finally:
            labels_lock.release()
            lock.release()

    def _record(self) -> bytes:
        """Return the content of the run's run.json."""
        query = "SELECT record FROM agentv.runs WHERE run_id = %s"
        row = self._connection.execute(query, [self._run_id], binary=True).fetchone()
        if row is None:
            raise StorageError(f"the store {self._url} has no run {self._run_id}")
        return bytes(row[0])

    def _compare(self, table: LineTable, folder: Path) -> None:
        """Raise StorageError unless the lines that both the folder and the database have are equal."""
        for ours, theirs in zip(whole_lines(folder / table.file), self._lines(table, 0), strict=False):
            if ours != theirs:
                raise self._different_run_error(folder, table.file)

    def _append(self, table: LineTable, folder: Path) -> int:
        """Write the lines that a file lacks; return their number."""
        path = folder / table.file
        # A run without labels has no file for them.
        if not size_of(path) and next(self._lines(table, 0), None) is None:
            return 0
        file = append_to(path)
        try:
            before = file.next_seq
            for line in self._lines(table, before):
                file.append(line)
            os.fsync(file.descriptor)
            return file.next_seq - before
        finally:
            file.close()

    def _lines(self, table: LineTable, start: int) -> Iterator[bytes]:
        """Yield the lines from number `start` on. Raises StorageError for a missing number."""
        query = (
            f"SELECT seq, line FROM ({table.lines_query}) AS lines "  # noqa: S608 - constant table names
            f"WHERE run_id = %s AND seq >= %s ORDER BY seq LIMIT {LINES_PER_QUERY}"
        ).encode()
        while True:
            rows = self._connection.execute(query, [self._run_id, start], binary=True).fetchall()
            for seq, line in rows:
                if seq != start:
                    raise StorageError(
                        f"the store {self._url} lacks line {start + 1} of {table.file}; push the run again"
                    )
                yield bytes(line)
                start += 1
            if len(rows) < LINES_PER_QUERY:
                return

    def _different_run_error(self, folder: Path, file: str) -> StorageError:
        return StorageError(
            f"{folder} holds a different run with this id: its {file} differs from that of the store {self._url}. "
            "Nothing was changed; move the folder away to pull"
        )


BLOB_PART_BYTES = 4 << 20
_BLOB_NAME = re.compile(r"sha256-([0-9a-f]{64})")
_BLOB_REFERENCE = re.compile(rb'"sha256:([0-9a-f]{64})"')
_ADD_REFERENCE = "INSERT INTO agentv.run_blobs (run_id, sha256) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_ADD_PART = "INSERT INTO agentv.blobs (sha256, part, data) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_HAS_BLOB = "SELECT EXISTS (SELECT FROM agentv.blobs WHERE sha256 = %s)"


class BlobPusher:
    """Pushes the blobs of a run that are not in the database yet."""

    def __init__(self, folder: Path, run_id: str) -> None:
        self._folder = folder
        self._run_id = run_id
        self._pushed: set[str] = set()

    def push(self, connection: "Connection") -> set[str]:
        """Write new blobs in the caller's transaction; return their digests, for `mark_pushed` after its commit."""
        new = _blobs_in(self._folder) - self._pushed
        for sha256 in sorted(new):
            # The reference comes first, so that `remove_shared_runs` does not delete the blob as unused.
            connection.execute(_ADD_REFERENCE, [self._run_id, sha256])
            found = connection.execute(_HAS_BLOB, [sha256]).fetchone()
            if found is None or not found[0]:
                self._write(connection, sha256)
        return new

    def mark_pushed(self, digests: set[str]) -> None:
        """Note that the transaction with these blobs was committed."""
        self._pushed |= digests

    def _write(self, connection: "Connection", sha256: str) -> None:
        with (self._folder / f"sha256-{sha256}").open("rb") as file:
            part = 0
            while data := file.read(BLOB_PART_BYTES):
                connection.execute(_ADD_PART, [sha256, part, data])
                part += 1


def pull_blobs(connection: "Connection", run_id: str, folder: Path, *, only: Collection[str] | None = None) -> int:
    """Write the missing blobs of a run into a folder, of those in `only` (None: all); return their number.

    Raises StorageError when the database's copy is damaged.
    """
    rows = connection.execute("SELECT sha256 FROM agentv.run_blobs WHERE run_id = %s", [run_id]).fetchall()
    missing = {str(row[0]) for row in rows} - _blobs_in(folder)
    if only is not None:
        missing &= set(only)
    for sha256 in sorted(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
        _pull_blob(connection, sha256, folder)
    return len(missing)


def _pull_blob(connection: "Connection", sha256: str, folder: Path) -> None:
    if not _BLOB_NAME.fullmatch(f"sha256-{sha256}"):
        raise StorageError(f"the store lists a blob {sha256!r}, which is not a valid SHA-256")
    path = folder / f"sha256-{sha256}"
    partial = path.with_suffix(".part")
    digest = hashlib.sha256()
    part = 0
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        query = "SELECT data FROM agentv.blobs WHERE sha256 = %s AND part = %s"
        while row := connection.execute(query, [sha256, part], binary=True).fetchone():
            data = bytes(row[0])
            digest.update(data)
            file.write(data)
            part += 1
        os.fsync(file.fileno())
    if digest.hexdigest() != sha256:
        partial.unlink()
        raise StorageError(f"the store's copy of the blob {sha256} is damaged; push its run again")
    partial.rename(path)


def _blobs_named_in(paths: Iterable[Path]) -> set[str]:
    """Return the SHA-256 of each blob that a line of these files refers to."""
    lines = (line for path in paths for line in whole_lines(path) if b'"$blob":' in line)
    return {found.decode() for line in lines for found in _BLOB_REFERENCE.findall(line)}


def _blobs_in(folder: Path) -> set[str]:
    """Return the SHA-256 of each blob in a folder."""
    try:
        names = [entry.name for entry in folder.iterdir()]
    except FileNotFoundError:
        return set()
    return {found[1] for found in map(_BLOB_NAME.fullmatch, names) if found}
