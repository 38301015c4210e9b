"""Update the index from the run folders: add lines that were appended, and remove runs whose folders are gone."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from agentv.storage.files.run_file import size_of, stamp_of
from agentv.storage.index import schema as sql
from agentv.storage.index.entries import add_trials, rebuild_entries
from agentv.storage.index.file import writing
from agentv.storage.index.lines import BATCH_LINES, RESULTS_FILE, LineBatch, ResultLineReader, tail_digest
from agentv.storage.run.blobs import BlobFolder
from agentv.storage.run.stored import StoredRun

_RESTORE_RETIRED = "UPDATE rows SET current = 1 WHERE run = :run AND current = 2"
_MARK_RETIRED = """
UPDATE rows INDEXED BY by_case SET current = 2
WHERE run = :run AND current = 1 AND eval_id = :eval_id AND trial = :trial AND EXISTS (
    SELECT 1 FROM cells WHERE cells.run = rows.run AND cells.cell = rows.cell
      AND suite = :suite AND target = :target AND prompt = :prompt)
"""
_SET_COUNTS = "UPDATE runs SET counts = :counts, entries = :entries WHERE run = :run"


def restore_retired(connection: sqlite3.Connection, run: int) -> bool:
    """Undo `mark_retired`, before rows are added; return True if there was something to undo."""
    return connection.execute(_RESTORE_RETIRED, {"run": run}).rowcount > 0


def mark_retired(connection: sqlite3.Connection, run: int, folder: Path) -> bool:
    """Mark the rows of cases that are no longer in the suite, which are not counted; return True if there are any.

    Does nothing if an event of the run cannot be read.
    """
    try:
        retired = StoredRun(folder).retired()
    except OSError:
        return False
    keys = [{"run": run, "prompt": "", **key.to_json()} for key in retired]
    connection.executemany(_MARK_RETIRED, keys)
    return bool(keys)


EVENTS_FILE = "events.jsonl"

_LINE = 1
"""The place of the line in the rows of a batch."""
_LINES_PER_TRANSACTION = 100_000
"""The most lines added in one transaction; other processes can write between transactions."""


class IndexedRun(Struct, frozen=True):
    """The index's entry for a run: how far its files were read, and the counts."""

    run: int
    results_stamp: str
    events_stamp: str
    end_offset: int
    lines: int
    skipped: int
    tail: bytes
    has_generations: bool
    counts_json: str
    entries: int
    """The number of cases with their prompts and targets, of each of which all trials are one."""
    ended: str | None
    """The final state that the run's events record."""
    is_readable: bool
    """False when an event cannot be read."""

    @property
    def counts(self) -> Mapping[str, int]:
        """The numbers of current results by state."""
        counts: Mapping[str, int] = json.loads(self.counts_json)
        return counts


def find_indexed(connection: sqlite3.Connection, folder: str) -> IndexedRun | None:
    """Return the entry of the run whose folder has this name, or None."""
    found: tuple[Any, ...] | None = connection.execute(sql.FIND_RUN, {"folder": folder}).fetchone()
    if found is None:
        return None
    return IndexedRun(*found)


class Refreshed(Struct, frozen=True):
    """The entry of a run, and whether it has all lines that the run's files had when it was made."""

    run: IndexedRun
    is_complete: bool


def refresh_run(connection: sqlite3.Connection, folder: Path) -> IndexedRun:
    """Update the entry of one run and return it. Raises OSError when its results cannot be read."""
    while True:
        refreshed = refresh_step(connection, folder, lines=_LINES_PER_TRANSACTION)
        if refreshed.is_complete:
            return refreshed.run


def refresh_step(connection: sqlite3.Connection, folder: Path, *, lines: int) -> Refreshed:
    """Add up to `lines` new lines of a run in one transaction. Raises OSError when its results cannot be read.

    Lines that were appended after the call began may be missing until the next call.
    """
    results, events = stamp_of(folder / RESULTS_FILE), stamp_of(folder / EVENTS_FILE)
    known = find_indexed(connection, folder.name)
    if known is not None and (known.results_stamp, known.events_stamp) == (results, events):
        return Refreshed(known, is_complete=True)
    with writing(connection):
        known = _find_or_add(connection, folder)
        changes_counts = restore_retired(connection, known.run)
        if known.results_stamp != results:
            changes_counts |= _add_new_lines(connection, folder, known, stamp=results, most=lines)
            known = _find_or_add(connection, folder)  # a new entry if the file was rewritten
        if known.events_stamp != events:
            _store_end_state(connection, folder, known, stamp=events)
        changes_counts |= mark_retired(connection, known.run, folder)
        if changes_counts:
            connection.execute(sql.RECOUNT, {"run": known.run})
            rebuild_entries(connection, known.run)
        counted = connection.execute(sql.COUNT_STATES, {"run": known.run}).fetchall()
        counts = json.dumps({state: results for state, results, _ in counted})
        entries = sum(shown for _, _, shown in counted)
        connection.execute(_SET_COUNTS, {"run": known.run, "counts": counts, "entries": entries})
        added = _find_or_add(connection, folder)
    return Refreshed(added, is_complete=added.results_stamp == results)


def forget_missing(connection: sqlite3.Connection, folders: Iterable[Path]) -> None:
    """Remove the runs whose folders are gone."""
    names = {folder.name for folder in folders}
    gone = [run for run, name in connection.execute("SELECT run, folder FROM runs") if name not in names]
    if gone:
        with writing(connection):
            for run in gone:
                _forget(connection, run)


def _find_or_add(connection: sqlite3.Connection, folder: Path) -> IndexedRun:
    found = find_indexed(connection, folder.name)
    if found is None:
        connection.execute(sql.ADD_RUN, {"folder": folder.name})
        found = find_indexed(connection, folder.name)
    if found is None:
        raise sqlite3.DataError("a run that was added is missing")
    return found


def _forget(connection: sqlite3.Connection, run: int) -> None:
    for table in sql.TABLES_OF_RUN:
        connection.execute(f"DELETE FROM {table} WHERE run = :run", {"run": run})  # noqa: S608 - constant table names


def _add_new_lines(connection: sqlite3.Connection, folder: Path, known: IndexedRun, *, stamp: str, most: int) -> bool:
    """Add up to `most` new lines; when no line is left, mark those that count, and return True if that was needed.

    Without the stamp, which is set then, an entry is incomplete, and every reader adds the rest first.
    """
    path = folder / RESULTS_FILE
    if known.end_offset and not _was_appended_to(path, known):
        _forget(connection, known.run)
        return _add_new_lines(connection, folder, _find_or_add(connection, folder), stamp=stamp, most=most)
    reader = ResultLineReader(known.run, path, resolve=BlobFolder(folder / "blobs").resolve)
    skipped, has_generations = known.skipped, known.has_generations
    end_offset, lines, is_done = known.end_offset, known.lines, True
    for batch in reader.batches(end_offset=end_offset, lines=lines, size=min(most, BATCH_LINES)):
        _add(connection, batch)
        skipped += batch.skipped
        has_generations |= batch.has_generations
        end_offset, lines = batch.end_offset, batch.lines
        if lines - known.lines >= most:
            is_done = False
            break
    if has_generations and is_done:
        _mark_counted(connection, known.run, folder, lines)
    values = {
        "run": known.run,
        "stamp": stamp if is_done else "",
        "end_offset": end_offset,
        "lines": lines,
        "skipped": skipped,
        "tail": tail_digest(path, end_offset),
        "has_generations": has_generations,
    }
    connection.execute(sql.MARK_RESULTS, values)
    return has_generations and is_done


def _was_appended_to(path: Path, known: IndexedRun) -> bool:
    try:
        return size_of(path) >= known.end_offset and tail_digest(path, known.end_offset) == known.tail
    except FileNotFoundError:
        return False


def _add(connection: sqlite3.Connection, batch: LineBatch) -> None:
    connection.executemany(sql.ADD_CELL, batch.cells)
    results = Counter(each.cell for each in batch.trials)
    connection.executemany(sql.ADD_RESULTS, [(count, batch.run, cell) for cell, count in results.items()])
    shown = add_trials(connection, batch.run, batch.trials)
    connection.executemany(sql.ADD_ROW, [(*row, row[_LINE] in shown) for row in batch.rows])
    connection.executemany(sql.ADD_TAG_SET, batch.tag_sets)
    connection.executemany(sql.ADD_TAG, batch.tags)
    connection.executemany(sql.ADD_OUTCOME_SET, batch.outcome_sets)
    connection.executemany(sql.ADD_OUTCOME, batch.outcomes)
    connection.executemany(sql.ADD_METADATA, batch.metadata)


def _mark_counted(connection: sqlite3.Connection, run: int, folder: Path, lines: int) -> None:
    """Mark which of the first `lines` rows count; do nothing if one of them cannot be read, as reading it reports."""
    try:
        not_counted = [{"run": run, "line": line} for line in StoredRun(folder).uncounted_lines(lines=lines)]
    except OSError:
        return
    connection.execute(sql.COUNT_ALL, {"run": run})
    connection.executemany(sql.COUNT_NOT, not_counted)


def _store_end_state(connection: sqlite3.Connection, folder: Path, known: IndexedRun, *, stamp: str) -> None:
    """Store the state in which the run ended, or that its events cannot be read."""
    try:
        ended, is_readable = StoredRun(folder).ended(), True
    except OSError:
        ended, is_readable = None, False
    values = {"run": known.run, "stamp": stamp, "ended": ended, "is_readable": is_readable}
    connection.execute(sql.MARK_EVENTS, values)
