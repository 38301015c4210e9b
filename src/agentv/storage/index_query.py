"""From what is asked of a run's rows to SQL with named parameters: pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from agentv.storage.row_query import RowQuery, SortKey

_SORTED_BY: dict[SortKey, str] = {
    "written": "line",
    "id": "eval_id",
    # The worst first: what people look for.
    "state": "CASE state WHEN 'error' THEN 0 WHEN 'fail' THEN 1 WHEN 'borderline' THEN 2 WHEN 'pass' THEN 3 ELSE 4 END",
    "score": "score",
    "cost": "cost_usd",
    "duration": "duration_ms",
}
_IN_THE_ROW_ALONE = ("score", "cost", "duration")
_PATTERN_SIGNS = re.compile(r"[*?\[]")
_CURRENT = "run = :run AND current = 1"


class Statement(NamedTuple):
    """SQL and the values of its named parameters."""

    sql: str
    values: dict[str, str | int]


def cells_statement(run: int, query: RowQuery) -> Statement:
    """Count the rows that fit text, case and metadata, by all that rows are counted by."""
    wide = _wide_conditions(query)
    sql = f"""
        SELECT suite, target, state, tag_set, count(*) FROM rows WHERE {_all_of(wide)}
        GROUP BY suite, target, state, tag_set"""  # noqa: S608 - built of our own words, values are parameters
    return Statement(sql, _values(run, wide))


def page_statement(run: int, query: RowQuery) -> Statement:
    """List one page of the rows that are asked for, in their order."""
    conditions = [*_wide_conditions(query), *_narrow_conditions(query)]
    order = _order(query)
    # What by_facet does not hold would be looked up row by row; one way through all rows is quicker, unless few fit.
    scan = "NOT INDEXED" if query.sort in _IN_THE_ROW_ALONE and not conditions else ""
    sql = f"""
        SELECT line, offset, bytes, suite, eval_id, target, trial, generation, state, score, cost_usd, duration_ms
        FROM rows WHERE run = :run AND line IN (
            SELECT line FROM rows {scan} WHERE {_all_of(conditions)}
            ORDER BY {order} LIMIT :size OFFSET :from_row)
        ORDER BY {order}"""  # noqa: S608 - as above
    size = -1 if query.page_size is None else query.page_size
    from_row = 0 if query.page_size is None else (query.page - 1) * query.page_size
    return Statement(sql, _values(run, conditions) | {"size": size, "from_row": from_row})


def _order(query: RowQuery) -> str:
    key = _SORTED_BY[query.sort]
    direction = " DESC" if query.is_descending else ""
    if query.sort == "written":
        return f"{key}{direction}"
    # An absent number is no small one: it stands last in either direction.
    absent = f"{key} IS NULL, " if query.sort in _IN_THE_ROW_ALONE else ""
    return f"{absent}{key}{direction}, line"


def _wide_conditions(query: RowQuery) -> list[Statement]:
    """Return what every facet keeps to: the text, the case and the metadata."""
    found = []
    if query.text:
        found.append(Statement("instr(lower(eval_id), lower(:text)) > 0", {"text": query.text}))
    if query.case is not None:
        is_pattern = _PATTERN_SIGNS.search(query.case)
        either = "(eval_id = :case_id OR fits(eval_id, :case_id))" if is_pattern else "eval_id = :case_id"
        found.append(Statement(either, {"case_id": query.case}))
    for number, (key, value) in enumerate(query.metadata.items()):
        values: dict[str, str | int] = {f"key_{number}": key}
        equal = ""
        if value is not None:
            equal = f" AND value = :value_{number}"
            values[f"value_{number}"] = value
        inner = f"SELECT metadata_set FROM metadata WHERE run = :run AND key = :key_{number}{equal}"  # noqa: S608 - as above
        found.append(Statement(f"metadata_set IN ({inner})", values))
    return found


def _narrow_conditions(query: RowQuery) -> list[Statement]:
    """Return what the facet of its own kind leaves out."""
    found = []
    for column, wanted in (("suite", query.suites), ("target", query.targets), ("state", query.states)):
        if wanted:
            found.append(_one_of(column, wanted, column))
    if query.tags:
        inner = _one_of("tag", query.tags, "tag")
        sql = f"tag_set IN (SELECT tag_set FROM tags WHERE run = :run AND {inner.sql})"  # noqa: S608 - as above
        found.append(Statement(sql, inner.values))
    return found


def _one_of(column: str, wanted: Sequence[str], name: str) -> Statement:
    values: dict[str, str | int] = {f"{name}_{number}": each for number, each in enumerate(wanted)}
    return Statement(f"{column} IN ({', '.join(f':{key}' for key in values)})", values)


def _all_of(conditions: Sequence[Statement]) -> str:
    return " AND ".join((_CURRENT, *(each.sql for each in conditions)))


def _values(run: int, conditions: Sequence[Statement]) -> dict[str, str | int]:
    values: dict[str, str | int] = {"run": run}
    for each in conditions:
        values |= each.values
    return values
