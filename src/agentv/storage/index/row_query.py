"""Queries for the results of a run, and the pages that answer them: plain values, independent of the store."""

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
"""The most characters of a metadata value that queries can match."""


class RowQuery(Struct, frozen=True, kw_only=True):
    """A filter, an order and a page. If several suites, targets, prompts, states or tags are listed, one must match."""

    suites: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    text: str = ""
    """A part of the case id, where ASCII capitals and small letters are the same."""
    case: str | None = None
    """An id or a glob pattern."""
    trial: int | None = None
    """Counted from 1; None for all trials."""
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    """Maps a key to the required value (as JSON text unless it is a string) or to None for any value."""
    sort: SortKey = "written"
    """Results without a value to sort by come last; equal ones keep the order of writing."""
    is_descending: bool = False
    page: int = 1
    """Counted from 1."""
    page_size: int | None = PAGE_SIZE
    """None puts all on one page."""


class RowEntry(Struct, frozen=True):
    """One current result: the values it is listed by, and its place in results.jsonl."""

    line: int
    """Counted from 1."""
    offset: int
    size: int
    slot: ResultKey
    generation: int
    state: str
    score: float | None
    cost_usd: float | None
    duration_ms: float | None


class Facets(Struct, frozen=True):
    """The number of results of each state, target, tag, suite and prompt.

    The counts by state ignore the query's filter by state, those by target its filter by target, and so on.
    """

    states: Mapping[str, int]
    targets: Mapping[str, int]
    tags: Mapping[str, int]
    suites: Mapping[str, int]
    prompts: Mapping[str, int]


class RowPage(Struct, frozen=True):
    """One page of results."""

    rows: tuple[RowEntry, ...]
    total: int
    """The number of matching results on all pages."""
    facets: Facets
    counts: Mapping[str, int]
    """All current results of the run by state."""
    skipped: int
    """The number of lines that could not be read."""


class Cell(NamedTuple):
    """The number of results with the same suite, target, prompt, state and tags."""

    suite: str
    target: str
    prompt: str
    """Empty for results without a prompt."""
    state: str
    tags: tuple[str, ...]
    rows: int


def total_of(cells: Iterable[Cell], query: RowQuery) -> int:
    """Return the number of results that match a query; `cells` count those that match its text, case and metadata."""
    return sum(cell.rows for cell in cells if not _unmatched_filters(cell, query))


def facets_of(cells: Iterable[Cell], query: RowQuery) -> Facets:
    """Return the facets of a query; `cells` count the results that match its text, case and metadata."""
    states, targets, tags, suites, prompts = (Counter[str]() for _ in range(5))
    for cell in cells:
        unmatched = _unmatched_filters(cell, query)
        if unmatched <= {"state"}:
            states[cell.state] += cell.rows
        if unmatched <= {"target"}:
            targets[cell.target] += cell.rows
        if unmatched <= {"suite"}:
            suites[cell.suite] += cell.rows
        if unmatched <= {"prompt"} and cell.prompt:
            prompts[cell.prompt] += cell.rows
        if unmatched <= {"tag"}:
            for tag in dict.fromkeys(cell.tags):
                tags[tag] += cell.rows
    return Facets(
        states=dict(states), targets=dict(targets), tags=dict(tags), suites=dict(suites), prompts=dict(prompts)
    )


def _unmatched_filters(cell: Cell, query: RowQuery) -> set[str]:
    """Return the kinds of filters that the results of a cell do not match."""
    unmatched = set()
    if query.suites and cell.suite not in query.suites:
        unmatched.add("suite")
    if query.targets and cell.target not in query.targets:
        unmatched.add("target")
    if query.prompts and cell.prompt not in query.prompts:
        unmatched.add("prompt")
    if query.states and cell.state not in query.states:
        unmatched.add("state")
    if query.tags and not set(query.tags).intersection(cell.tags):
        unmatched.add("tag")
    return unmatched


def searchable_metadata(metadata: JsonObject) -> dict[str, str | None]:
    """Return metadata as queries match it: each key with its value as text.

    The value is None where queries cannot match it: an object, a list, or more than 256 characters.
    """
    return {key: _as_text(value) for key, value in metadata.items()}


def _as_text(value: object) -> str | None:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        return None
    text = str(value)
    return text if len(text) <= LONGEST_VALUE else None
