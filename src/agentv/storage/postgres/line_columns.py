"""What stands beside a line as columns: keys, numbers and times that queries ask for. Pure.

A line that cannot be read is kept all the same, with its columns empty: the line is what counts.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec
from msgspec import Struct

Column: TypeAlias = str | int | float | datetime | None

LONGEST_TEXT = 500
"""Characters; an index takes 2,700 bytes. A longer text is told from others by its digest at the end."""

_BIGINT = 1 << 63


class LineTable(Struct, frozen=True):
    """The table of one file of a run. `columns` are its own columns with their SQL types and their places in a line."""

    file: str
    table: str
    columns: Mapping[str, tuple[str, tuple[str, ...]]]

    def values(self, line: bytes) -> tuple[Column, ...]:
        """Return the columns of a line, None for each that it does not tell."""
        try:
            head = _decode(line)
        except (ValueError, RecursionError):
            head = {}
        return tuple(_fitting(_found(head, path), sql_type) for sql_type, path in self.columns.values())


class _Head(msgspec.Struct, frozen=True):
    """As much of any line as a column is made of; the rest is skipped unread."""

    slot: object = None
    suite: object = None
    eval_id: object = None
    case_key: object = None
    answer_key: object = None
    generation: object = None
    type: object = None
    kind: object = None
    status: object = None
    verdict: object = None
    score: object = None
    cost_usd: object = None
    duration_ms: object = None
    error: object = None
    criterion: object = None
    annotator: object = None
    time: object = None
    timestamp: object = None
    started_at: object = None


_decode_head = msgspec.json.Decoder(_Head).decode


def _decode(line: bytes) -> Mapping[str, object]:
    head = _decode_head(line)
    return {name: getattr(head, name) for name in _Head.__struct_fields__}


def _found(head: Mapping[str, object], path: Sequence[str]) -> object:
    value: object = head
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _fitting(value: object, sql_type: str) -> Column:
    match sql_type:
        case "text":
            return fitting_text(value)
        case "bigint":
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            return value if is_whole and isinstance(value, int) and -_BIGINT <= value < _BIGINT else None
        case "double precision":
            return _number(value)
        case _:
            return _moment(value)


def fitting_text(value: object) -> str | None:
    """Return a text that a column and its index can hold: NUL, which they cannot, becomes U+FFFD."""
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
        moment = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


_SLOT = {
    "suite": ("text", ("slot", "suite")),
    "eval_id": ("text", ("slot", "eval_id")),
    "target": ("text", ("slot", "target")),
    "trial": ("bigint", ("slot", "trial")),
}
_ROW = {**_SLOT, "generation": ("bigint", ("generation",)), "answer_key": ("text", ("answer_key",))}
_NUMBERS = {
    "cost_usd": ("double precision", ("cost_usd",)),
    "duration_ms": ("double precision", ("duration_ms",)),
    "error_kind": ("text", ("error", "kind")),
}

EVENTS = LineTable("events.jsonl", "agentv.events", {"type": ("text", ("type",)), "time": ("timestamptz", ("time",))})

TABLES = (
    LineTable(
        "cases.jsonl",
        "agentv.cases",
        {name: ("text", (name,)) for name in ("suite", "eval_id", "case_key")},
    ),
    LineTable(
        "answers.jsonl",
        "agentv.answers",
        {**_ROW, "kind": ("text", ("kind",)), **_NUMBERS, "time": ("timestamptz", ("started_at",))},
    ),
    LineTable(
        "results.jsonl",
        "agentv.results",
        {
            **_ROW,
            "status": ("text", ("status",)),
            "verdict": ("text", ("verdict",)),
            "score": ("double precision", ("score",)),
            **_NUMBERS,
            "time": ("timestamptz", ("timestamp",)),
        },
    ),
    LineTable(
        "labels.jsonl",
        "agentv.labels",
        {
            **_SLOT,
            "answer_key": ("text", ("answer_key",)),
            "criterion": ("text", ("criterion",)),
            "annotator": ("text", ("annotator",)),
            "time": ("timestamptz", ("time",)),
        },
    ),
    EVENTS,
)
"""In the order of bringing: what ended a run comes after its rows."""
