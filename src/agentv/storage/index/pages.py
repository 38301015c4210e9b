"""Pages of one run's results by cursor, read from an index file of that run alone while an Indexer fills it."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from agentv.storage.files.run_file import size_of, stamp_of
from agentv.storage.index.cursor import decode_cursor, encode_cursor
from agentv.storage.index.entries import count_trials
from agentv.storage.index.file import BUSY_S, discard_database, is_broken, open_database, reading
from agentv.storage.index.index import read_cells, read_entries, read_outcome_sets
from agentv.storage.index.indexer import Stage, find_stage
from agentv.storage.index.lines import RESULTS_FILE
from agentv.storage.index.paging import FEW, Place, Selection, find_driver, find_places
from agentv.storage.index.refresh import IndexedRun, find_indexed
from agentv.storage.index.row_query import (
    Counted,
    CursorPage,
    Progress,
    RowEntry,
    RowQuery,
    facets_of,
    total_of,
)
from agentv.storage.index.statements import ENTRY_COLUMNS, Statement, cells_statement
from agentv.storage.index.texts import PREVIEW, RowTexts, StoredDetail, TextReader
from agentv.storage.index.words import FOUND, find_words
from agentv.storage.records.json_line import encode

_MOST_CELLS = 5_000
"""Facets of more cells are not counted with a page."""

_MOST_REMEMBERED = 64
"""The most queries whose counts are remembered."""

_CACHE_KIB = 8 * 1024

Found = TypeVar("Found")


class RunPages:
    """Pages of the run in `folder`, from what an Indexer has added to `file` so far; it adds nothing itself.

    One thread at a time may use it. A file that was deleted, as it may be at any time, is opened anew. Methods raise
    sqlite3.Error when the file cannot be used. Fewer than `few` results are collected and sorted rather than found by
    walking an index in the order of the query.
    """

    def __init__(self, file: Path, folder: Path, *, busy_s: float = BUSY_S, few: int = FEW) -> None:
        self._file = file
        self.folder = folder
        self._busy_s = busy_s
        self._few = few
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._found: tuple[str, Stage, tuple[str, ...]] | None = None
        """The text whose words were found, at which stage, and the words."""
        self._counted: dict[bytes, tuple[object, Counted]] = {}

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
        self._connection = self._found = None

    def page(self, query: RowQuery) -> CursorPage:
        """Return the page after `query.after`, or before `query.before`; the first without both.

        Raises ValueError for a broken cursor, and for one of another order.
        """
        return self.on_snapshot(lambda connection: self._page(connection, query))

    def count(self, query: RowQuery) -> Counted:
        """Return the number of results that match, and their facets, however long it takes."""
        return self.on_snapshot(lambda connection: self._count(connection, query))

    def progress(self) -> Progress:
        """Return how far the run is indexed."""
        return self.on_snapshot(lambda connection: self._progress(*self._state(connection)))

    def rows_at(self, lines: Sequence[int]) -> tuple[RowEntry, ...]:
        """Return the rows of lines of results.jsonl, counted from 1, in the given order; unknown lines are left out."""

        def read(connection: sqlite3.Connection) -> tuple[RowEntry, ...]:
            known = find_indexed(connection, self.folder.name)
            return () if known is None else _rows_at(connection, known.run, lines)

        return self.on_snapshot(read)

    def texts(self, rows: Sequence[RowEntry], *, limit: int = PREVIEW) -> tuple[RowTexts, ...]:
        """Return question, answer and reasons of rows, of each text the first `limit` characters.

        Raises StorageError when they cannot be read.
        """
        return self._read_texts(lambda reader: reader.texts(rows, limit=limit))

    def details(self, rows: Sequence[RowEntry]) -> tuple[StoredDetail, ...]:
        """Return the whole results of rows, each with its stored case and answer.

        Raises StorageError when they cannot be read.
        """
        return self._read_texts(lambda reader: reader.details(rows))

    def _read_texts(self, read: Callable[[TextReader], Found]) -> Found:
        def read_from(connection: sqlite3.Connection) -> Found:
            known = find_indexed(connection, self.folder.name)
            with closing(TextReader(connection, -1 if known is None else known.run, self.folder)) as reader:
                return read(reader)

        return self.on_snapshot(read_from)

    def on_snapshot(self, read: Callable[[sqlite3.Connection], Found]) -> Found:
        """Return the result of `read` on one snapshot; replace a broken file, which is then empty, once."""
        try:
            return self._read_once(read)
        except sqlite3.DatabaseError as error:
            self.close()
            if not is_broken(error):
                raise
            discard_database(self._file)
            return self._read_once(read)

    def _read_once(self, read: Callable[[sqlite3.Connection], Found]) -> Found:
        if self._connection is not None and self._inode != _inode_of(self._file):
            self.close()  # an Indexer fills the file that has replaced it
        if self._connection is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._inode = _inode_of(self._file)
            self._connection = open_database(self._file, busy_s=self._busy_s, cache_kib=_CACHE_KIB)
        with reading(self._connection):
            return read(self._connection)

    def _state(self, connection: sqlite3.Connection) -> tuple[IndexedRun | None, Stage | None]:
        known = find_indexed(connection, self.folder.name)
        return known, None if known is None else find_stage(connection, known.run)

    def _progress(self, known: IndexedRun | None, stage: Stage | None) -> Progress:
        if known is None:
            return Progress(lines=0, share=0.0, is_complete=False, words_share=0.0)
        path = self.folder / RESULTS_FILE
        size = max(size_of(path), 1)
        is_complete = known.results_stamp == stamp_of(path) and stage is not None and bool(stage.is_sorted)
        words = 0.0 if stage is None else 1.0 if known.lines == stage.words else stage.words_end / size
        share = 1.0 if is_complete else min(1.0, known.end_offset / size)
        return Progress(lines=known.lines, share=share, is_complete=is_complete, words_share=min(1.0, words))

    def _page(self, connection: sqlite3.Connection, query: RowQuery) -> CursorPage:
        if query.after is not None and query.before is not None:
            raise ValueError("a page is after a cursor or before one, not both")
        is_backward = query.before is not None
        text = query.before if is_backward else query.after
        cursor = None if text is None else decode_cursor(text, query)
        known, stage = self._state(connection)
        if known is None:
            return CursorPage((), None, None, None, {}, 0, 0, (), self._progress(known, stage))
        selection = self._selection(connection, known, stage, query)
        size = query.page_size or max(selection.current, 1)
        found = find_places(connection, selection, cursor, is_backward=is_backward, count=size + 1)
        has_more = len(found) > size
        places = found[-size:] if is_backward else found[:size]
        has_before, has_after = (has_more, True) if is_backward else (cursor is not None, has_more)
        return CursorPage(
            rows=_listed(connection, known.run, query, [line for line, _ in places]),
            after=_cursor(query, places[-1]) if places and has_after else None,
            before=_cursor(query, places[0]) if places and has_before else None,
            counted=self._count_if_cheap(connection, selection, known, stage),
            counts=known.counts,
            entries=known.entries,
            skipped=known.skipped,
            words=selection.words,
            progress=self._progress(known, stage),
        )

    def _selection(
        self, connection: sqlite3.Connection, known: IndexedRun, stage: Stage | None, query: RowQuery
    ) -> Selection:
        words: tuple[str, ...] = ()
        if query.q and stage is not None:
            if self._found is None or self._found[:2] != (query.q, stage):
                self._found = None
                self._found = query.q, stage, find_words(connection, query.q)
            words = self._found[2]
        is_sorted = stage is not None and bool(stage.is_sorted)
        return Selection(known.run, query, words, sum(known.counts.values()), is_sorted, self._few)

    def _count(self, connection: sqlite3.Connection, query: RowQuery) -> Counted:
        known, stage = self._state(connection)
        if known is None:
            return Counted(0, facets_of((), query))
        selection = self._selection(connection, known, stage, query)
        driver = find_driver(connection, selection, with_cells=False) if selection.by_row else None
        return self._counted_by(connection, selection, known, stage, driver)

    def _count_if_cheap(
        self, connection: sqlite3.Connection, selection: Selection, known: IndexedRun, stage: Stage | None
    ) -> Counted | None:
        """Return the counts if they are known, or few results or no more than some thousand cells are visited."""
        remembered = self._counted.get(_counting(selection.query))
        if remembered is not None and remembered[0] == (known, stage):
            return remembered[1]
        driver = None
        if selection.by_row:
            driver = find_driver(connection, selection, with_cells=False)
            if driver is None and selection.current > selection.most_collected:
                return None
        elif _count_cells(connection, known.run) > _MOST_CELLS:
            return None
        return self._counted_by(connection, selection, known, stage, driver)

    def _counted_by(
        self,
        connection: sqlite3.Connection,
        selection: Selection,
        known: IndexedRun,
        stage: Stage | None,
        driver: str | None,
    ) -> Counted:
        query = selection.query
        statement = cells_statement(known.run, query, more=[FOUND] if selection.words else (), source=driver or "rows")
        cells = read_cells(connection, known.run, statement)
        counted = Counted(total_of(cells, query), facets_of(cells, query))
        if len(self._counted) >= _MOST_REMEMBERED:
            self._counted.clear()
        self._counted[_counting(query)] = (known, stage), counted
        return counted


def _inode_of(file: Path) -> int | None:
    try:
        return file.stat().st_ino
    except FileNotFoundError:
        return None


def _counting(query: RowQuery) -> bytes:
    """Return what identifies the counts of a query: all of it but the order and the page."""
    return encode(replace(query, sort="written", is_descending=False, page=1, page_size=1, after=None, before=None))


def _count_cells(connection: sqlite3.Connection, run: int) -> int:
    statement = "SELECT count(*) FROM (SELECT 1 FROM cells WHERE run = :run LIMIT :most)"
    (count,) = connection.execute(statement, {"run": run, "most": _MOST_CELLS + 1}).fetchone()
    return int(count)


def _cursor(query: RowQuery, place: Place) -> str:
    line, value = place
    return encode_cursor(query, value, line)


def _listed(connection: sqlite3.Connection, run: int, query: RowQuery, lines: Sequence[int]) -> tuple[RowEntry, ...]:
    """Return the rows of lines, with the number of trials for which each stands."""
    rows = _rows_at(connection, run, lines)
    if not query.one_trial:
        return rows
    names = [(row.slot.suite, row.slot.eval_id, row.slot.target, row.slot.prompt or "") for row in rows]
    counts = count_trials(connection, run, names)
    return tuple(replace(row, trials=counts.get(name)) for row, name in zip(rows, names, strict=True))


def _rows_at(connection: sqlite3.Connection, run: int, lines: Sequence[int]) -> tuple[RowEntry, ...]:
    """Return the rows of lines, in their order."""
    listed = ", ".join(str(int(line)) for line in lines)
    text = f"SELECT {ENTRY_COLUMNS} FROM rows JOIN cells USING (run, cell) WHERE run = :run AND line IN ({listed})"  # noqa: S608 - numbers
    outcomes = read_outcome_sets(connection, run)
    entries = {entry.line: entry for entry in read_entries(connection, Statement(text, {"run": run}), outcomes)}
    return tuple(entries[line] for line in lines if line in entries)
