"""The index of the stored runs: what it answers, it answers as the run folders would, only sooner.

It is derived: a broken or locked index costs time and no answer, for then the folders are read into one in memory.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from agentv.storage.find_run import list_run_folders, runs_folder
from agentv.storage.index_file import discard_index_file, index_in_memory, is_broken, open_index_file, reading
from agentv.storage.index_lines import read_tags
from agentv.storage.index_query import cells_statement, page_statement
from agentv.storage.index_refresh import forget_missing, refresh_run
from agentv.storage.index_schema import TAG_SETS
from agentv.storage.index_sums import find_sums
from agentv.storage.list_runs import ListedRun, list_runs, read_listed
from agentv.storage.row_query import Cell, RowEntry, RowPage, RowQuery, facets_of, total_of
from agentv.storage.run_lock import is_being_written
from agentv.storage.run_sums import SumsByPlace, load_sums
from agentv.storage.stored_run import StoredRun
from agentv.types.records.answer import Slot

Found = TypeVar("Found")


class RunIndex:
    """Answers questions about the runs below `home`, and about one elsewhere without keeping it.

    `note` is told once when the index cannot be used. For one thread; `close` lets go of the file.
    """

    def __init__(self, home: Path, *, note: Callable[[str], None], busy_s: float = 5.0) -> None:
        self._home = home
        self._note = note
        self._busy_s = busy_s
        self._file: sqlite3.Connection | None = None
        self._memory: sqlite3.Connection | None = None
        self._is_usable = True

    def runs(self) -> tuple[ListedRun, ...]:
        """Return all runs, oldest first."""
        found = self._ask_file(self._listed)
        return list_runs(self._home) if found is None else found

    def page(self, stored: StoredRun, query: RowQuery) -> RowPage:
        """Return one page of a run's current rows. Raises OSError when its rows cannot be read."""

        def ask(connection: sqlite3.Connection) -> RowPage:
            return _page(connection, stored.folder, query)

        is_ours = stored.folder.resolve().parent == runs_folder(self._home).resolve()
        found = self._ask_file(ask) if is_ours else None
        if found is not None:
            return found
        self._memory = self._memory or index_in_memory()
        return ask(self._memory)

    def sums(self, folder: Path) -> SumsByPlace:
        """Return what each suite and target of a run below `home` came to.

        Raises OSError when its rows cannot be read.
        """
        found = self._ask_file(lambda connection: find_sums(connection, folder))
        return load_sums(StoredRun(folder)) if found is None else found

    def close(self) -> None:
        """Let go of the index."""
        for connection in (self._file, self._memory):
            if connection is not None:
                connection.close()
        self._file = self._memory = None

    def _ask_file(self, ask: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Return what the index on disk answers, None when it cannot; a broken one is thrown away."""
        if not self._is_usable:
            return None
        try:
            self._file = self._file or open_index_file(self._home, busy_s=self._busy_s)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return None
        try:
            return ask(self._file)
        except sqlite3.Error as error:
            self._file.close()
            self._file = None
            if is_broken(error):
                with suppress(OSError):
                    discard_index_file(self._home)
            self._give_up(error)
            return None

    def _give_up(self, error: Exception) -> None:
        self._is_usable = False
        self._note(f"the index of the runs in {self._home} cannot be used ({error}); their folders are read instead")

    def _listed(self, connection: sqlite3.Connection) -> tuple[ListedRun, ...]:
        folders = list_run_folders(self._home)
        forget_missing(connection, folders)
        return tuple(_listed_run(connection, folder) for folder in folders)


def _listed_run(connection: sqlite3.Connection, folder: Path) -> ListedRun:
    """Return a run as the folder itself would tell it, which it does when something of it cannot be read."""
    try:
        stored = StoredRun(folder)
        known = refresh_run(connection, folder)
    except OSError:
        return read_listed(folder)
    if known.skipped or not known.is_readable:
        return read_listed(folder)
    state = known.ended or ("running" if is_being_written(folder) else "interrupted")
    return ListedRun(folder, state, stored.run, known.counts)


def _page(connection: sqlite3.Connection, folder: Path, query: RowQuery) -> RowPage:
    known = refresh_run(connection, folder)
    with reading(connection):
        cells = _cells(connection, known.run, query)
        rows = tuple(map(_entry, connection.execute(*page_statement(known.run, query))))
    return RowPage(rows, total_of(cells, query), facets_of(cells, query), known.counts, known.skipped)


def _cells(connection: sqlite3.Connection, run: int, query: RowQuery) -> list[Cell]:
    found = connection.execute(*cells_statement(run, query)).fetchall()
    tags = {number: read_tags(text) for number, text in connection.execute(TAG_SETS, {"run": run})}
    return [Cell(suite, target, state, tags.get(tag_set, ()), rows) for suite, target, state, tag_set, rows in found]


def _entry(found: tuple[Any, ...]) -> RowEntry:
    line, offset, size, suite, eval_id, target, trial, generation, state, score, cost_usd, duration_ms = found
    slot = Slot(suite, eval_id, target, trial)
    return RowEntry(line, offset, size, slot, generation, state, score, cost_usd, duration_ms)
