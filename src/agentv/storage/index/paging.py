"""Pages by cursor: which index is read, and from where, so that no page depends on the number of results before it."""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.storage.index.cursor import Cursor, SortValue
from agentv.storage.index.row_query import Range, RowQuery
from agentv.storage.index.schema import SORT_COLUMNS
from agentv.storage.index.statements import (
    NUMBER_SORTS,
    Statement,
    Value,
    all_of,
    cell_conditions,
    is_current,
    is_pattern,
    is_shown,
    order_of,
    range_conditions,
    row_conditions,
)
from agentv.storage.index.words import FOUND, FOUND_FIRST

Place: TypeAlias = tuple[int, SortValue]
"""The line of a result, and its value in the order."""

FEW = 2_000
"""Up to so many results are collected and sorted, whatever the number of results that walking would visit."""


class Selection(Struct, frozen=True):
    """What a query selects of a run's rows; `words` of `q` were found; `current` is the number of rows of the run."""

    run: int
    query: RowQuery
    words: tuple[str, ...]
    current: int
    is_sorted: bool
    few: int = FEW

    @property
    def by_row(self) -> list[Statement]:
        """The conditions that apply to every facet."""
        found = row_conditions(self.query)
        return [*found, FOUND] if self.words else found

    @property
    def where(self) -> Statement:
        """All conditions but whether a row is shown."""
        return all_of([is_current(self.run), *self.by_row, *cell_conditions(self.query)])

    @property
    def most_collected(self) -> int:
        """The number of results up to which collecting and sorting them is faster than walking in their order."""
        size = self.query.page_size or self.current
        return max(self.few, math.isqrt(size * self.current))


def find_driver(connection: sqlite3.Connection, selection: Selection, *, with_cells: bool = True) -> str | None:
    """Return the source of rows in which a condition leaves few, as SQL; None if none does.

    With `with_cells`, the conditions on cells are among those that are tried.
    """
    if not selection.is_sorted:
        return None
    counts = [
        (_count(connection, source, where, most=selection.most_collected), source)
        for source, where in _drivers(selection, with_cells=with_cells)
    ]
    count, source = min(counts, default=(selection.most_collected, None))
    return source if count < selection.most_collected else None


def _drivers(selection: Selection, *, with_cells: bool) -> Iterator[tuple[str, Statement]]:
    query, current = selection.query, all_of([is_current(selection.run), is_shown(selection.query)])
    ranges = range_conditions(query)
    in_cells = cell_conditions(query) if with_cells else []
    if in_cells:
        yield "rows INDEXED BY cell_score", all_of([current, *in_cells, *ranges.get("score", ())])
    for key, conditions in ranges.items():
        if not (in_cells and key == "score"):
            yield f"rows INDEXED BY {key}_up", all_of([current, *conditions])
    if query.case is not None and not is_pattern(query.case):
        yield "rows INDEXED BY id_up", all_of([current, *row_conditions(RowQuery(case=query.case))])
    if selection.words:
        yield FOUND_FIRST, current


def _count(connection: sqlite3.Connection, source: str, where: Statement, *, most: int) -> int:
    text = f"SELECT count(*) FROM (SELECT 1 FROM {source} WHERE {where.sql} LIMIT :most)"  # noqa: S608 - built from constants, values are parameters
    (count,) = connection.execute(text, where.values | {"most": most}).fetchone()
    return int(count)


def find_places(
    connection: sqlite3.Connection, selection: Selection, cursor: Cursor | None, *, is_backward: bool, count: int
) -> list[Place]:
    """Return the places of up to `count` results after a cursor, or with `is_backward` before it, in their order."""
    driver = find_driver(connection, selection)
    if driver is not None or not (selection.is_sorted or selection.query.sort == "written"):
        found = _collected(connection, selection, cursor, is_backward=is_backward, source=driver or "rows", count=count)
    else:
        found = _walked(connection, selection, cursor, is_backward=is_backward, count=count)
    return found[::-1] if is_backward else found


def _collected(
    connection: sqlite3.Connection,
    selection: Selection,
    cursor: Cursor | None,
    *,
    is_backward: bool,
    source: str,
    count: int,
) -> list[Place]:
    """Read all results of `source` that match, and sort them."""
    query, where = selection.query, all_of([selection.where, is_shown(selection.query)])
    parts = [each.condition for each in segments(query, cursor, is_backward=is_backward)]
    beyond = " OR ".join(f"({each.sql})" for each in parts)
    values = {**where.values, **{key: value for each in parts for key, value in each.values.items()}}
    # `+` keeps the place of the cursor from being searched for in place of the rows of the source.
    text = f"""
        SELECT line, {SORT_COLUMNS[query.sort]} FROM {source} WHERE {where.sql} AND +({beyond})
        ORDER BY {_reversed(query) if is_backward else order_of(query)} LIMIT :most"""  # noqa: S608 - as above
    return connection.execute(text, values | {"most": count}).fetchall()


def _walked(
    connection: sqlite3.Connection,
    selection: Selection,
    cursor: Cursor | None,
    *,
    is_backward: bool,
    count: int,
) -> list[Place]:
    """Read an index in the order of the query until there are enough results."""
    query = selection.query
    source = f"rows INDEXED BY {query.sort}_{'down' if query.is_descending else 'up'}"
    if query.sort == "written":
        source = "rows INDEXED BY written" if selection.is_sorted else "rows NOT INDEXED"
    column = SORT_COLUMNS[query.sort]
    found: list[Place] = []
    for segment in segments(query, cursor, is_backward=is_backward):
        where = replace(selection, query=_without_bound(query, segment.beyond)).where
        # Each index has the shown rows in order, and the others; SQLite merges the two.
        parts = (
            f"SELECT line, {column} FROM {source} WHERE shown = {shown} AND {where.sql} AND {segment.condition.sql}"  # noqa: S608 - as above
            for shown in ((1,) if query.one_trial else (0, 1))
        )
        text = f"{' UNION ALL '.join(parts)} ORDER BY {segment.order} LIMIT :most"
        values = where.values | segment.condition.values | {"most": count - len(found)}
        found += connection.execute(text, values)
        if len(found) == count:
            break
    return found


class Segment(Struct, frozen=True):
    """A part of the results after or before a cursor that one range of an index has, in order."""

    condition: Statement
    order: str
    beyond: tuple[str, SortValue] | None = None
    """`<` or `>` and a value, if the condition is that the sort column is below or above it."""


def segments(query: RowQuery, cursor: Cursor | None, *, is_backward: bool) -> Sequence[Segment]:
    """Return the parts of the results after a cursor, or with `is_backward` before it, in that direction.

    In their order, these are the other results with the value of the cursor, those beyond it, and those without a
    value; backward the other way round.
    """
    column = SORT_COLUMNS[query.sort]
    line_sign, line_order = ("<", "line DESC") if is_backward else (">", "line")
    is_downward = query.is_descending != is_backward
    if query.sort == "written":
        sign, order = ("<", "line DESC") if is_downward else (">", "line")
        values: dict[str, Value] = {} if cursor is None else {"from_line": cursor.line}
        return [Segment(Statement("TRUE" if cursor is None else f"line {sign} :from_line", values), order)]
    order = f"{column}{' DESC' if is_downward else ''}, {line_order}"
    may_be_absent = query.sort in NUMBER_SORTS
    absent = [Segment(Statement(f"{column} IS NULL", {}), line_order)] if may_be_absent else []
    present = Segment(Statement(f"{column} IS NOT NULL" if may_be_absent else "TRUE", {}), order)
    if cursor is None:
        return [*absent, present] if is_backward else [present, *absent]
    at: dict[str, Value] = {"from_line": cursor.line}
    if cursor.value is None:
        equal = Segment(Statement(f"{column} IS NULL AND line {line_sign} :from_line", at), line_order)
        return [equal, present] if is_backward else [equal]
    value_sign = "<" if is_downward else ">"
    equal_values: dict[str, Value] = {"from_value": cursor.value, **at}
    equal = Segment(Statement(f"{column} = :from_value AND line {line_sign} :from_line", equal_values), line_order)
    condition = Statement(f"{column} {value_sign} :from_value", {"from_value": cursor.value})
    beyond = Segment(condition, order, (value_sign, cursor.value))
    return [equal, beyond] if is_backward else [equal, beyond, *absent]


def _reversed(query: RowQuery) -> str:
    key = SORT_COLUMNS[query.sort]
    direction = "" if query.is_descending else " DESC"
    absent = f"{key} IS NULL DESC, " if query.sort in NUMBER_SORTS else ""
    return f"{key}{direction}" if query.sort == "written" else f"{absent}{key}{direction}, line DESC"


def _without_bound(query: RowQuery, beyond: tuple[str, SortValue] | None) -> RowQuery:
    """Return the query without the bound of its sort column that is implied by the cursor.

    Of two bounds on the same side, SQLite would seek to either and visit the results between them.
    """
    ranges: dict[str, Range | None] = {"score": query.score, "cost": query.cost, "duration": query.duration}
    bounds = ranges.get(query.sort)
    sign, value = beyond or ("", None)
    if bounds is None or not isinstance(value, int | float):
        return query
    low, high = bounds
    if sign == "<" and high is not None and value <= high:
        return replace(query, **{query.sort: (low, None)})
    if sign == ">" and low is not None and value >= low:
        return replace(query, **{query.sort: (None, high)})
    return query
