"""The index of the stored runs: answers the same queries as the run folders, but faster.

It is derived from the folders. When it is broken or locked, they are read instead; pages of results then come from an
index in memory.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.storage.index import schema as sql
from agentv.storage.index.file import discard_index_file, index_in_memory, is_broken, open_index_file, reading, writing
from agentv.storage.index.lines import read_tags
from agentv.storage.index.refresh import forget_missing, refresh_run
from agentv.storage.index.row_query import Cell, RowEntry, RowPage, RowQuery, SortKey, facets_of, total_of
from agentv.storage.index.schema import TAG_SETS
from agentv.storage.run.find import ListedRun, list_run_folders, list_runs, read_listed, runs_folder
from agentv.storage.run.lock import is_being_written
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import ResultKey
from agentv.types.summaries import Interval, IntervalMethod

_SORT_EXPRESSIONS: dict[SortKey, str] = {
    "written": "line",
    "id": "eval_id",
    # The worst first.
    "state": "CASE state WHEN 'error' THEN 0 WHEN 'fail' THEN 1 WHEN 'borderline' THEN 2 WHEN 'pass' THEN 3 ELSE 4 END",
    "score": "score",
    "cost": "cost_usd",
    "duration": "duration_ms",
}
_UNINDEXED_SORTS = ("score", "cost", "duration")
"""The sort keys whose columns are not in the index `by_cell` and may be NULL."""
_WILDCARDS = re.compile(r"[*?\[]")


class Statement(NamedTuple):
    """SQL and the values of its named parameters."""

    sql: str
    values: dict[str, str | int]


def cells_statement(run: int, query: RowQuery) -> Statement:
    """Return the statement that counts the rows matching text, case and metadata, grouped for the facets."""
    where = _all_of([_is_current(run), *_shared_conditions(query)])
    # Counts the rows of each cell before it looks the cell up, so once for each cell, not for each row.
    text = f"""
        SELECT suite, target, prompt, state, tag_set, results FROM (
            SELECT cell, count(*) AS results FROM rows WHERE {where.sql} GROUP BY cell)
        CROSS JOIN cells USING (cell) WHERE run = :run
        ORDER BY suite, target, prompt, state, tag_set"""  # noqa: S608 - built from constants, values are parameters
    return Statement(text, where.values)


def page_statement(run: int, query: RowQuery) -> Statement:
    """Return the statement that lists one page of the matching rows, in the order of the query."""
    conditions = [*_shared_conditions(query), *_cell_conditions(query)]
    where = _all_of([_is_current(run), *conditions])
    order = _order(query)
    source = "rows JOIN cells USING (run, cell)" if query.sort == "state" else "rows"
    if query.sort in _UNINDEXED_SORTS and not conditions:
        # Columns outside `by_cell` would be looked up row by row; a scan of all rows is faster, unless few rows match.
        source = "rows NOT INDEXED"
    text = f"""
        SELECT line, offset, bytes, suite, eval_id, target, trial, prompt, generation, state, score, cost_usd,
               duration_ms
        FROM rows JOIN cells USING (run, cell) WHERE run = :run AND line IN (
            SELECT line FROM {source} WHERE {where.sql}
            ORDER BY {order} LIMIT :size OFFSET :from_row)
        ORDER BY {order}"""  # noqa: S608 - as above
    size = -1 if query.page_size is None else query.page_size
    from_row = 0 if query.page_size is None else (query.page - 1) * query.page_size
    return Statement(text, where.values | {"size": size, "from_row": from_row})


def _is_current(run: int) -> Statement:
    return Statement("run = :run AND current = 1", {"run": run})


def _order(query: RowQuery) -> str:
    key = _SORT_EXPRESSIONS[query.sort]
    direction = " DESC" if query.is_descending else ""
    if query.sort == "written":
        return f"{key}{direction}"
    # An absent number sorts last in either direction.
    absent = f"{key} IS NULL, " if query.sort in _UNINDEXED_SORTS else ""
    return f"{absent}{key}{direction}, line"


def _shared_conditions(query: RowQuery) -> list[Statement]:
    """Return the conditions that apply to every facet: text, case, trial and metadata."""
    found = []
    if query.text:
        found.append(Statement("instr(lower(eval_id), lower(:text)) > 0", {"text": query.text}))
    if query.case is not None:
        is_pattern = _WILDCARDS.search(query.case)
        # index/file.py defines `fits`, which matches a glob pattern.
        condition = "(eval_id = :case_id OR fits(eval_id, :case_id))" if is_pattern else "eval_id = :case_id"
        found.append(Statement(condition, {"case_id": query.case}))
    if query.trial is not None:
        found.append(Statement("trial = :trial", {"trial": query.trial - 1}))
    for number, (key, value) in enumerate(query.metadata.items()):
        values: dict[str, str | int] = {f"key_{number}": key}
        equal = ""
        if value is not None:
            equal = f" AND value = :value_{number}"
            values[f"value_{number}"] = value
        inner = f"SELECT metadata_set FROM metadata WHERE run = :run AND key = :key_{number}{equal}"  # noqa: S608 - as above
        found.append(Statement(f"metadata_set IN ({inner})", values))
    return found


def _cell_conditions(query: RowQuery) -> list[Statement]:
    """Return a list with the condition on suite, target, prompt, state and tag; an empty one if the query has none.

    The counts for the facets are read without it, because each facet ignores its own condition (`facets_of`).
    """
    allowed: dict[str, Sequence[str]] = {
        "suite": query.suites,
        "target": query.targets,
        "prompt": query.prompts,
        "state": query.states,
    }
    found = [_one_of(column, values) for column, values in allowed.items() if values]
    if query.tags:
        inner = _one_of("tag", query.tags)
        condition = f"tag_set IN (SELECT tag_set FROM tags WHERE run = :run AND {inner.sql})"  # noqa: S608 - as above
        found.append(Statement(condition, inner.values))
    if not found:
        return []
    where = _all_of(found)
    return [Statement(f"cell IN (SELECT cell FROM cells WHERE run = :run AND {where.sql})", where.values)]  # noqa: S608 - as above


def _one_of(column: str, allowed: Sequence[str]) -> Statement:
    values: dict[str, str | int] = {f"{column}_{number}": each for number, each in enumerate(allowed)}
    return Statement(f"{column} IN ({', '.join(f':{key}' for key in values)})", values)


def _all_of(conditions: Sequence[Statement]) -> Statement:
    values: dict[str, str | int] = {}
    for each in conditions:
        values |= each.values
    return Statement(" AND ".join(each.sql for each in conditions), values)


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
    return {key: RunSums.of(summary) for key, summary in summaries.items()}


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
        """Return one page of a run's current results. Raises OSError when they cannot be read."""

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
                    discard_index_file(self._home)
            self._stop_using(error)
            return None

    def _stop_using(self, error: Exception) -> None:
        self._is_usable = False
        self._note(f"the index of the runs in {self._home} cannot be used ({error}); their folders are read instead")

    def _list_runs(self, connection: sqlite3.Connection) -> tuple[ListedRun, ...]:
        folders = list_run_folders(self._home)
        forget_missing(connection, folders)
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
        cells = _cells(connection, known.run, query)
        rows = tuple(map(_entry, connection.execute(*page_statement(known.run, query))))
    return RowPage(
        rows=rows,
        total=total_of(cells, query),
        facets=facets_of(cells, query),
        counts=known.counts,
        skipped=known.skipped,
    )


def _cells(connection: sqlite3.Connection, run: int, query: RowQuery) -> list[Cell]:
    found = connection.execute(*cells_statement(run, query)).fetchall()
    tags = {number: read_tags(text) for number, text in connection.execute(TAG_SETS, {"run": run})}
    return [
        Cell(suite=suite, target=target, prompt=prompt, state=state, tags=tags.get(tag_set, ()), rows=rows)
        for suite, target, prompt, state, tag_set, rows in found
    ]


def _entry(found: tuple[Any, ...]) -> RowEntry:
    line, offset, size, suite, eval_id, target, trial, prompt, generation, state, score, cost_usd, duration_ms = found
    slot = ResultKey(suite, eval_id, target, trial=trial, prompt=prompt or None)
    return RowEntry(
        line=line,
        offset=offset,
        size=size,
        slot=slot,
        generation=generation,
        state=state,
        score=score,
        cost_usd=cost_usd,
        duration_ms=duration_ms,
    )
