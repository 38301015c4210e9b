"""The SQL of queries for rows: what is listed, in which order, and what is counted."""

import re
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from agentv.storage.index.row_query import Range, RowQuery, SortKey
from agentv.storage.index.schema import SORT_COLUMNS

NUMBER_SORTS: tuple[SortKey, ...] = ("score", "cost", "duration")
"""The sort keys whose columns are not in the index `by_cell` and may be NULL."""
_WILDCARDS = re.compile(r"[*?\[]")


Value: TypeAlias = str | int | float


class Statement(NamedTuple):
    """SQL and the values of its named parameters."""

    sql: str
    values: dict[str, Value]


ENTRY_COLUMNS = """line, offset, bytes, suite, eval_id, target, trial, prompt, generation, state, score, cost_usd,
               duration_ms, outcome_set, answer"""
"""The columns of a RowEntry, of `rows JOIN cells`."""


def cells_statement(run: int, query: RowQuery, *, more: Sequence[Statement] = (), source: str = "rows") -> Statement:
    """Return the statement that counts rows by cell, for the facets: those that match the query apart from its cells.

    `more` are further conditions; `source` names the rows, with an index to read them by.
    """
    conditions = [*row_conditions(query), *more]
    columns = "suite, target, prompt, state, tag_set, outcome_set"
    order = f"ORDER BY {columns}"
    if not conditions:
        count = "shown" if query.one_trial else "results"
        return Statement(f"SELECT {columns}, {count} FROM cells WHERE run = :run AND {count} > 0 {order}", {"run": run})  # noqa: S608 - built from constants, values are parameters
    where = all_of([is_current(run), is_shown(query), *conditions])
    # Counts the rows of each cell before it looks the cell up, so once for each cell, not for each row.
    text = f"""
        SELECT {columns}, counted FROM (
            SELECT cell, count(*) AS counted FROM {source} WHERE {where.sql} GROUP BY cell)
        CROSS JOIN cells USING (cell) WHERE run = :run {order}"""  # noqa: S608 - as above
    return Statement(text, where.values)


def page_statement(run: int, query: RowQuery) -> Statement:
    """Return the statement that lists one page of the matching rows, in the order of the query."""
    conditions = [*row_conditions(query), *cell_conditions(query)]
    where = all_of([is_current(run), is_shown(query), *conditions])
    order, source = order_of(query), "rows"
    if query.sort in NUMBER_SORTS and not conditions:
        # Columns outside `by_cell` would be looked up row by row; a scan of all rows is faster, unless few rows match.
        source = "rows NOT INDEXED"
    text = f"""
        SELECT {ENTRY_COLUMNS}
        FROM rows JOIN cells USING (run, cell) WHERE run = :run AND line IN (
            SELECT line FROM {source} WHERE {where.sql}
            ORDER BY {order} LIMIT :size OFFSET :from_row)
        ORDER BY {order}"""  # noqa: S608 - as above
    size = -1 if query.page_size is None else query.page_size
    from_row = 0 if query.page_size is None else (query.page - 1) * query.page_size
    return Statement(text, where.values | {"size": size, "from_row": from_row})


def is_current(run: int) -> Statement:
    """Return the condition on rows of a run that count."""
    return Statement("run = :run AND current = 1", {"run": run})


def is_shown(query: RowQuery) -> Statement:
    """Return the condition on rows that a query lists them, or of the trials of a case only the shown one.

    It is a condition in either case, because the indexes in SORTED_INDEXES have `shown` before the sorted column.
    """
    return Statement("shown = 1" if query.one_trial else "shown IN (0, 1)", {})


def order_of(query: RowQuery) -> str:
    """Return the order of a query as SQL."""
    key = SORT_COLUMNS[query.sort]
    direction = " DESC" if query.is_descending else ""
    if query.sort == "written":
        return f"{key}{direction}"
    # An absent number sorts last in either direction.
    absent = f"{key} IS NULL, " if query.sort in NUMBER_SORTS else ""
    return f"{absent}{key}{direction}, line"


def is_pattern(case: str) -> bool:
    """Return True if the id of a query is a glob pattern."""
    return _WILDCARDS.search(case) is not None


def row_conditions(query: RowQuery) -> list[Statement]:
    """Return the conditions that apply to every facet: text, case, metadata, trial and ranges."""
    found = []
    if query.text:
        found.append(Statement("instr(lower(eval_id), lower(:text)) > 0", {"text": query.text}))
    if query.case is not None:
        # index/file.py defines `fits`, which matches a glob pattern.
        condition = (
            "(eval_id = :case_id OR fits(eval_id, :case_id))" if is_pattern(query.case) else "eval_id = :case_id"
        )
        found.append(Statement(condition, {"case_id": query.case}))
    for number, (key, value) in enumerate(query.metadata.items()):
        values: dict[str, Value] = {f"key_{number}": key}
        equal = ""
        if value is not None:
            equal = f" AND value = :value_{number}"
            values[f"value_{number}"] = value
        inner = f"SELECT metadata_set FROM metadata WHERE run = :run AND key = :key_{number}{equal}"  # noqa: S608 - as above
        found.append(Statement(f"metadata_set IN ({inner})", values))
    if query.trial is not None:
        found.append(Statement("trial = :trial", {"trial": query.trial}))
    for conditions in range_conditions(query).values():
        found += conditions
    return found


def range_conditions(query: RowQuery) -> dict[SortKey, list[Statement]]:
    """Return the conditions of the ranges of a query that have a bound, by the sort key of their column."""
    ranges: dict[SortKey, Range | None] = {"score": query.score, "cost": query.cost, "duration": query.duration}
    found: dict[SortKey, list[Statement]] = {}
    for key, bounds in ranges.items():
        for sign, end, bound in zip((">=", "<="), ("low", "high"), bounds or (), strict=False):
            if bound is not None:
                condition = Statement(f"{SORT_COLUMNS[key]} {sign} :{key}_{end}", {f"{key}_{end}": bound})
                found.setdefault(key, []).append(condition)
    return found


def cell_conditions(query: RowQuery) -> list[Statement]:
    """Return a list with the condition on suite, target, prompt, state, tag and evaluators; empty if there is none.

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
    for number, (evaluator, outcome) in enumerate(query.evaluators):
        inner_sql = f"""SELECT outcome_set FROM outcomes
            WHERE run = :run AND evaluator = :evaluator_{number} AND outcome = :outcome_{number}"""  # noqa: S608 - as above
        values: dict[str, Value] = {f"evaluator_{number}": evaluator, f"outcome_{number}": outcome}
        found.append(Statement(f"outcome_set IN ({inner_sql})", values))
    if not found:
        return []
    where = all_of(found)
    return [Statement(f"cell IN (SELECT cell FROM cells WHERE run = :run AND {where.sql})", where.values)]  # noqa: S608 - as above


def _one_of(column: str, allowed: Sequence[str]) -> Statement:
    values: dict[str, Value] = {f"{column}_{number}": each for number, each in enumerate(allowed)}
    return Statement(f"{column} IN ({', '.join(f':{key}' for key in values)})", values)


def all_of(conditions: Sequence[Statement]) -> Statement:
    """Return the condition that all of the given ones hold."""
    values: dict[str, Value] = {}
    for each in conditions:
        values |= each.values
    return Statement(" AND ".join(each.sql for each in conditions), values)
