"""The cases of a run of which results match a filter, and the results of one of them."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.storage.index.index import RunIndex
from agentv.storage.index.row_query import CursorPage, Facets, RowEntry, RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.results import CaseId

FindRows: TypeAlias = Callable[[RowQuery], tuple[CursorPage, Facets]]
"""Returns all results that match a query, and its facets."""


class MatchingCases(Struct, frozen=True):
    """Cases in the order of their first matching result, and the facets of the matching results."""

    ids: Sequence[CaseId]
    facets: Facets


def matching_cases(find: FindRows, query: RowQuery, *, only_differing: bool) -> MatchingCases:
    """Return the cases of which any result matches a query without pages.

    `only_differing` leaves out cases with the same states and scores for all targets and prompts of the query.
    """
    page, facets = find(query)
    ids = dict.fromkeys(_id_of(entry) for entry in page.rows)
    if only_differing:
        differing = _differing(find(_of_all_states(query))[0].rows)
        ids = dict.fromkeys(each for each in ids if each in differing)
    return MatchingCases(tuple(ids), facets)


def results_of_case(index: RunIndex, stored: StoredRun, case: CaseId, query: RowQuery) -> Iterator[RowEntry]:
    """Yield the results of a case for the targets and prompts of a query, whatever their states."""
    wanted = RowQuery(
        case=case.eval_id, suites=(case.suite,), targets=query.targets, prompts=query.prompts, page_size=None
    )
    # An id may look like a pattern that other ids match.
    return (entry for entry in index.page(stored, wanted).rows if _id_of(entry) == case)


def _of_all_states(query: RowQuery) -> RowQuery:
    """Return a query of the same cases: states and tags select cases, of which all results are compared."""
    return replace(query, states=(), tags=())


def _id_of(entry: RowEntry) -> CaseId:
    return CaseId(entry.slot.suite, entry.slot.eval_id)


def _differing(entries: Iterable[RowEntry]) -> set[CaseId]:
    """Return the cases whose results differ between targets or prompts in a state or score."""
    cells: dict[CaseId, dict[tuple[str | None, str], list[tuple[str, float]]]] = {}
    for entry in entries:
        outcome = entry.state, -1.0 if entry.score is None else entry.score
        cell = entry.slot.prompt, entry.slot.target
        cells.setdefault(_id_of(entry), {}).setdefault(cell, []).append(outcome)
    return {case for case, of_case in cells.items() if len({tuple(sorted(each)) for each in of_case.values()}) > 1}
