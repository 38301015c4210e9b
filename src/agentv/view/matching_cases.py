"""The cases of a run of which results match a filter, with the places of all their results."""

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, cast, get_args

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.counting.matrix import CellName
from agentv.storage.index.row_query import CursorPage, Facets, Progress, RowEntry, RowQuery
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

    def add_case(self, entries: Iterable[RowEntry], numbers: Mapping[CellName, int]) -> None:
        for each in entries:
            cell = numbers[each.slot.prompt, each.slot.target]
            state = _STATES.index(cast(RowState, each.state))
            self.numbers.extend((cell, each.slot.trial, state, each.line, each.offset, each.size))
        self.starts.append(len(self.numbers))

    def of_case(self, number: int) -> list[FoundTrial]:
        start, end = self.starts[number], self.starts[number + 1]
        found = (self.numbers[each : each + _WIDTH] for each in range(start, end, _WIDTH))
        return [
            FoundTrial(self.cells[cell], trial, _STATES[state], (line, offset, size))
            for cell, trial, state, line, offset, size in found
        ]


FindRows: TypeAlias = Callable[[RowQuery], tuple[CursorPage, Facets]]
"""Returns all results that match a query, and its facets."""


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


def matching_cases(find: FindRows, query: RowQuery, *, only_differing: bool) -> MatchingCases:
    """Return the cases of which any result matches a query without pages.

    `only_differing` leaves out cases with the same states and scores for all targets and prompts of the query.
    """
    page, facets = find(query)
    entries: dict[CaseId, list[RowEntry]] = {}
    for entry in page.rows:
        entries.setdefault(CaseId(entry.slot.suite, entry.slot.eval_id), []).append(entry)
    whole = RowQuery(targets=query.targets, prompts=query.prompts, page_size=None)
    if replace(query, sort=whole.sort, is_descending=whole.is_descending) != whole:
        # The other filters select cases, of which all results are shown.
        entries = {case: [] for case in entries}
        for entry in find(whole)[0].rows:
            if (of_case := entries.get(CaseId(entry.slot.suite, entry.slot.eval_id))) is not None:
                of_case.append(entry)
    if only_differing:
        entries = {case: found for case, found in entries.items() if _differ(found)}
    cells = dict.fromkeys((each.slot.prompt, each.slot.target) for found in entries.values() for each in found)
    numbers = {cell: number for number, cell in enumerate(cells)}
    trials = _Trials(list(cells))
    for found in entries.values():
        trials.add_case(found, numbers)
    return MatchingCases(tuple(entries), facets, page.progress, trials)


def _differ(entries: Iterable[RowEntry]) -> bool:
    """Return True if the results of a case differ between targets or prompts in a state or score."""
    cells: dict[CellName, list[tuple[str, float]]] = {}
    for entry in entries:
        outcome = entry.state, -1.0 if entry.score is None else entry.score
        cells.setdefault((entry.slot.prompt, entry.slot.target), []).append(outcome)
    return len({tuple(sorted(each)) for each in cells.values()}) > 1
