"""The cases of a run of which results match a filter, with the places of all their results."""

from array import array
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from sys import intern
from typing import NamedTuple, TypeAlias, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.counting.matrix import CellName
from agentv.storage.index.row_query import Facets, Progress, RowEntry, RowQuery
from agentv.types.results import CaseId, RowState

_NO_SCORE = -1.0
_STATES: tuple[RowState, ...] = get_args(RowState)


class FoundTrial(NamedTuple):
    """A result of a case: its prompt and target, its state, and its place in results.jsonl."""

    cell: CellName
    trial: int
    state: RowState
    place: tuple[int, int, int]
    """Line number, offset and size in bytes."""


class _Trials:
    """Results in columns, which take 64 bytes for each: an object for each would take four times as much."""

    def __init__(self) -> None:
        self._cells: dict[CellName, int] = {}
        self._cases, self._cells_of, self._states = array("I"), array("I"), array("B")
        self._places = tuple(array("q") for _ in range(4))  # trial, line number, offset and size
        self._scores = array("d")
        self._order = array("I")
        self._starts = array("I", [0])

    def add(self, case: int, entry: RowEntry) -> None:
        """Add a result of the case with a number."""
        cell = entry.slot.prompt, entry.slot.target
        self._cases.append(case)
        self._cells_of.append(self._cells.setdefault(cell, len(self._cells)))
        self._states.append(_STATES.index(cast(RowState, entry.state)))
        place = entry.slot.trial, entry.line, entry.offset, entry.size
        for column, number in zip(self._places, place, strict=True):
            column.append(number)
        self._scores.append(_NO_SCORE if entry.score is None else entry.score)

    def sort(self, cases: int) -> None:
        """Let the results of each of so many cases follow each other, when all are added."""
        self._order = array("I", sorted(range(len(self._cases)), key=self._cases.__getitem__))
        counts = array("I", bytes(4 * cases))
        for case in self._cases:
            counts[case] += 1
        self._starts = array("I", accumulate(counts, initial=0))

    def of_case(self, case: int) -> list[FoundTrial]:
        """Return the results of a case."""
        cells = list(self._cells)
        trials, lines, offsets, sizes = self._places
        return [
            FoundTrial(
                cells[self._cells_of[each]],
                trials[each],
                _STATES[self._states[each]],
                (lines[each], offsets[each], sizes[each]),
            )
            for each in self._numbers(case)
        ]

    def differ(self, case: int) -> bool:
        """Return True if the results of a case differ between targets or prompts in a state or score."""
        cells: dict[int, list[tuple[int, float]]] = {}
        for each in self._numbers(case):
            cells.setdefault(self._cells_of[each], []).append((self._states[each], self._scores[each]))
        return len({tuple(sorted(each)) for each in cells.values()}) > 1

    def _numbers(self, case: int) -> "array[int]":
        return self._order[self._starts[case] : self._starts[case + 1]]


FindEntries: TypeAlias = Callable[[RowQuery], Iterable[RowEntry]]
"""Returns all results that match a query, in its order."""


class MatchingCases(Struct, frozen=True):
    """Cases in the order of their first matching result, and the facets of the matching results."""

    ids: Sequence[CaseId]
    facets: Facets
    progress: Progress
    """How far the run was indexed."""
    trials: _Trials
    numbers: Sequence[int]
    """The number of each case in `trials`."""

    def page(self, number: int, size: int) -> list[tuple[CaseId, list[FoundTrial]]]:
        """Return the cases of a page, from 1, each with its results for the targets and prompts of the query."""
        places = range(len(self.ids))[(number - 1) * size : number * size]
        return [(self.ids[place], self.trials.of_case(self.numbers[place])) for place in places]


def matching_cases(
    find: FindEntries, query: RowQuery, facets: Facets, progress: Progress, *, only_differing: bool
) -> MatchingCases:
    """Return the cases of which any result matches a query without pages.

    `only_differing` leaves out cases with the same states and scores for all targets and prompts of the query.
    """
    found: dict[CaseId, int] = {}
    trials = _Trials()
    whole = RowQuery(targets=query.targets, prompts=query.prompts, page_size=None)
    # Other filters select cases, of which all results are shown.
    is_whole = replace(query, sort=whole.sort, is_descending=whole.is_descending) == whole
    for entry in find(query):
        number = found.setdefault(_case_of(entry), len(found))
        if is_whole:
            trials.add(number, entry)
    for entry in () if is_whole else find(whole):
        known = found.get(_case_of(entry))
        if known is not None:
            trials.add(known, entry)
    trials.sort(len(found))
    shown = [number for number in found.values() if not only_differing or trials.differ(number)]
    ids = list(found)
    return MatchingCases([ids[number] for number in shown], facets, progress, trials, array("I", shown))


def _case_of(entry: RowEntry) -> CaseId:
    return CaseId(intern(entry.slot.suite), entry.slot.eval_id)
