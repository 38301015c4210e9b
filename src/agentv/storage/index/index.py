"""The index of the stored runs: answers the same queries as the run folders, but faster.

It is derived from the folders. When it is broken or locked, they are read instead; pages of results then come from an
index in memory.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec

from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.storage.index import schema as sql
from agentv.storage.index.file import (
    INDEX_FILE,
    discard_database,
    index_in_memory,
    is_broken,
    open_index_file,
    reading,
    remove_pages_files,
    writing,
)
from agentv.storage.index.lines import Outcomes, read_outcomes, read_tags
from agentv.storage.index.refresh import forget_missing, refresh_run
from agentv.storage.index.row_query import Cell, RowEntry, RowPage, RowQuery, facets_of, total_of
from agentv.storage.index.statements import Statement, cells_statement, page_statement
from agentv.storage.run.find import ListedRun, list_run_folders, list_runs, read_listed, runs_folder
from agentv.storage.run.lock import is_being_written
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import ResultKey
from agentv.types.summaries import Interval, IntervalMethod

SumsBySuiteAndTarget: TypeAlias = Mapping[tuple[str, str], RunSums]
"""The sums of a run by suite and target."""

# The stored forms of ClusterMoments and Interval: their fields in order.
_Moments: TypeAlias = tuple[int, int, float, float, float, float, tuple[float, float, float, float]]
_Bounds: TypeAlias = tuple[float, float, IntervalMethod, float]


class _StoredSums(msgspec.Struct, frozen=True, array_like=True):
    counts: dict[str, int]
    scores: _Moments
    passes: _Moments
    cost_usd: float | None
    evaluators: dict[str, tuple[_Moments, _Moments]]
    latencies: dict[str, tuple[float, _Bounds | None]]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_StoredSums).decode


def load_sums(stored: StoredRun) -> SumsBySuiteAndTarget:
    """Sum up a run's current results by suite and target. Raises OSError when one of them cannot be read."""
    may_repeat = stored.may_repeat_cases()
    summaries: dict[tuple[str, str], Summary] = {}
    for row in stored.results():
        key = (row.slot.suite, row.slot.target)
        summary = summaries.get(key)
        if summary is None:
            summary = summaries[key] = Summary(by=(), has_shared_cases=False)
        summary.add(row, has_trials=may_repeat)
    return {key: RunSums.of(summary) for key, summary in sorted(summaries.items())}  # in the order of the index, too


def encode_sums(sums: RunSums) -> bytes:
    """Return sums encoded for the index."""
    return _encode(
        _StoredSums(
            counts=dict(sums.counts),
            scores=msgspec.structs.astuple(sums.scores),
            passes=msgspec.structs.astuple(sums.passes),
            cost_usd=sums.cost_usd,
            evaluators={
                name: (msgspec.structs.astuple(scores), msgspec.structs.astuple(passes))
                for name, (scores, passes) in sums.evaluators.items()
            },
            latencies={
                name: (value, None if found is None else msgspec.structs.astuple(found))
                for name, (value, found) in sums.latencies.items()
            },
        )
    )


def decode_sums(data: bytes) -> RunSums:
    """Decode the output of `encode_sums`."""
    found = _decode(data)
    return RunSums(
        counts=found.counts,
        scores=ClusterMoments(*found.scores),
        passes=ClusterMoments(*found.passes),
        cost_usd=found.cost_usd,
        evaluators={
            name: (ClusterMoments(*scores), ClusterMoments(*passes))
            for name, (scores, passes) in found.evaluators.items()
        },
        latencies={
            name: (value, None if bounds is None else Interval(*bounds))
            for name, (value, bounds) in found.latencies.items()
        },
    )


def find_sums(connection: sqlite3.Connection, folder: Path) -> SumsBySuiteAndTarget:
    """Return a run's sums, recomputed if the run changed. Raises OSError when its results cannot be read."""
    known = refresh_run(connection, folder)
    stamp = f"{known.results_stamp} {known.events_stamp}"
    with reading(connection):
        (summed,) = connection.execute(sql.SUMMED_STAMP, {"run": known.run}).fetchone()
        if summed == stamp:
            rows = connection.execute(sql.FIND_SUMS, {"run": known.run}).fetchall()
            return {(suite, target): decode_sums(sums) for suite, target, sums in rows}
    # Results that are added meanwhile may be counted; they change the stamp, so the next call counts again.
    counted = load_sums(StoredRun(folder))
    with writing(connection):
        connection.execute(sql.FORGET_SUMS, {"run": known.run})
        added = [(known.run, suite, target, encode_sums(sums)) for (suite, target), sums in counted.items()]
        connection.executemany(sql.ADD_SUMS, added)
        connection.execute(sql.MARK_SUMS, {"run": known.run, "stamp": stamp})
    return counted


Found = TypeVar("Found")


class RunIndex:
    """Queries over the runs below `home`, and over runs elsewhere, which are indexed in memory only.

    `note` is called once, with a message, when the index cannot be used. Not thread-safe; `close` closes the file.
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
        found = self._query_file(self._list_runs)
        return list_runs(self._home) if found is None else found

    def page(self, stored: StoredRun, query: RowQuery) -> RowPage:
        """Return one page of a run's current results, by its number.

        Raises OSError when they cannot be read, ValueError for words and cursors, which RunPages has.
        """
        if query.q or query.after is not None or query.before is not None:
            raise ValueError("words and cursors need the index of a single run (RunPages)")

        def read_page(connection: sqlite3.Connection) -> RowPage:
            return _page(connection, stored.folder, query)

        is_ours = stored.folder.resolve().parent == runs_folder(self._home).resolve()
        found = self._query_file(read_page) if is_ours else None
        if found is not None:
            return found
        self._memory = self._memory or index_in_memory()
        return read_page(self._memory)

    def sums(self, folder: Path) -> SumsBySuiteAndTarget:
        """Return the sums of a run below `home` by suite and target.

        Raises OSError when its results cannot be read.
        """
        found = self._query_file(lambda connection: find_sums(connection, folder))
        return load_sums(StoredRun(folder)) if found is None else found

    def release_memory(self) -> None:
        """Forget the pages of the file that are kept in memory."""
        if self._file is not None:
            self._file.execute("PRAGMA shrink_memory")

    def close(self) -> None:
        """Close the index."""
        for connection in (self._file, self._memory):
            if connection is not None:
                connection.close()
        self._file = self._memory = None

    def _query_file(self, query: Callable[[sqlite3.Connection], Found]) -> Found | None:
        """Return the result of `query` on the index on disk, None when that fails; delete a broken index."""
        if not self._is_usable:
            return None
        try:
            self._file = self._file or open_index_file(self._home, busy_s=self._busy_s)
        except (sqlite3.Error, OSError) as error:
            self._stop_using(error)
            return None
        try:
            return query(self._file)
        except sqlite3.Error as error:
            self._file.close()
            self._file = None
            if is_broken(error):
                with suppress(OSError):
                    discard_database(self._home / INDEX_FILE)
            self._stop_using(error)
            return None

    def _stop_using(self, error: Exception) -> None:
        self._is_usable = False
        self._note(f"the index of the runs in {self._home} cannot be used ({error}); their folders are read instead")

    def _list_runs(self, connection: sqlite3.Connection) -> tuple[ListedRun, ...]:
        folders = list_run_folders(self._home)
        forget_missing(connection, folders)
        with suppress(OSError):
            remove_pages_files(self._home, {folder.name for folder in folders})
        return tuple(_listed_run(connection, folder) for folder in folders)


def _listed_run(connection: sqlite3.Connection, folder: Path) -> ListedRun:
    """Return a run of the list from the index.

    If a file or a line of the run cannot be read, return the result of `read_listed`, which reads the folder and
    describes the problem.
    """
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
        cells = read_cells(connection, known.run, cells_statement(known.run, query))
        outcomes = read_outcome_sets(connection, known.run)
        rows = tuple(read_entries(connection, page_statement(known.run, query), outcomes))
    return RowPage(
        rows=rows,
        total=total_of(cells, query),
        facets=facets_of(cells, query),
        counts=known.counts,
        skipped=known.skipped,
    )


def read_cells(connection: sqlite3.Connection, run: int, statement: Statement) -> list[Cell]:
    """Return the cells that a statement of `cells_statement` counts."""
    found = connection.execute(*statement).fetchall()
    tags = {number: read_tags(text) for number, text in connection.execute(sql.TAG_SETS, {"run": run})}
    outcomes = read_outcome_sets(connection, run)
    return [
        Cell(suite, target, prompt, state, tags.get(tag_set, ()), outcomes.get(outcome_set, ()), rows)
        for suite, target, prompt, state, tag_set, outcome_set, rows in found
    ]


def read_outcome_sets(connection: sqlite3.Connection, run: int) -> dict[int, Outcomes]:
    """Return the sets of outcomes of a run by number."""
    return {number: read_outcomes(text) for number, text in connection.execute(sql.OUTCOME_SETS, {"run": run})}


def read_entries(
    connection: sqlite3.Connection, statement: Statement, outcomes: Mapping[int, Outcomes]
) -> Iterator[RowEntry]:
    """Yield the rows that a statement selects, which has ENTRY_COLUMNS."""
    for found in connection.execute(*statement):
        line, offset, size, suite, eval_id, target, trial, prompt, generation, state, *amounts, outcome_set, answer = (
            found
        )
        slot = ResultKey(suite, eval_id, target, trial=trial, prompt=prompt or None)
        score, cost_usd, duration_ms = amounts
        yield RowEntry(
            line=line,
            offset=offset,
            size=size,
            slot=slot,
            generation=generation,
            state=state,
            score=score,
            cost_usd=cost_usd,
            duration_ms=duration_ms,
            outcomes=outcomes.get(outcome_set, ()),
            answer_seq=answer,
        )
