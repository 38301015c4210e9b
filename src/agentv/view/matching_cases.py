"""The cases of a run of which results match a filter, with the places of all their results."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.counting.matrix import CellName
from agentv.storage.index.row_query import Facets, Progress, RowEntry, RowQuery
from agentv.types.results import CaseId, RowState

_WIDTH = 6
"""The numbers of a result in `_Trials`."""
_STATES: tuple[RowState, ...] = get_args(RowState)


class FoundTrial(NamedTuple):
    """A result of a case: its prompt and target, its state, and its place in results.jsonl."""

    cell: CellName
    trial: int
    state: RowState
    place: tuple[int, int, int]
    """Line number, offset and size in bytes."""


class _Trials(Struct):
    """Results in columns, which take 48 bytes for each; those of a case follow each other."""

    cells: list[CellName] = field(default_factory=list)
    starts: "array[int]" = field(default_factory=lambda: array("I", [0]))
    numbers: "array[int]" = field(default_factory=lambda: array("Q"))

    def add_case(self, outcomes: "Iterable[_Outcome]", numbers: Mapping[CellName, int]) -> None:
        for each in outcomes:
            self.numbers.extend((numbers[each.cell], *each.numbers))
        self.starts.append(len(self.numbers))

    def of_case(self, number: int) -> list[FoundTrial]:
        start, end = self.starts[number], self.starts[number + 1]
        found = (self.numbers[each : each + _WIDTH] for each in range(start, end, _WIDTH))
        return [
            FoundTrial(self.cells[cell], trial, _STATES[state], (line, offset, size))
            for cell, trial, state, line, offset, size in found
        ]


FindEntries: TypeAlias = Callable[[RowQuery], Iterable[RowEntry]]
"""Returns all results that match a query, in its order."""


class _Outcome(NamedTuple):
    """What is remembered of a result while the cases are collected."""

    cell: CellName
    numbers: tuple[int, ...]
    """Trial, state, line number, offset and size."""
    score: float
    """-1.0 for none."""

    @classmethod
    def of(cls, entry: RowEntry, cells: dict[CellName, CellName]) -> "_Outcome":
        cell = entry.slot.prompt, entry.slot.target
        state = _STATES.index(cast(RowState, entry.state))
        numbers = entry.slot.trial, state, entry.line, entry.offset, entry.size
        return cls(cells.setdefault(cell, cell), numbers, -1.0 if entry.score is None else entry.score)


class MatchingCases(Struct, frozen=True):
    """Cases in the order of their first matching result, and the facets of the matching results."""

    ids: Sequence[CaseId]
    facets: Facets
    progress: Progress
    """How far the run was indexed."""
    trials: _Trials

    def page(self, number: int, size: int) -> list[tuple[CaseId, list[FoundTrial]]]:
        """Return the cases of a page, from 1, each with its results for the targets and prompts of the query."""
        start = (number - 1) * size
        return [(case, self.trials.of_case(place)) for place, case in enumerate(self.ids[start : start + size], start)]


def matching_cases(
    find: FindEntries, query: RowQuery, facets: Facets, progress: Progress, *, only_differing: bool
) -> MatchingCases:
    """Return the cases of which any result matches a query without pages.

    `only_differing` leaves out cases with the same states and scores for all targets and prompts of the query.
    """
    names: dict[CellName, CellName] = {}
    found: dict[CaseId, list[_Outcome]] = {}
    for entry in find(query):
        found.setdefault(_case_of(entry), []).append(_Outcome.of(entry, names))
    whole = RowQuery(targets=query.targets, prompts=query.prompts, page_size=None)
    if replace(query, sort=whole.sort, is_descending=whole.is_descending) != whole:
        # The other filters select cases, of which all results are shown.
        found = {case: [] for case in found}
        for entry in find(whole):
            if (of_case := found.get(_case_of(entry))) is not None:
                of_case.append(_Outcome.of(entry, names))
    if only_differing:
        found = {case: outcomes for case, outcomes in found.items() if _differ(outcomes)}
    cells = dict.fromkeys(each.cell for outcomes in found.values() for each in outcomes)
    numbers = {cell: number for number, cell in enumerate(cells)}
    trials = _Trials(list(cells))
    for outcomes in found.values():
        trials.add_case(outcomes, numbers)
    return MatchingCases(tuple(found), facets, progress, trials)


def _case_of(entry: RowEntry) -> CaseId:
    return CaseId(entry.slot.suite, entry.slot.eval_id)


def _differ(outcomes: Iterable[_Outcome]) -> bool:
    """Return True if the results of a case differ between targets or prompts in a state or score."""
    cells: dict[CellName, list[tuple[int, float]]] = {}
    for each in outcomes:
        cells.setdefault(each.cell, []).append((each.numbers[1], each.score))
    return len({tuple(sorted(each)) for each in cells.values()}) > 1
