"""Queries for the results of a run, and the pages that answer them: plain values, independent of the store."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

from msgspec import Struct, field

from agentv.types.json_value import JsonObject
from agentv.types.records.answer import ResultKey

Range: TypeAlias = tuple[float | None, float | None]
"""The lowest and the highest value, both included; None leaves a side open."""

Outcome: TypeAlias = Literal["pass", "borderline", "fail", "error"]
"""What an evaluator found: its verdict, or that it could not judge the answer."""
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

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
    metadata: Mapping[str, str | None] = field(default_factory=dict)
    """Maps a key to the required value (as JSON text unless it is a string) or to None for any value."""
    evaluators: tuple[tuple[str, Outcome], ...] = ()
    """Names of evaluators with what they found; all must match."""
    trial: int | None = None
    """Counted from 0; None for all trials."""
    one_trial: bool = False
    """Of the trials of a case, with its prompt and target, only the one that is shown: the first of the worst state."""
    score: Range | None = None
    cost: Range | None = None
    """In US dollars."""
    duration: Range | None = None
    """In milliseconds."""
    q: str = ""
    """Words of the case id, the question and the answer; all must occur, the last one as the start of a word."""
    sort: SortKey = "written"
    """Results without a value to sort by come last; equal ones keep the order of writing."""
    is_descending: bool = False
    page: int = 1
    """Counted from 1. Pages by cursor (`RunPages`) use `after` and `before` in its place."""
    after: str | None = None
    """The cursor `after` of a page: the results that follow that page."""
    before: str | None = None
    """The cursor `before` of a page: the results before that page."""
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
    outcomes: tuple[tuple[str, str], ...] = ()
    """The name of each evaluator that judged the answer or failed to, with its outcome."""
    answer_seq: int | None = None
    """The `seq` of the stored answer; None if there is none."""
    trials: tuple[int, int] | None = None
    """How many trials passed, and how many there are, on a page with one trial of each case."""

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the evaluators that did not pass the answer or could not judge it."""
        return tuple(name for name, outcome in self.outcomes if outcome != "pass")


class Facets(Struct, frozen=True):
    """The number of results of each state, target, tag, suite and prompt, and of each outcome of an evaluator.

    The counts by state ignore the query's filter by state, those by target its filter by target, and so on.
    """

    states: Mapping[str, int]
    targets: Mapping[str, int]
    tags: Mapping[str, int]
    suites: Mapping[str, int]
    prompts: Mapping[str, int]
    evaluators: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By name and outcome."""


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


class Counted(NamedTuple):
    """The number of results that match a query, and its facets."""

    total: int
    facets: Facets


class Progress(Struct, frozen=True):
    """How far a run is indexed."""

    lines: int
    """The lines of results.jsonl that are indexed, readable or not."""
    share: float
    """The indexed share of the bytes of results.jsonl: 0..1."""
    is_complete: bool
    """True if all results are listed, and sorted for fast pages."""
    words_share: float
    """The share of the results whose words can be searched: 0..1."""

    @property
    def words_ready(self) -> bool:
        """True if the words of all listed results can be searched."""
        return self.words_share >= 1.0


class CursorPage(Struct, frozen=True):
    """Results that follow a cursor, and the cursors of the pages beside it."""

    rows: tuple[RowEntry, ...]
    after: str | None
    """The cursor of the next page; None on the last page."""
    before: str | None
    """The cursor of the previous page; None on the first page."""
    counted: Counted | None
    """None if counting takes longer than a page; `RunPages.count` counts at any cost."""
    counts: Mapping[str, int]
    """All current results of the run by state."""
    entries: int
    """The cases of the run with their prompts and targets, of each of which all trials are one."""
    skipped: int
    """The number of lines that could not be read."""
    words: tuple[str, ...]
    """The words of `q` that were searched; without any, `q` filters nothing."""
    progress: Progress


class Cell(NamedTuple):
    """The number of results with the same suite, target, prompt, state, tags and outcomes of evaluators."""

    suite: str
    target: str
    prompt: str
    """Empty for results without a prompt."""
    state: str
    tags: tuple[str, ...]
    outcomes: tuple[tuple[str, str], ...]
    rows: int


def total_of(cells: Iterable[Cell], query: RowQuery) -> int:
    """Return the number of results that match a query; `cells` count those that match its text, case and metadata."""
    return sum(cell.rows for cell in cells if not _unmatched_filters(cell, query))


def facets_of(cells: Iterable[Cell], query: RowQuery) -> Facets:
    """Return the facets of a query; `cells` count the results that match its text, case and metadata."""
    states, targets, tags, suites, prompts = (Counter[str]() for _ in range(5))
    evaluators = Counter[tuple[str, str]]()
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
        if unmatched <= {"evaluator"}:
            for outcome in dict.fromkeys(cell.outcomes):
                evaluators[outcome] += cell.rows
    return Facets(
        states=dict(states),
        targets=dict(targets),
        tags=dict(tags),
        suites=dict(suites),
        prompts=dict(prompts),
        evaluators=dict(evaluators),
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
    if query.evaluators and not set(query.evaluators).issubset(cell.outcomes):
        unmatched.add("evaluator")
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
