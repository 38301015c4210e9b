"""The grid of a run: cases as rows, prompts and targets as columns, with the answers next to each other."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.stored.report_tools import expected_of
from agentv.reports.document.blocks import BEST_MARK
from agentv.reports.run.matrix import best_text, judged_text, mean_cell, rate_cell
from agentv.reports.run.row_text import cell_text, row_reason, row_score
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Html, element
from agentv.scoring.counting.matrix import CellName
from agentv.scoring.gates.failing_cases import shown_rank
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.row_query import RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord
from agentv.types.results import CaseId, RunReport
from agentv.types.summaries import CellSummary
from agentv.view.address import Query, choice_of, page_number, path_to, row_query
from agentv.view.answers import answer_text, case_texts, marked_answer, reason_text, shared_question
from agentv.view.elements import (
    beyond_notice,
    choice_links,
    facet_list,
    filter_chips,
    page_links,
    range_text,
    search_field,
    shown_name,
    state_badge,
)
from agentv.view.matching_cases import FoundTrial, MatchingCases
from agentv.view.pages.page import Page, Request
from agentv.view.pages.rows import shown_facets
from agentv.view.pages.run import run_links, run_trail

PAGE_CASES = 50
_MAX_COLUMNS = 8
_ONLY: Sequence[Literal["all", "differ"]] = ("all", "differ")
_DIFF: Sequence[Literal["yes", "no"]] = ("yes", "no")
_ORDERS = ((None, "as finished"), ("id", "by id"), ("state", "worst first"), ("score", "by score"))


class _Cell(Struct, frozen=True):
    """The trials of a case in one column, as one entry: the first of the worst state is shown."""

    result: CaseResult
    passed: int
    trials: int


class _GridRow(Struct, frozen=True):
    """A case with its cells by column; `cases` has the planned case of each prompt."""

    id: CaseId
    cases: Sequence[CaseRecord]
    cells: Mapping[CellName, _Cell]

    @property
    def expected(self) -> str:
        """What an answer is compared with; empty if the case has no such text."""
        return expected_of(self.cases[0]) if self.cases else ""


def grid_page(request: Request) -> Page:
    """Return one page of a run's cases, with the answers of each chosen prompt and target."""
    library, address = request.library, request.query
    stored, query, number = library.open(request.names["run"]), row_query(address), page_number(address)
    only, is_marked = choice_of(address, "only", _ONLY, "all"), choice_of(address, "diff", _DIFF, "yes") == "yes"
    report, cases = library.report(stored), library.cases(stored, query, only_differing=only == "differ")
    rows = list(_rows(stored, cases.page(number, PAGE_CASES)))
    columns = _columns(report, rows, query)
    names = [(each.prompt, each.target) for each in columns]
    best = "" if report.matrix is None else best_text(report.matrix)
    path = path_to("r", stored.run_id, "grid")
    grid = _Grid(stored, report, columns[:_MAX_COLUMNS], is_marked=is_marked)
    parts = [
        element("h1", "Grid"),
        element("p", report.verdict.sentence, class_="sentence", dir="auto"),
        element("p", best, class_="sentence", dir="auto") if best else None,
        search_field(path, address, label="Search cases"),
        filter_chips(path, address),
        facet_list(path, address, shown_facets(cases.facets)),
        _choices(path, address, columns),
        element("p", _count_text(cases, number, columns), id="count", role="status"),
        grid.table(rows) if rows else _nothing(path, address, cases),
        page_links(path, address, page=number, pages=-(-len(cases.ids) // PAGE_CASES)),
    ]
    return Page(
        title=f"Grid of {stored.run.name or stored.run_id}",
        parts=parts,
        data={
            "total": len(cases.ids),
            "page": number,
            "best": best,
            "columns": [_column_json(each, report) for each in columns],
            "cases": [_row_json(each, names) for each in rows],
        },
        trail=run_trail(stored),
        address=path,
        links=run_links(stored, library.run_before(stored)),
        is_live=stored.state() == "running" or not (cases.progress.is_complete and cases.progress.words_ready),
    )


def _rows(stored: StoredRun, cases: Sequence[tuple[CaseId, Sequence[FoundTrial]]]) -> Iterator[_GridRow]:
    records: dict[CaseId, list[CaseRecord]] = {}
    for record in stored.cases_named({case for case, _ in cases}):
        records.setdefault(CaseId(record.suite, record.eval_id), []).append(record)
    for case, found in cases:
        trials: dict[CellName, list[FoundTrial]] = {}
        for each in found:
            trials.setdefault(each.cell, []).append(each)
        prompts = {prompt for prompt, _ in trials}
        shown = [each for each in records.get(case, ()) if each.prompt in prompts]
        yield _GridRow(case, shown, {cell: _cell(stored, each) for cell, each in trials.items()})


def _cell(stored: StoredRun, trials: Sequence[FoundTrial]) -> _Cell:
    shown = min(trials, key=lambda each: shown_rank(each.state, each.trial))
    (result,) = stored.results_at([shown.place])
    return _Cell(_bounded(result), sum(each.state == "pass" for each in trials), len(trials))


def _bounded(result: CaseResult) -> CaseResult:
    """Return a result with what a cell shows, so that a page with many long answers fits into memory."""
    return replace(
        result, candidate_answer=shortened(result.candidate_answer), output_messages=(), trace=(), metadata={}
    )


def _columns(report: RunReport, rows: Sequence[_GridRow], query: RowQuery) -> Sequence[CellSummary]:
    """Return the chosen prompts and targets of a run with their rates, in the order of the plan."""
    columns: Sequence[CellSummary] = () if report.matrix is None else report.matrix.cells
    if not columns:  # one prompt with one target
        names = dict.fromkeys(name for row in rows for name in row.cells)
        columns = [
            CellSummary(
                prompt=prompt,
                target=target,
                counts=each.counts,
                mean_score=each.mean_score,
                pass_rate=each.pass_rate,
                mean_interval=each.mean_interval,
                pass_rate_interval=each.pass_rate_interval,
            )
            for prompt, target in names
            for each in report.targets
            if each.target == target
        ]
    return [
        each
        for each in columns
        if (not query.targets or each.target in query.targets) and (not query.prompts or each.prompt in query.prompts)
    ]


class _Grid(Struct, frozen=True):
    """The table of a run's cases with these columns."""

    stored: StoredRun
    report: RunReport
    columns: Sequence[CellSummary]
    is_marked: bool

    def table(self, rows: Sequence[_GridRow]) -> Html:
        """Return the table: for each case a head, and below it the answers."""
        heads = element("thead", element("tr", *map(self._head, self.columns)))
        table = element("table", heads, *map(self._case, rows), class_=f"columns-{len(self.columns)}")
        return element("div", table, class_="scroll grid", tabindex="0", role="region", aria_label="Grid")

    def _head(self, column: CellSummary) -> Html:
        (rate, bounds), (mean, _) = rate_cell(column), mean_cell(column)
        matrix = self.report.matrix
        is_best = matrix is not None and matrix.is_best(column)
        return element(
            "th",
            element("span", _name(column), dir="auto", class_="name"),
            element("b", f" {BEST_MARK} best") if is_best else None,
            element("small", f"{rate} passed ({bounds}), {judged_text(column)}" if bounds else judged_text(column)),
            element("small", f"mean score {mean}"),
            scope="col",
        )

    def _case(self, row: _GridRow) -> Html:
        address = path_to("r", self.stored.run_id, "case", row.id.eval_id)
        suite = element("small", f" {row.id.suite}") if len(self.stored.suites) > 1 else None
        head = element(
            "th",
            element("a", shown_name(row.id.eval_id), href=address, dir="auto"),
            suite,
            case_texts(shared_question(row.cases), row.expected),
            scope="rowgroup",
            colspan=str(len(self.columns)),
        )
        return element("tbody", element("tr", head), element("tr", *self._cells(row)))

    def _cells(self, row: _GridRow) -> Iterator[Html]:
        first: CaseResult | None = None
        for number, column in enumerate(self.columns):
            cell = row.cells.get((column.prompt, column.target))
            if cell is None:
                yield element("td", element("small", _name(column), class_="column"), element("small", "not run"))
                continue
            if number == 0:
                first = cell.result
            yield self._filled_cell(row, column, cell, None if first is cell.result else first)

    def _filled_cell(self, row: _GridRow, column: CellSummary, cell: _Cell, first: CaseResult | None) -> Html:
        result, name = cell.result, _name(column)
        state = row_state(result)
        before, after = "" if first is None else first.candidate_answer, result.candidate_answer
        is_marked = self.is_marked and before and after
        outcome = row_score(result)
        if cell.trials > 1:
            outcome = ", ".join(filter(None, (f"{cell.passed:,} of {cell.trials:,} passed", outcome)))
        elif outcome:
            outcome = f"score {outcome}"
        return element(
            "td",
            element("small", name, class_="column", dir="auto"),
            element(
                "p",
                state_badge(state),
                f" {outcome} " if outcome else " ",
                element(
                    "a",
                    "open",
                    href=path_to("r", self.stored.run_id, "row", str(result.seq)),
                    aria_label=f"open {row.id.eval_id} {name}",
                ),
                class_="outcome",
            ),
            marked_answer(before, after) if is_marked else answer_text(result),
            reason_text(result),
            class_=state,
        )


def _name(column: CellSummary) -> str:
    return cell_text(column.target, column.prompt)


def _choices(path: str, address: Query, columns: Sequence[CellSummary]) -> Html:
    several = (
        ()
        if len(columns) <= 1
        else (
            choice_links(path, address, "only", ((None, "all"), ("differ", "where results differ")), label="Cases"),
            choice_links(
                path,
                address,
                "diff",
                ((None, "marked"), ("no", "not marked")),
                label=f"Differences from {_name(columns[0])}",
            ),
        )
    )
    order = choice_links(path, address, "sort", _ORDERS, label="Order")
    return element("div", *several, order, class_="choices")


def _count_text(cases: MatchingCases, number: int, columns: Sequence[CellSummary]) -> str:
    shown = range_text(number, PAGE_CASES, len(cases.ids), "case")
    if not cases.progress.is_complete:
        shown += f"; {cases.progress.share:.0%} of the run is indexed"
    if len(columns) <= _MAX_COLUMNS:
        return shown
    return f"{shown}; {_MAX_COLUMNS} of {len(columns)} columns, choose others by target or prompt in Filters"


def _nothing(path: str, address: Query, cases: MatchingCases) -> Html:
    if cases.ids:
        return beyond_notice(path, address)
    if address.last("only") == "differ":
        text, link = "No case with different states or scores matches. ", address.without("only", "page")
        return element(
            "p", text, element("a", "Show cases with equal results, too", href=link.address(path)), class_="notice"
        )
    return element("p", "No case matches. ", element("a", "Show all cases", href=path), class_="notice")


def _column_json(column: CellSummary, report: RunReport) -> JsonObject:
    bounds, matrix = column.pass_rate_interval, report.matrix
    return {
        "target": column.target,
        "prompt": column.prompt,
        "counts": dict(column.counts),
        "pass_rate": column.pass_rate,
        "pass_rate_interval": None if bounds is None else [bounds.low, bounds.high],
        "mean_score": column.mean_score,
        "is_best": matrix is not None and matrix.is_best(column),
    }


def _row_json(row: _GridRow, columns: Sequence[CellName]) -> JsonObject:
    return {
        "suite": row.id.suite,
        "eval_id": row.id.eval_id,
        "question": shared_question(row.cases),
        "expected": row.expected,
        "cells": [_cell_json(*name, row.cells[name]) for name in columns if name in row.cells],
    }


def _cell_json(prompt: str | None, target: str, cell: _Cell) -> JsonObject:
    result, state = cell.result, row_state(cell.result)
    return {
        "prompt": prompt,
        "target": target,
        "seq": result.seq,
        "state": state,
        "passed": cell.passed,
        "trials": cell.trials,
        "score": result.score,
        "answer": result.candidate_answer,
        "reason": None if state == "pass" else row_reason(result),
    }
