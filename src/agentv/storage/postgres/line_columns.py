"""The columns that a stored line has for queries: keys, numbers and times.

A line that cannot be read is stored with empty columns.
"""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache, cached_property
from typing import Any, Literal, TypeAlias, get_args, get_origin

import msgspec
from msgspec import Struct, defstruct

from agentv.types.moments import read_moment
from agentv.types.records.answer import Answer
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, EventRecord
from agentv.types.structs import struct_fields
from agentv.types.usage import known_cost

Column: TypeAlias = str | int | float | datetime | None

LONGEST_TEXT = 500
"""The most characters of a text column, which fit into an index entry of 2,700 bytes.

A longer string is cut and ends with a digest.
"""

_BIGINT_LIMIT = 1 << 63


class LineTable(Struct, frozen=True, dict=True):
    """The table for one file of a run."""

    file: str
    table: str
    record: type[Struct]
    columns: Mapping[str, str]
    """Maps each column to the path of its field in a line (`record`)."""
    repeats: str | None = None
    """The table of the lines that repeat a row of `table`, whose rows are unique by result; None without one."""

    @property
    def lines_query(self) -> str:
        """The SQL for all lines of the file, as a subquery with `run_id`, `seq` and `line`."""
        tables = (self.table,) if self.repeats is None else (self.table, self.repeats)
        return " UNION ALL ".join(f"SELECT run_id, seq, line FROM {table}" for table in tables)  # noqa: S608 - constant table names

    @cached_property
    def sql_types(self) -> dict[str, str]:
        """The SQL type of each column, derived from its field."""
        return {name: _sql_type(self.record, path) for name, path in self.columns.items()}

    def values(self, line: bytes) -> tuple[Column, ...]:
        """Return the column values of a line, None for each missing field."""
        try:
            head: object = _decode_head(line)
        except (ValueError, RecursionError):
            head = None
        found = {name: _value_at(head, path) for name, path in self.columns.items()}
        if "cost_usd" in found:
            found["cost_usd"] = known_cost(found["cost_usd"])
        return tuple(_column_value(value, self.sql_types[name]) for name, value in found.items())


_SQL_TYPES: Mapping[type, str] = {
    str: "text",
    int: "bigint",
    float: "double precision",
    datetime: "timestamptz",
}


@cache
def _sql_type(record: type[Struct], path: str) -> str:
    """Return the SQL type of the field at a path of a record; a Literal is text."""
    name, _, rest = path.partition(".")
    hint = next(field.type for field in struct_fields(record) if field.name == name)
    kinds = list(_kinds_in(hint))
    return _sql_type(kinds[0], rest) if rest else next(_SQL_TYPES[kind] for kind in kinds if kind in _SQL_TYPES)


def _kinds_in(hint: Any) -> Iterator[type]:
    """Yield the classes in a type hint, without None."""
    if get_origin(hint) is Literal:
        yield str
    elif get_args(hint):
        for inner in get_args(hint):
            yield from _kinds_in(inner)
    elif isinstance(hint, type) and hint is not type(None):
        yield hint


def _value_at(head: object, path: str) -> object:
    value = head
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return value


def _column_value(value: object, sql_type: str) -> Column:
    match sql_type:
        case "text":
            return fitting_text(value)
        case "bigint":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return value if is_whole and isinstance(value, int) and -_BIGINT_LIMIT <= value < _BIGINT_LIMIT else None
        case "double precision":
            return _number(value)
        case _:
            return _moment(value)


def fitting_text(value: object) -> str | None:
    """Return a string cut to LONGEST_TEXT, with U+FFFD for NUL, which fits a column and its index; else None."""
    if not isinstance(value, str):
        return None
    if len(value) > LONGEST_TEXT:
        digest = hashlib.sha256(value.encode(errors="replace")).hexdigest()[:16]
        value = f"{value[: LONGEST_TEXT - 17]}…{digest}"
    return value.replace("\0", "�")


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _moment(value: object) -> datetime | None:
    try:
        return read_moment(str(value))
    except ValueError:
        return None


_RESULT_KEY = {name: f"slot.{name}" for name in ("suite", "eval_id", "target", "trial", "prompt")}
_KEYS = {**_RESULT_KEY, "generation": "generation", "answer_key": "answer_key", "rerun": "rerun"}
_CALL_FACTS = {"cost_usd": "cost_usd", "duration_ms": "duration_ms", "error_kind": "error.kind"}

EVENTS = LineTable("events.jsonl", "agentv.events", EventRecord, {"type": "type", "time": "time"})

TABLES = (
    LineTable(
        "cases.jsonl", "agentv.cases", CaseRecord, {name: name for name in ("suite", "eval_id", "prompt", "case_key")}
    ),
    LineTable(
        "answers.jsonl", "agentv.answers", Answer, {**_KEYS, "kind": "kind", **_CALL_FACTS, "time": "started_at"}
    ),
    LineTable(
        "results.jsonl",
        "agentv.results",
        CaseResult,
        {
            **_KEYS,
            **{name: name for name in ("status", "verdict", "score")},
            **_CALL_FACTS,
            "answer_seq": "answer_ref.seq",
            "error_stage": "error.stage",
            "time": "timestamp",
        },
        repeats="agentv.repeated_results",
    ),
    LineTable(
        "labels.jsonl",
        "agentv.labels",
        Label,
        {**_RESULT_KEY, **{name: name for name in ("answer_key", "criterion", "annotator", "time")}},
    ),
    LineTable(
        "categories.jsonl",
        "agentv.categories",
        CategoryEvent,
        {name: name for name in ("type", "name", "by", "time")},
    ),
    EVENTS,
)
"""In the order of pushing: the event that ends a run comes after its results."""

_column_fields = {path.partition(".")[0] for table in TABLES for path in table.columns.values()}
_decode_head = msgspec.json.Decoder(
    defstruct("_Head", [(name, object, None) for name in sorted(_column_fields)])
).decode
"""Decodes the fields of any line that have a column; the rest is skipped."""
