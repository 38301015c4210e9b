"""A run as Markdown for a job summary or pull request comment: the verdict first, then the numbers."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from agentv.reports.run.end_table import group_table_rows
from agentv.reports.run.figures import (
    BASELINE_HEADS,
    CORRECTED_HEADS,
    STATE_NAMES,
    baseline_cells,
    corrected_cells,
    corrected_notes,
    estimated_note,
    evaluator_figures,
    shown_k,
    target_figures,
)
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.gate_cases import case_facts, case_texts, gate_heading, named_before, other_failing, rest_text
from agentv.reports.run.matrix import best_text, grid_of, has_prompts, judged_text, mean_cell, rate_cell
from agentv.reports.run.row_text import RowLabels, row_reason, row_score
from agentv.reports.run.views import counts_text
from agentv.reports.text.amounts import count_text, took_text
from agentv.reports.text.markup import cell_code, inline_code
from agentv.reports.text.signs import STATES_OF_GATES, UNICODE
from agentv.scoring.keys.identity import slug
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import GateResult, RowState, RunReport
from agentv.types.summaries import BaselineSummary, CellSummary, GroupSummary, MatrixSummary

MARKER = "agentv-report"
_MAX_ITEMS = 20
_MAX_GATES = 3
_INTERVAL = "95 % CI"
_MAX_EVALUATORS = 100
_MAX_GROUP_ROWS = 100
_MAX_UNFOLDED_EVALUATORS = 6
_MAX_REASON_CHARS = 300
_STATES_BY_EXIT_CODE: Mapping[int, RowState] = {0: "pass", 1: "fail"}
"""The state whose mark stands before the heading; other exit codes get the mark of an error."""


def make_markdown(tools: ReportTools) -> Format:
    """Return the format that writes the report as Markdown at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return markdown(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)


def markdown(report: RunReport, tools: ReportTools) -> str:
    """Return the report: the verdict, the cases that made a gate fail, then the numbers.

    At most ten cases of a gate and ten results that did not pass are listed, and the rest counted. The first line is an
    invisible comment, by which the pull request comment of an earlier run is found and replaced.
    Untrusted text is always in code spans, where links, mentions, images and markup have no effect.
    """
    record = tools.record(report)
    blocks = [
        *_head(report, record),
        *_failed_gates(report),
        _target_table(report),
        _matrix(report.matrix),
        _corrected_table(report),
        _baseline(report.baseline),
        _failing(report),
        _evaluator_table(report),
        *_group_tables(report),
        *_remarks(report),
        _tail(report, record),
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _head(report: RunReport, record: RunRecord | None) -> Iterator[str]:
    name = record.name if record is not None else None
    marker_name = slug(name) if name else ""
    yield f"<!-- {MARKER}: {marker_name} -->" if marker_name else f"<!-- {MARKER} -->"
    mark = UNICODE.marks[_STATES_BY_EXIT_CODE.get(report.exit_code, "error")]
    yield f"### {mark} agentv{f' · {inline_code(name)}' if name else ''}"
    yield f"**{inline_code(report.verdict.sentence)}** Exit code {report.exit_code}."
    if len(report.verdict.gates) > 1:
        yield _items(
            [
                f"{UNICODE.marks[STATES_OF_GATES[each.state]]} {inline_code(each.sentence)}"
                for each in report.verdict.gates
            ]
        )


def _target_table(report: RunReport) -> str:
    has_several, k = len(report.targets) > 1, shown_k(report.targets)
    rows = [
        (f"{cell_code(each.target)} {figure.name}" if has_several else figure.name, figure.value, figure.interval)
        for each in report.targets[:_MAX_ITEMS]
        for figure in target_figures(each, k)
        if figure.name not in STATE_NAMES.values() and figure.value != "-"
    ]
    total, _, states = counts_text(report.counts).partition(": ")
    table = _table(("metric", "value", _INTERVAL), [("results", states or total, ""), *rows])
    more = _more((len(report.targets) - _MAX_ITEMS, "target"))
    return "\n\n".join(filter(None, (table, more, estimated_note(report.targets))))


def _matrix(matrix: MatrixSummary | None) -> str:
    """Return the matrix of prompts and targets, and the best cell; without prompts only the best."""
    if matrix is None:
        return ""
    best = inline_code(best_text(matrix)) if matrix.best is not None else ""
    if not has_prompts(matrix):
        return best
    grid = grid_of(matrix)
    columns = grid.columns[:_MAX_ITEMS]
    rows = [
        (cell_code(name), *(_cell(matrix, each) for each in cells[:_MAX_ITEMS]))
        for name, cells in list(zip(grid.rows, grid.cells, strict=True))[:_MAX_ITEMS]
    ]
    more = _more((len(grid.rows) - _MAX_ITEMS, "prompt"), (len(grid.columns) - _MAX_ITEMS, "target"))
    return "\n\n".join(filter(None, (_table((grid.corner, *map(cell_code, columns)), rows), more, best)))


def _cell(matrix: MatrixSummary, cell: CellSummary | None) -> str:
    """Return the rate and the mean of a cell with their intervals, bold for the best one."""
    if cell is None:
        return "-"
    figures = [f"{value} ({bounds})" for value, bounds in (rate_cell(cell), mean_cell(cell))]
    text = "<br>".join((*figures, judged_text(cell)))
    return f"**{text}**" if matrix.is_best(cell) else text


def _baseline(summary: BaselineSummary | None) -> str:
    """Return the comparison with the baseline: the finding, then the differences."""
    if summary is None:
        return ""
    cells = baseline_cells(summary)
    table = _table(BASELINE_HEADS, [cells]) if cells else "No case was scored in both."
    return f"Compared with {inline_code(summary.baseline)}: **{inline_code(summary.finding)}**\n\n{table}"


def _evaluator_table(report: RunReport) -> str:
    """Return the table of evaluators, collapsed if it is long."""
    if not report.evaluators:
        return ""
    shown = report.evaluators[:_MAX_EVALUATORS]
    figures = [list(evaluator_figures(each, report.baseline)) for each in shown]
    mean_head, *other_heads = (figure.name for figure in figures[0])
    rows = [
        (cell_code(each.name), mean.value, mean.interval, *(figure.value for figure in others))
        for each, (mean, *others) in zip(shown, figures, strict=True)
    ]
    table = _table(("evaluator", mean_head, _INTERVAL, *other_heads), rows)
    if more := _more((len(report.evaluators) - _MAX_EVALUATORS, "evaluator")):
        table = f"{table}\n\n{more}"
    if len(report.evaluators) <= _MAX_UNFOLDED_EVALUATORS:
        return table
    return f"<details><summary>{count_text(len(report.evaluators), 'evaluator')}</summary>\n\n{table}\n\n</details>"


def _group_tables(report: RunReport) -> Iterator[str]:
    """Yield the tables of the first groups, each group with all its targets and prompts, and count the others."""
    groups: dict[tuple[str, str], list[GroupSummary]] = {}
    for group in report.shown_groups:
        groups.setdefault((group.by, group.name), []).append(group)
    rows_so_far = accumulate(map(len, groups.values()))
    shown = [members for members, rows in zip(groups.values(), rows_so_far, strict=True) if rows <= _MAX_GROUP_ROWS]
    for head, *rows in group_table_rows([each for members in shown for each in members]):
        cells = [[cell_code(row[0]), *row[1:]] for row in rows]
        yield _table([cell_code(head[0]), *head[1:]], cells)
    if more := _more((len(groups) - len(shown), "group")):
        kinds = dict.fromkeys(kind for kind, _ in list(groups)[len(shown) :])
        options = " ".join(f"--by {shlex.quote(kind)}" for kind in kinds)
        yield f"{more}: {inline_code(f'agentv show {report.run_id} {options}')}"


def _corrected_table(report: RunReport) -> str:
    """Return the judges' pass rates corrected for their measured errors; empty without rates."""
    if not report.corrected:
        return ""
    rows = [map(cell_code, cells) for cells in map(corrected_cells, report.corrected[:_MAX_EVALUATORS])]
    blocks = (
        _table(CORRECTED_HEADS, list(map(list, rows))),
        _more((len(report.corrected) - _MAX_EVALUATORS, "rate")),
        _items([inline_code(note) for note in corrected_notes(report.corrected)]),
    )
    return "\n\n".join(filter(None, blocks))


def _more(*left_out: tuple[int, str]) -> str:
    """Return what a table leaves out, given as counts with their nouns; empty if it leaves out nothing."""
    texts = [count_text(count, f"more {noun}") for count, noun in left_out if count > 0]
    return f"and {', '.join(texts)}" if texts else ""


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table without interval columns that are empty in all rows."""
    shown = [index for index, name in enumerate(heads) if name != _INTERVAL or any(row[index] for row in rows)]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line[index] for index in shown)} |" for line in lines)


def _remarks(report: RunReport) -> Iterator[str]:
    if report.flaky:
        yield "**Flaky cases**\n\n" + _items([inline_code(each) for each in report.flaky])
    if report.notes:
        yield "**Notes**\n\n" + _items([inline_code(each, max_chars=_MAX_REASON_CHARS) for each in report.notes])


def _items(texts: Sequence[str]) -> str:
    """Return a list of at most 20 items and the number of further ones."""
    more = [f"- and {len(texts) - _MAX_ITEMS:,} more"] if len(texts) > _MAX_ITEMS else []
    return "\n".join([*(f"- {text}" for text in texts[:_MAX_ITEMS]), *more])


def _failed_gates(report: RunReport) -> Iterator[str]:
    """Yield the cases of failed gates, of the first gates only if there are many."""
    gates = report.verdict.gates_with_cases
    yield from (_gate_cases(gate, report) for gate in gates[:_MAX_GATES])
    yield _more((len(gates) - _MAX_GATES, "failed gate"))


def _gate_cases(gate: GateResult, report: RunReport) -> str:
    """Return the cases that made a gate fail, each with its question, answers and reasons."""
    labels = RowLabels(with_suite=len({case.result.slot.suite for case in gate.cases}) > 1)
    head, _, rest = gate_heading(gate).partition(repr(gate.expression))
    lines, named = [f"**{head}{inline_code(gate.expression)}{rest}**", ""], named_before(gate, report)
    for case in gate.cases:
        place = _place(case.result)
        name = f"{inline_code(labels.case(case.result))} on {inline_code(case.result.slot.target)}"
        parts = [f"- {UNICODE.marks[row_state(case.result)]} {name} {case_facts(case)}".rstrip() + place]
        parts += [
            f"{label}: {inline_code(text, max_chars=_MAX_REASON_CHARS)}" for label, text in case_texts(case, named)
        ]
        lines.append("\\\n  ".join(parts))
    return "\n".join([*lines, *([f"- {_rest(rest_text(gate, report))}"] if rest_text(gate, report) else [])])


def _rest(text: str) -> str:
    """Return `and 3 more: COMMAND` with the command as code."""
    count, _, command = text.partition(": ")
    return f"{count}: {inline_code(command)}"


def _failing(report: RunReport) -> str:
    """Return the first results that did not pass, without the cases of failed gates, and the number of the others."""
    rows, rest = other_failing(report)
    if not rows and not rest:
        return ""
    labels = RowLabels(with_suite=len({row.slot.suite for row in rows}) > 1)
    lines = [f"**Did not pass: {report.failing_total:,}**", "", *(_row(row, labels) for row in rows)]
    if rest:
        lines.append(f"- and {rest:,} more: {inline_code(f'agentv show {report.run_id} --failed')}")
    return "\n".join(lines)


def _place(row: CaseResult) -> str:
    return f" at {inline_code(f'{row.file}:{row.line}')}" if row.file else ""


def _row(row: CaseResult, labels: RowLabels) -> str:
    score = f" {row_score(row)}" if row_score(row) else ""
    head = f"{inline_code(labels.label(row))} on {inline_code(row.slot.target)}{score}{_place(row)}"
    lines = [f"- {UNICODE.marks[row_state(row)]} {head}", inline_code(row_reason(row), max_chars=_MAX_REASON_CHARS)]
    if row.partial is not None and row.partial.text:
        lines.append(f"partial answer: {inline_code(row.partial.text, max_chars=_MAX_REASON_CHARS)}")
    return "\\\n  ".join(lines)


def _tail(report: RunReport, record: RunRecord | None) -> str:
    parts = [
        f"run {inline_code(report.run_id)}",
        count_text(sum(report.counts.values()), "result"),
        f"took {took_text(report.duration_s)}",
    ]
    commit = str((record.git or {}).get("commit") or "")[:12] if record is not None else ""
    if commit:
        parts.append(f"commit {inline_code(commit)}")
    if record is not None:
        parts.append(f"agentv {inline_code(record.agentv_version)}")
    return f"<sub>{' · '.join(parts)}</sub>"
