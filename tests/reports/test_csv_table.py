"""CSV: a row a line, and nothing that a spreadsheet computes."""

import csv
import io

import pytest
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, hostile_detail, report_of, tools_of
from tests.reports.rows import FAILED, PASSED, UNANSWERED

from agentv.reports.run.csv_table import COLUMNS, csv_table
from agentv.reports.run.formats import ReportTools
from agentv.reports.run.views import RowDetail
from agentv.types.results import RunReport


def table_of(report: RunReport, tools: ReportTools) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(csv_table(report, tools), newline="")))


def test_a_row_is_a_line_with_its_evaluators_scores() -> None:
    rows = (FAILED, PASSED, UNANSWERED)
    table = table_of(report_of(rows), tools_of([RowDetail(row) for row in rows]))
    assert list(table[0]) == [*COLUMNS, "score: contains", "score: tone"]
    shown = [
        (each["eval_id"], each["state"], each["score"], each["score: contains"], each["score: tone"]) for each in table
    ]
    assert shown == [
        ("refund-7", "fail", "0.3333333333333333", "0.0", "1.0"),
        ("refund-7", "pass", "1.0", "", "1.0"),
        ("order-9", "error", "", "", ""),
    ]
    assert table[0]["reason"] == 'contains: expected "30 days", got "We will look into it."'


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t=", "\r=", "\n=", " =", "\uff1d"])
def test_no_cell_is_a_formula(start: str) -> None:
    detail = hostile_detail(f"{start}1+1")
    (line,) = table_of(report_of([detail.result]), tools_of([detail]))
    assert line["candidate_answer"].startswith("'")
    assert not [cell for cell in (*line, *line.values()) if cell.strip()[:1] in ("=", "+", "@", "\uff1d")]


def test_hostile_texts_make_neither_lines_nor_cells() -> None:
    table = table_of(HOSTILE_REPORT, HOSTILE_TOOLS)
    assert len(table) == len(HOSTILE_REPORT.results)
    assert not [line for line in table if None in line or None in line.values()]
    assert not {"\x1b", "\x00", "\u202e"} & set(csv_table(HOSTILE_REPORT, HOSTILE_TOOLS))


def test_a_cell_holds_what_a_spreadsheet_takes() -> None:
    detail = hostile_detail("=x" * 5_000_000)
    (line,) = table_of(report_of([detail.result]), tools_of([detail]))
    assert max(map(len, line.values())) < 32_767
