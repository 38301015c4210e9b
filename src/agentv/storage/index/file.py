"""The file `.agentv/index.db`: shared by several processes, and emptied when it is of another version."""

import fcntl
import os
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from fnmatch import fnmatchcase
from pathlib import Path

from agentv.storage.index.schema import APPLICATION_ID, TABLES, TABLES_OF_RUN, VERSION

INDEX_FILE = "index.db"

PAGES_FOLDER = "index.db.d"
"""The folder of the indexes of single runs; the line of .gitignore for `index.db` covers it."""

BUSY_S = 5.0
"""Seconds that one process waits for another that writes to the index."""

BUSY_STEP_S = 0.01
"""Seconds between two attempts to switch to WAL."""

_IN_MEMORY = ":memory:"
PAGE_CACHE_KIB = 32 * 1024
"""The pages of a file that one connection keeps in memory."""
_BROKEN_FILE_CODES = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def index_in_memory() -> sqlite3.Connection:
    """Return an empty in-memory index."""
    connection = _connect(_IN_MEMORY)
    _ensure_tables(connection)
    return connection


def open_index_file(home: Path, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Open or create the index of the runs in `home`; replace a file that is not an index.

    Raises sqlite3.Error or OSError when it cannot be used: locked for too long, or in a read-only folder.
    """
    return open_database(home / INDEX_FILE, busy_s=busy_s)


def open_database(path: Path, *, busy_s: float = BUSY_S, cache_kib: int = PAGE_CACHE_KIB) -> sqlite3.Connection:
    """Open or create an index file; as `open_index_file`. `cache_kib` bounds the pages that it keeps in memory."""
    try:
        connection = _open(path, busy_s)
    except sqlite3.DatabaseError as error:
        if not is_broken(error):
            raise
        discard_database(path)
        connection = _open(path, busy_s)
    connection.execute(f"PRAGMA cache_size = -{cache_kib}")
    return connection


def pages_file(home: Path, run_id: str) -> Path:
    """Return the path of the index of a single run of `home`."""
    return home / PAGES_FOLDER / f"{run_id}.db"


def remove_pages_files(home: Path, run_ids: Collection[str]) -> None:
    """Delete the indexes of single runs but those of `run_ids`."""
    for path in (home / PAGES_FOLDER).glob("*.db*"):
        if path.name.partition(".db")[0] not in run_ids:
            path.unlink(missing_ok=True)


def is_broken(error: sqlite3.Error) -> bool:
    """Return True if the file itself is broken, so that replacing it helps."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _BROKEN_FILE_CODES


def discard_database(path: Path) -> None:
    """Delete a broken index file, unless another process has replaced it already."""
    descriptor = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if not _is_sound(path):
            for each in (path, *(path.with_name(f"{path.name}-{end}") for end in ("wal", "shm"))):
                each.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


def _is_sound(path: Path) -> bool:
    try:
        with closing(_connect(str(path))) as connection:
            check: tuple[str] = connection.execute("PRAGMA quick_check").fetchone()
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            return check == ("ok",) and _is_ours(connection) and tables.issuperset(TABLES_OF_RUN)
    except sqlite3.Error:
        return False


def _open(path: Path, busy_s: float) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    connection = _connect(str(path), busy_s=busy_s)
    try:
        _use_wal(connection, busy_s)
        connection.execute("PRAGMA synchronous = NORMAL")
        _ensure_tables(connection, busy_s=busy_s)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Switch to WAL, so that readers and the writer do not block each other; SQLite ignores it where unsupported.

    When two processes create the file at once, SQLite fails in one without waiting for its timeout, so this retries.
    """
    ends_at = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= ends_at:
                raise
            time.sleep(BUSY_STEP_S)
        else:
            return


def _connect(name: str, *, busy_s: float = BUSY_S) -> sqlite3.Connection:
    # One thread at a time may use it; which one it is, is up to the caller.
    connection = sqlite3.connect(name, timeout=busy_s, isolation_level=None, check_same_thread=False)
    connection.execute(f"PRAGMA cache_size = -{PAGE_CACHE_KIB}")
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.create_function("fits", 2, fnmatchcase, deterministic=True)
    return connection


def _ensure_tables(connection: sqlite3.Connection, *, busy_s: float = BUSY_S) -> None:
    """Drop the tables of another version or a foreign database, and create those of this version.

    Another process may create the tables meanwhile, and then write without a pause (Indexer); so this does not wait for
    its turn to write, but looks again.
    """
    ends_at = time.monotonic() + busy_s
    connection.execute(f"PRAGMA busy_timeout = {BUSY_STEP_S * 1000:.0f}")
    while not _is_ours(connection):
        try:
            _make_tables(connection)
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= ends_at:
                raise
    connection.execute(f"PRAGMA busy_timeout = {busy_s * 1000:.0f}")


def _make_tables(connection: sqlite3.Connection) -> None:
    with writing(connection):
        if _is_ours(connection):
            return
        table_names = """
            SELECT name FROM sqlite_master
            WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'words_%'"""
        for (name,) in connection.execute(table_names).fetchall():
            quoted = name.replace('"', '""')
            connection.execute(f'DROP TABLE "{quoted}"')
        for statement in TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {VERSION}")


def _is_busy(error: sqlite3.Error) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _is_ours(connection: sqlite3.Connection) -> bool:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return bool((application, version) == (APPLICATION_ID, VERSION))


@contextmanager
def reading(connection: sqlite3.Connection) -> Iterator[None]:
    """Read one snapshot of the index in the whole block, which may write to temporary tables."""
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


@contextmanager
def writing(connection: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one write transaction: commit all of it, or roll back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
