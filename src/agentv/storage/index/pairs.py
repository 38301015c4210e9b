"""Two runs side by side, paired as `agentv compare` does, in one pass over both in the order of the case ids."""

import math
import sqlite3
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypeVar, get_args

import msgspec
from msgspec import Struct, field

from agentv.scoring.comparison.case_differences import change_of, outcome_of
from agentv.scoring.comparison.suites import counterparts
from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.storage.index.indexer import find_stage
from agentv.storage.index.pages import RunPages
from agentv.storage.index.refresh import find_indexed
from agentv.storage.index.schema import STATES

PairChange: TypeAlias = Literal["lost", "won", "same", "unjudged", "only_before", "only_after"]
"""`unjudged`: in both runs, but on one side no result has a score and a verdict, so nothing is won or lost."""

PairFilter: TypeAlias = Literal["lost", "won", "changed", "same", "unjudged", "only_in_one"]
"""`changed` is lost or won."""
PAIR_FILTERS: tuple[PairFilter, ...] = get_args(PairFilter)

PAIRS_PAGE_SIZE = 100

_CHANGES: Mapping[PairFilter | None, Sequence[PairChange]] = {
    None: get_args(PairChange),
    "lost": ("lost",),
    "won": ("won",),
    "changed": ("lost", "won"),
    "same": ("same",),
    "unjudged": ("unjudged",),
    "only_in_one": ("only_before", "only_after"),
}
_NAMES: Mapping[str, PairChange] = {"regressed": "lost", "improved": "won", "same": "same"}


class PairSide(Struct, frozen=True):
    """A case with one prompt and one target in one of the runs."""

    suite: str
    target: str
    prompt: str | None
    state: str
    """The worst state of its trials."""
    score: float | None
    """The mean score of its judged trials."""
    lines: tuple[int, ...]
    """The lines of its results (`RunPages.rows_at`)."""


class CasePair(Struct, frozen=True):
    """A case in both runs, or in one of them."""

    eval_id: str
    before: PairSide | None
    after: PairSide | None
    change: PairChange


class PairPage(Struct, frozen=True):
    """Pairs in the order of their ids, then of suite, prompt and target, as the later run names them."""

    pairs: tuple[CasePair, ...]
    after: str | None
    """The cursor of the next page; None on the last page."""
    is_complete: bool
    """False if one of the runs is not fully indexed, so that results may be missing."""


class RunPairs:
    """The pairs of two runs. `before` and `after` are two objects, also for a run that is compared with itself.

    Methods raise sqlite3.Error when a file cannot be used.
    """

    def __init__(self, before: RunPages, after: RunPages) -> None:
        self._before = before
        self._after = after
        self._counted: tuple[object, Counter[PairChange]] | None = None

    def page(
        self, *, only: PairFilter | None = None, after: str | None = None, page_size: int = PAIRS_PAGE_SIZE
    ) -> PairPage:
        """Return the pairs after a cursor, the first ones without it; with `only`, those of some changes.

        Raises ValueError for a broken cursor.
        """
        wanted, begin = _CHANGES[only], None if after is None else _decode_position(after)

        def read_page(sides: tuple[_Side, _Side]) -> PairPage:
            matching = (pair for pair in _pairs(*sides, begin) if pair[1].change in wanted)
            found = list(islice(matching, page_size + 1))
            cursor = _encode_position(found[page_size - 1][0]) if len(found) > page_size else None
            return PairPage(tuple(pair for _, pair in found[:page_size]), cursor, all(each.is_sorted for each in sides))

        return self._read(read_page)

    def count(self) -> Mapping[PairChange, int]:
        """Return the number of pairs by change; a pass over both runs, unless nothing has changed since the last."""

        def read_counts(sides: tuple[_Side, _Side]) -> Counter[PairChange]:
            stamps = [each.stamp for each in sides]
            if self._counted is None or self._counted[0] != stamps:
                self._counted = stamps, Counter(pair.change for _, pair in _pairs(*sides, None))
            return self._counted[1]

        return dict(self._read(read_counts))

    def _read(self, read: "Callable[[tuple[_Side, _Side]], Found]") -> "Found":
        before, after = self._before, self._after
        return before.on_snapshot(
            lambda first: after.on_snapshot(
                lambda second: read((_Side.of(first, before.folder), _Side.of(second, after.folder)))
            )
        )


Found = TypeVar("Found")

_Variant: TypeAlias = tuple[str, str, str]
"""Suite, prompt and target as the later run names them; the prompt is "" if there is none."""

_Position: TypeAlias = tuple[str, _Variant]
"""The id and the variant of a pair: its place in the order."""

_Row: TypeAlias = tuple[str, int, float | None, int]
"""The id, cell, score and line of a result."""


class _Side(Struct, frozen=True):
    """One of the runs: its cells by number, and a connection that its rows are read from."""

    connection: sqlite3.Connection
    run: int
    is_sorted: bool
    stamp: object
    cells: Mapping[int, tuple[_Variant, str]]
    """The variant, by the run's own names, and the state."""

    @classmethod
    def of(cls, connection: sqlite3.Connection, folder: Path) -> Self:
        """Return the side of a run, which is empty before its first step of indexing."""
        known = find_indexed(connection, folder.name)
        stage = None if known is None else find_stage(connection, known.run)
        run = -1 if known is None else known.run
        # As in comparisons, a skipped result is none.
        found = connection.execute(
            "SELECT cell, suite, prompt, target, state FROM cells WHERE run = ? AND results > 0 AND state <> 'skipped'",
            (run,),
        )
        cells = {cell: ((suite, prompt, target), state) for cell, suite, prompt, target, state in found}
        return cls(connection, run, stage is not None and bool(stage.is_sorted), known, cells)

    def names(self, place: int) -> list[str]:
        """Return the different suites, prompts or targets of the run: the part of variants at a place."""
        return list(dict.fromkeys(variant[place] for variant, _ in self.cells.values()))

    def rows_by_id(self, eval_id: str) -> Iterator[tuple[str, Iterator[_Row]]]:
        """Yield the rows from an id on by id, in the order of the ids."""
        where, order = "run = :run AND current = 1 AND eval_id >= :eval_id", "ORDER BY eval_id, line"
        text = f"SELECT eval_id, cell, score, line FROM rows INDEXED BY by_case WHERE {where} {order}"  # noqa: S608 - constants
        if self.is_sorted:
            parts = (text.replace("by_case", "id_up").replace(order, f"AND shown = {shown}") for shown in (0, 1))
            text = f"{' UNION ALL '.join(parts)} {order}"
        found: Iterator[_Row] = self.connection.execute(text, {"run": self.run, "eval_id": eval_id})
        return groupby(found, key=itemgetter(0))


def _later_variants(before: _Side, after: _Side) -> dict[_Variant, _Variant]:
    """Return each variant of the earlier run as the later run names it (see `align` in scoring/comparison/pairs.py)."""
    suites = counterparts(before.names(0), after.names(0))
    (old_prompts, prompts), (old_targets, targets) = ((before.names(part), after.names(part)) for part in (1, 2))
    has_one_prompt, has_one_target = len(old_prompts) == len(prompts) == 1, len(old_targets) == len(targets) == 1
    return {
        variant: (
            suites.get(variant[0], variant[0]),
            prompts[0] if has_one_prompt else variant[1],
            targets[0] if has_one_target else variant[2],
        )
        for variant, _ in before.cells.values()
    }


def _pairs(before: _Side, after: _Side, begin: _Position | None) -> Iterator[tuple[_Position, CasePair]]:
    """Yield the pairs after a position, each with its own, in one pass over both runs."""
    names = _later_variants(before, after)
    start = "" if begin is None else begin[0]
    groups = (before.rows_by_id(start), after.rows_by_id(start))
    for eval_id, first, second in _merged(*groups):
        sides = _sides_of(before, first, names), _sides_of(after, second, {})
        for variant in sorted({*sides[0], *sides[1]}):
            position = eval_id, variant
            if begin is None or position > begin:
                yield position, _paired(eval_id, sides[0].get(variant), sides[1].get(variant))


def _merged(
    first: Iterator[tuple[str, Iterator[_Row]]], second: Iterator[tuple[str, Iterator[_Row]]]
) -> Iterator[tuple[str, Iterable[_Row], Iterable[_Row]]]:
    """Yield each id with its rows of both sides."""
    one, other = next(first, None), next(second, None)
    while one is not None or other is not None:
        if other is None or (one is not None and one[0] < other[0]):
            assert one is not None  # noqa: S101 - for the type checker
            yield one[0], one[1], ()
            one = next(first, None)
        elif one is None or other[0] < one[0]:
            yield other[0], (), other[1]
            other = next(second, None)
        else:
            yield one[0], one[1], other[1]
            one, other = next(first, None), next(second, None)


class _Trials(Struct):
    """The trials of a case on one side, while they are read."""

    variant: _Variant
    """By the run's own names."""
    states: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    """Of the judged trials."""
    passed: int = 0
    lines: list[int] = field(default_factory=list)


def _sides_of(side: _Side, rows: Iterable[_Row], names: Mapping[_Variant, _Variant]) -> dict[_Variant, _Trials]:
    """Return the trials of the rows of one id by variant, as the later run names it."""
    found: dict[_Variant, _Trials] = {}
    for _, cell, score, line in rows:
        known = side.cells.get(cell)
        if known is None:
            continue
        variant, state = known
        name = names.get(variant, variant)
        trials = found.get(name)
        if trials is None:
            trials = found[name] = _Trials(variant)
        trials.states.append(state)
        trials.lines.append(line)
        if score is not None and state in JUDGED_STATES:
            trials.scores.append(score)
            trials.passed += state == "pass"
    return found


def _paired(eval_id: str, before: _Trials | None, after: _Trials | None) -> CasePair:
    return CasePair(eval_id, _pair_side(before), _pair_side(after), _change(before, after))


def _change(before: _Trials | None, after: _Trials | None) -> PairChange:
    if after is None:
        return "only_before"
    if before is None:
        return "only_after"
    if not before.scores or not after.scores:
        return "unjudged"
    outcome = outcome_of(_mean(after.scores) - _mean(before.scores))
    shares = (each.passed / len(each.scores) for each in (before, after))
    return _NAMES[change_of(outcome, *shares)]


def _pair_side(trials: _Trials | None) -> PairSide | None:
    if trials is None:
        return None
    suite, prompt, target = trials.variant
    state = min(trials.states, key=lambda state: _RANKS.get(state, len(_RANKS)))
    score = _mean(trials.scores) if trials.scores else None
    return PairSide(suite, target, prompt or None, state, score, tuple(trials.lines))


def _mean(scores: Sequence[float]) -> float:
    return scores[0] if len(scores) == 1 else math.fsum(scores) / len(scores)


_RANKS = {state: rank for rank, state in enumerate(STATES)}
_decode = msgspec.json.Decoder(tuple[str, tuple[str, str, str]]).decode


def _encode_position(position: _Position) -> str:
    return urlsafe_b64encode(msgspec.json.encode(position)).rstrip(b"=").decode()


def _decode_position(text: str) -> _Position:
    try:
        return _decode(urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4)))
    except ValueError as error:
        raise ValueError(f"the cursor {text[:40]!r} is broken; begin at the first page") from error
