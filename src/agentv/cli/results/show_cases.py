"""The list of a run's cases that `agentv show RUN` prints: a page of them, those that did not pass first."""

import math
from collections.abc import Callable, Collection, Iterator, Sequence

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.screen import terminal_style
from agentv.reports.run.row_text import RowLabels
from agentv.reports.run.run_view import ListedCase
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.gates.failing_cases import STATES_WORST_FIRST
from agentv.storage.index.row_query import RowEntry, RowPage, RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseId, CaseOutcome

_CHUNK_SIZE = 500
"""The number of cases that are read and aligned at once."""
_MAX_QUESTION_CHARS = 1_000


class CellEntries(Struct, frozen=True):
    """The results of a case with one prompt and target."""

    shown: RowEntry
    """Of the selected results, the first trial of the worst state."""
    passed: int
    results: int


class CaseEntries(Struct, frozen=True):
    """The results of a case; `cells` are its prompts and targets with a selected result."""

    cells: tuple[CellEntries, ...]
    passed: int
    results: int

    @property
    def rank(self) -> tuple[int, float]:
        """The worst state, and the lowest score in it."""
        return min(map(_rank, (each.shown for each in self.cells)))


def _rank(row: RowEntry) -> tuple[int, float]:
    return STATES_WORST_FIRST.index(row.state), row.score or 0.0


def make_cases(
    rows: Sequence[RowEntry], states: Collection[str], order: PlanOrder, *, is_sorted: bool
) -> list[CaseEntries]:
    """Return the cases with a result in one of the states (empty: in any state), those that did not pass first.

    With `is_sorted` they stay in the order of their first results. All results of a case are counted.
    """
    cases: dict[CaseId, dict[tuple[str | None, str], list[RowEntry]]] = {}
    for row in rows:
        cells = cases.setdefault(CaseId(row.slot.suite, row.slot.eval_id), {})
        cells.setdefault((row.slot.prompt, row.slot.target), []).append(row)
    found = []
    for by_cell in cases.values():
        names = sorted(by_cell, key=order.cell_index)
        cells_shown = tuple(filter(None, (_cell(by_cell[name], states) for name in names)))
        every = [row for members in by_cell.values() for row in members]
        if cells_shown:
            found.append(CaseEntries(cells_shown, _passed(every), len(every)))
    return found if is_sorted else sorted(found, key=lambda case: case.rank)


def _cell(rows: Sequence[RowEntry], states: Collection[str]) -> CellEntries | None:
    selected = [row for row in rows if not states or row.state in states]
    if not selected:
        return None
    shown = min(selected, key=lambda row: (_rank(row)[0], row.slot.trial))
    return CellEntries(shown, _passed(rows), len(rows))


def _passed(rows: Sequence[RowEntry]) -> int:
    return sum(row.state == "pass" for row in rows)


class CasesOnPage(Struct, frozen=True):
    """A page of the cases of a run."""

    cases: Sequence[CaseEntries]
    total: int
    """The number of cases on all pages."""
    counts: dict[str, int]
    """All results of the run by state."""
    targets: tuple[str, ...]
    prompts: tuple[str, ...]
    """The targets and prompts of the run, those of all pages."""

    @property
    def has_trials(self) -> bool:
        """True if a prompt and target of a case has several results."""
        return any(cell.results > 1 for case in self.cases for cell in case.cells)


def find_cases(
    query: RowQuery, page_of: Callable[[RowQuery], RowPage], order: PlanOrder, *, is_sorted: bool
) -> CasesOnPage:
    """Return the cases that a query selects; its pages have `page_size` cases."""
    found = page_of(replace(query, states=(), page=1, page_size=None))
    cases = make_cases(found.rows, query.states, order, is_sorted=is_sorted)
    first = (query.page - 1) * (query.page_size or 0)
    shown = cases if query.page_size is None else cases[first : first + query.page_size]
    slots = [row.slot for row in found.rows]
    targets = dict.fromkeys((*order.targets, *(slot.target for slot in slots)))
    prompts = dict.fromkeys((*order.prompts, *(slot.prompt for slot in slots if slot.prompt is not None)))
    return CasesOnPage(shown, len(cases), dict(found.counts), tuple(targets), tuple(prompts))


def print_cases(stored: StoredRun, page: CasesOnPage, *, with_suite: bool, is_full: bool) -> None:
    """Print the cases of a page; `is_full` also lists prompts and targets that passed."""
    view = terminal_style().run_view(is_full=is_full)
    labels = RowLabels(with_suite=with_suite)
    cells = view.cell_labels(page.targets, page.prompts, has_trials=page.has_trials)
    questions = _questions(stored, page.cases)
    for start in range(0, len(page.cases), _CHUNK_SIZE):
        chunk = page.cases[start : start + _CHUNK_SIZE]
        for line in view.cases(list(_listed(stored, chunk, questions)), labels, cells):
            click.echo(line)


def _listed(stored: StoredRun, cases: Sequence[CaseEntries], questions: dict[CaseId, str]) -> Iterator[ListedCase]:
    """Yield the cases with the results that are shown of them, read from the run."""
    entries = [each.shown for case in cases for each in case.cells]
    rows = stored.results_at((row.line, row.offset, row.size) for row in entries)
    for case in cases:
        outcomes = tuple(_outcome(next(rows), cell) for cell in case.cells)
        yield ListedCase(outcomes, case.passed, case.results, questions.get(outcomes[0].id, ""))


def _outcome(row: CaseResult, cell: CellEntries) -> CaseOutcome:
    return CaseOutcome(row, failed=cell.results - cell.passed, results=cell.results)


def _questions(stored: StoredRun, cases: Sequence[CaseEntries]) -> dict[CaseId, str]:
    """Return the beginnings of the questions; of a case with several prompts, with the first of them."""
    names = {CaseId(case.cells[0].shown.slot.suite, case.cells[0].shown.slot.eval_id) for case in cases}
    found: dict[CaseId, str] = {}
    for record in stored.cases_named(names):
        found.setdefault(CaseId(record.suite, record.eval_id), record.last_question[:_MAX_QUESTION_CHARS])
    return found


def page_text(page: CasesOnPage, query: RowQuery) -> str:
    """Return the position of a page, as in `cases 51 to 100 of 1,234; page 2 of 25`."""
    size = query.page_size or max(1, page.total)
    first = (query.page - 1) * size
    pages = max(1, math.ceil(page.total / size))
    part = f"cases {first + 1:,} to {first + len(page.cases):,}" if page.cases else "no cases"
    return f"{part} of {page.total:,}; page {query.page:,} of {pages:,}"
