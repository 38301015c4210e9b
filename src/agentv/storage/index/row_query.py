"""Which rows of a run are asked for, and the page of them that answers: values without a store."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct, field

from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey

SortKey: TypeAlias = Literal["written", "id", "state", "score", "cost", "duration"]
SORT_KEYS: tuple[SortKey, ...] = get_args(SortKey)

PAGE_SIZE = 50
LONGEST_VALUE = 256
"""Characters of a metadata value that rows can be found by."""


class RowQuery(Struct, frozen=True, kw_only=True):
    """What rows are asked for. Several suites, targets, states or tags: rows that have one of them.

    `text` stands somewhere in the id, A to Z in either case; `case` is an id or a pattern for it. `metadata` maps a key
    to the value it must have (JSON text for what is no string) or to None when any will do. Rows that have nothing to
    be sorted by come last; the order of writing decides between equals. `page` counts from 1; a `page_size` of None
    is one page of all.
    """

    suites: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    text: str = ""
    case: str | None = None
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    sort: SortKey = "written"
    is_descending: bool = False
    page: int = 1
    page_size: int | None = PAGE_SIZE


class RowEntry(Struct, frozen=True):
    """One current row: the numbers it is listed by, and where in results.jsonl it stands (`line` from 1)."""

    line: int
    offset: int
    size: int
    slot: ResultKey
    generation: int
    state: str
    score: float | None
    cost_usd: float | None
    duration_ms: float | None


class Facets(Struct, frozen=True):
    """How many rows each state, target, tag and suite has, under all filters but those of its own kind."""

    states: Mapping[str, int]
    targets: Mapping[str, int]
    tags: Mapping[str, int]
    suites: Mapping[str, int]


class RowPage(Struct, frozen=True):
    """One page of rows; `total` is how many rows fit on all pages.

    `counts` are all current rows of the run by state, `skipped` says how many lines could not be read.
    """

    rows: tuple[RowEntry, ...]
    total: int
    facets: Facets
    counts: Mapping[str, int]
    skipped: int


class Cell(NamedTuple):
    """How many rows share all that rows are counted by."""

    suite: str
    target: str
    state: str
    tags: tuple[str, ...]
    rows: int


def total_of(cells: Iterable[Cell], query: RowQuery) -> int:
    """Return how many rows a query finds, given the cells of the rows that fit its text, case and metadata."""
    return sum(cell.rows for cell in cells if not _misses(cell, query))


def facets_of(cells: Iterable[Cell], query: RowQuery) -> Facets:
    """Return the counts beside a page, given the cells of the rows that fit its text, case and metadata."""
    states, targets, tags, suites = (Counter[str]() for _ in range(4))
    for cell in cells:
        missed = _misses(cell, query)
        if missed <= {"state"}:
            states[cell.state] += cell.rows
        if missed <= {"target"}:
            targets[cell.target] += cell.rows
        if missed <= {"suite"}:
            suites[cell.suite] += cell.rows
        if missed <= {"tag"}:
            for tag in dict.fromkeys(cell.tags):
                tags[tag] += cell.rows
    return Facets(dict(states), dict(targets), dict(tags), dict(suites))


def _misses(cell: Cell, query: RowQuery) -> set[str]:
    """Return which filters of a query the rows of a cell do not fit."""
    missed = set()
    if query.suites and cell.suite not in query.suites:
        missed.add("suite")
    if query.targets and cell.target not in query.targets:
        missed.add("target")
    if query.states and cell.state not in query.states:
        missed.add("state")
    if query.tags and not set(query.tags).intersection(cell.tags):
        missed.add("tag")
    return missed


def findable(metadata: JsonObject) -> dict[str, str | None]:
    """Return what rows can be found by: each key of their metadata with its value as text.

    None stands for a value that nobody types: an object, a list, or one of more than 256 characters.
    """
    return {key: _as_typed(value) for key, value in metadata.items()}


def _as_typed(value: object) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    text = value if isinstance(value, str) else str(value) if isinstance(value, int | float) else None
    return text if text is not None and len(text) <= LONGEST_VALUE else None
