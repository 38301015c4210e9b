"""Two runs side by side, paired as `agentv compare` does, in one pass over both in the order of the case ids."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import groupby
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Literal, Self, TypeAlias

from msgspec import Struct, field

from agentv.scoring.comparison.case_differences import ROUNDING, Change, change_of, outcome_of
from agentv.scoring.comparison.compare import MIN_MATCH
from agentv.scoring.comparison.suites import counterparts
from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.storage.index.indexer import find_stage
from agentv.storage.index.pages import RunPages
from agentv.storage.index.refresh import find_indexed
from agentv.types.results import CaseName

ChangedKind: TypeAlias = Literal["changed", "lost", "won"]
"""`changed` has those that were lost or won, and those whose score changed by less."""

_NO_SCORE = -1.0
"""Ranks a trial without a score as the worst of its case, as comparisons do."""


class PairSide(Struct, frozen=True):
    """A case with one prompt and one target in one of the runs, which has a score."""

    name: CaseName
    score: float
    """The mean score of its judged trials."""
    passed: int
    judged: int
    worst: int
    """The line of the result with the lowest score, or without one."""
    best: int
    """The line of the result with the highest score."""


class CasePair(Struct, frozen=True):
    """A case with a score in both runs."""

    before: PairSide
    after: PairSide
    change: Change

    @property
    def difference(self) -> float:
        """The score after minus the score before."""
        return self.after.score - self.before.score

    @property
    def has_fallen(self) -> bool:
        """True if the case was lost, or its score fell."""
        return self.change == "regressed" or self.difference < 0


class ChangedPairs(Struct, frozen=True):
    """The first pairs of a kind, in the order of a comparison: what fell first, the largest difference first."""

    pairs: tuple[CasePair, ...]
    counts: Mapping[str, int]
    """Of all pairs: `lost`, `won`, `changed`, `same`, and `errors`, of pairs with an error in any trial."""
    total: int
    """The number of pairs of the kind that are accepted."""
    has_several: tuple[bool, bool, bool]
    """True for suite, target and prompt if one of the runs has several."""


class RunPairs:
    """The pairs of two runs. `before` and `after` are two objects, also for a run that is compared with itself.

    Methods raise sqlite3.Error when a file cannot be used.
    """

    def __init__(self, before: RunPages, after: RunPages) -> None:
        self._before = before
        self._after = after

    def changed(
        self, kind: ChangedKind, accepts: Callable[[CaseName], bool] | None, *, most: int
    ) -> ChangedPairs | None:
        """Return the first `most` pairs of a kind whose names, those of the later run, are accepted.

        None if a run is not fully indexed, or the runs have too few cases in common to be paired.
        """
        before, after = self._before, self._after
        return before.on_snapshot(
            lambda first: after.on_snapshot(
                lambda second: _changed(
                    _Side.of(first, before.folder), _Side.of(second, after.folder), kind, accepts, most
                )
            )
        )


_Variant: TypeAlias = tuple[str, str, str]
"""Suite, prompt and target as the later run names them; the prompt is "" if there is none."""

_Row: TypeAlias = tuple[str, int, float | None, int]
"""The id, cell, score and line of a result."""


class _Side(Struct, frozen=True):
    """One of the runs: its cells by number, and a connection that its rows are read from."""

    connection: sqlite3.Connection
    run: int
    is_sorted: bool
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
        return cls(connection, run, stage is not None and bool(stage.is_sorted), cells)

    def names(self, place: int) -> list[str]:
        """Return the different suites, prompts or targets of the run: the part of variants at a place."""
        return list(dict.fromkeys(variant[place] for variant, _ in self.cells.values()))

    def rows_by_id(self) -> Iterator[tuple[str, Iterator[_Row]]]:
        """Yield the rows by id, in the order of the ids."""
        parts = (
            f"""SELECT eval_id, cell, score, line FROM rows INDEXED BY id_up
            WHERE run = :run AND current = 1 AND shown = {shown}"""  # noqa: S608 - constants
            for shown in (0, 1)
        )
        found: Iterator[_Row] = self.connection.execute(
            f"{' UNION ALL '.join(parts)} ORDER BY eval_id, line", {"run": self.run}
        )
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


_Rank: TypeAlias = tuple[int, float, int]
"""The place of a pair in a comparison: its group, its difference, and the line of its first result before."""
_LOST, _FELL, _WON, _ROSE = range(4)


def _changed(
    before: "_Side", after: "_Side", kind: ChangedKind, accepts: Callable[[CaseName], bool] | None, most: int
) -> ChangedPairs | None:
    if not (before.is_sorted and after.is_sorted):
        return None
    found, groups = _Found(), {"changed": range(4), "lost": (_LOST,), "won": (_WON,)}[kind]
    total = 0

    def chosen() -> Iterator[tuple[_Rank, CasePair]]:
        nonlocal total
        for rank, pair in _ranked(before, after, found):
            if rank[0] in groups and (accepts is None or accepts(pair.after.name)):
                total += 1
                yield rank, pair

    pairs = tuple(pair for _, pair in nsmallest(most, chosen(), key=itemgetter(0)))
    if found.common < MIN_MATCH * min(found.ids) or not found.judged:
        return None
    counts = found.changes
    moved = {
        "lost": counts[_LOST],
        "won": counts[_WON],
        "changed": counts.total(),
        "same": found.judged - counts.total(),
        "errors": found.errors,
    }
    several = (len(before.names(part)) > 1 or len(after.names(part)) > 1 for part in (0, 2, 1))
    return ChangedPairs(pairs, moved, total, (next(several), next(several), next(several)))


class _Found(Struct):
    """What is counted of two runs: their ids and those in common, and their pairs."""

    ids: list[int] = field(default_factory=lambda: [0, 0])
    common: int = 0
    judged: int = 0
    errors: int = 0
    changes: Counter[int] = field(default_factory=Counter)


def _ranked(before: "_Side", after: "_Side", found: _Found) -> Iterator[tuple[_Rank, CasePair]]:
    """Yield the pairs whose score changed, each with its rank, in one pass over both runs; count all."""
    names = _later_variants(before, after)
    for eval_id, first, second in _merged(before.rows_by_id(), after.rows_by_id()):
        sides = _sides_of(before, first, names), _sides_of(after, second, {})
        for place, side in enumerate(sides):
            found.ids[place] += bool(side)
        found.common += all(sides)
        for variant, old in sides[0].items():
            new = sides[1].get(variant)
            if new is None:
                continue
            found.errors += bool(old.errors or new.errors)
            if not (old.judged and new.judged):
                continue
            found.judged += 1
            pair = _paired(eval_id, old, new)
            group = _group_of(pair)
            if group is not None:
                found.changes[group] += 1
                difference = pair.difference
                yield (group, difference if group in (_LOST, _FELL) else -difference, old.line), pair


def _group_of(pair: CasePair) -> int | None:
    """Return the group of a pair in the order of a comparison; None if its score is the same."""
    if pair.change != "same":
        return _LOST if pair.change == "regressed" else _WON
    if abs(pair.difference) <= ROUNDING:
        return None
    return _FELL if pair.difference < 0 else _ROSE


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
    line: int
    """Of the first result."""
    total: float = 0.0
    """The sum of the scores of the judged trials."""
    judged: int = 0
    passed: int = 0
    errors: int = 0
    worst: tuple[float, int] = (inf, 0)
    """The lowest score and its line; the first of equal ones."""
    best: tuple[float, int] = (inf, 0)
    """The negated highest score and its line."""

    def add(self, state: str, score: float | None, line: int) -> None:
        """Add a trial."""
        self.errors += state == "error"
        if score is None or state not in JUDGED_STATES:
            score = _NO_SCORE
        else:
            self.total += score
            self.judged += 1
            self.passed += state == "pass"
        self.worst = min(self.worst, (score, line))
        self.best = min(self.best, (-score, line))

    def side(self, eval_id: str) -> PairSide:
        """Return the judged trials as a side of a pair."""
        suite, prompt, target = self.variant
        name = CaseName(suite, eval_id, target, prompt or None)
        return PairSide(name, self.total / self.judged, self.passed, self.judged, self.worst[1], self.best[1])


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
            trials = found[name] = _Trials(variant, line)
        trials.add(state, score, line)
    return found


def _paired(eval_id: str, before: _Trials, after: _Trials) -> CasePair:
    old, new = before.side(eval_id), after.side(eval_id)
    shares = (each.passed / each.judged for each in (old, new))
    return CasePair(old, new, change_of(outcome_of(new.score - old.score), *shares))
