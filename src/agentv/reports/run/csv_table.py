"""A run as CSV for spreadsheets: a line per result with a column per evaluator, and formulas neutralised."""

import csv
import io
from collections.abc import Sequence

from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.row_text import is_judged, row_reason
from agentv.reports.text.printable import printable
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.answer import Origin
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport

COLUMNS = (
    "run_id",
    "suite",
    "eval_id",
    "target",
    "trial",
    "prompt",
    "state",
    "status",
    "verdict",
    "score",
    "reason",
    "candidate_answer",
    "tags",
    "cost_usd",
    "duration_ms",
    "error_kind",
    "file",
    "line",
    "trace_id",
    "span_id",
)
"""The columns of every table, in this order; a column `score: NAME` for each evaluator follows."""

_STARTS_A_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NO_ORIGIN = Origin("", 0)
_MAX_CELL_CHARS = 32_000
"""Spreadsheets allow 32,767 characters in a cell."""


def make_csv(tools: ReportTools) -> Format:
    """Return the format that writes a table of all results at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return csv_table(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)


def csv_table(report: RunReport, tools: ReportTools) -> str:
    """Return the table. Text that a spreadsheet would read as a formula is prefixed with an apostrophe."""
    names = list(dict.fromkeys(each.name for each in report.evaluators))
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([_safe_text(name) for name in (*COLUMNS, *(f"score: {name}" for name in names))])
    for row in tools.rows(report):
        writer.writerow([*_cells(row), *_scores(row, names)])
    return output.getvalue()


def _cells(row: CaseResult) -> list[str]:
    slot, place = row.slot, row.origin or _NO_ORIGIN
    return [
        _safe_text(row.run_id),
        _safe_text(slot.suite),
        _safe_text(slot.eval_id),
        _safe_text(slot.target),
        str(slot.trial),
        _safe_text(slot.prompt or ""),
        row_state(row),
        row.status,
        row.verdict or "",
        _number(row.judged_score),
        "" if row_state(row) == "pass" else _safe_text(row_reason(row)),
        _safe_text(row.candidate_answer),
        _safe_text(", ".join(row.tags)),
        _number(row.cost_usd),
        _number(row.duration_ms),
        row.error.kind if row.error is not None else "",
        _safe_text(row.file),
        str(row.line or ""),
        _safe_text(place.trace_id),
        _safe_text(place.span_id),
    ]


def _scores(row: CaseResult, names: Sequence[str]) -> list[str]:
    scores = {each.name: _number(each.score) for each in row.evaluator_results if is_judged(each)}
    return [scores.get(name, "") for name in names]


def _number(value: float | None) -> str:
    return "" if value is None else repr(value)


def _safe_text(text: str) -> str:
    """Return the text of a cell, shortened and with unsafe characters escaped; a formula gets an apostrophe."""
    shown = printable(text[:_MAX_CELL_CHARS])
    return f"'{shown}" if text.lstrip(" ").startswith(_STARTS_A_FORMULA) else shown
