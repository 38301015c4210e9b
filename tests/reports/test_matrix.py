"""The matrix of prompts and targets as text, and in the reports."""

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.reports.rows import REPORT

from agentv.reports.document.html import documents_html
from agentv.reports.run.document import run_document
from agentv.reports.run.end_table import end_report
from agentv.reports.run.matrix import matrix_lines
from agentv.reports.run.report_json import report_text
from agentv.reports.text.signs import without_colour
from agentv.reports.text.width import display_width
from agentv.types.summaries import BestCell, CellSummary, Interval, MatrixSummary

RATE = Interval(0.551, 0.685, "wilson")
MEAN = Interval(0.771, 0.842, "scaled-wilson")


def cell(prompt: str | None, target: str, *, errors: int = 0) -> CellSummary:
    counts = {"pass": 124, "fail": 76 - errors, "error": errors}
    return CellSummary(prompt, target, counts, 0.812, 0.62, MEAN, RATE)


def matrix(prompts: Sequence[str | None], targets: Sequence[str], *, is_significant: bool = False) -> MatrixSummary:
    names = [(prompt, target) for prompt in prompts for target in targets]
    best = BestCell(*names[-1], *names[0], 200, 0.04, Interval(0.01, 0.07, "student-t"), 0.012, is_significant)
    return MatrixSummary(tuple(prompts), tuple(targets), tuple(cell(*name) for name in names), best)


def lines(made: MatrixSummary, width: int | None = 80) -> list[str]:
    return matrix_lines(made, width, without_colour)


def test_rows_are_prompts_and_columns_are_targets() -> None:
    assert lines(matrix(["plain", "hinted"], ["small", "large"], is_significant=True)) == [
        "prompt (200 each)                    small                    large",
        "plain               62 %  55.1 to 68.5 %     62 %  55.1 to 68.5 %",
        "                    0.81    0.77 to 0.84     0.81    0.77 to 0.84",
        "hinted              62 %  55.1 to 68.5 %     62 %  55.1 to 68.5 % *",
        "                    0.81    0.77 to 0.84     0.81    0.77 to 0.84",
        "* best: large · hinted, above small · plain by +0.04 (+0.01 to +0.07), p =",
        "0.012, 200 cases",
    ]


def test_without_a_significant_best_no_cell_is_marked() -> None:
    found = "\n".join(lines(matrix(["plain", "hinted"], ["small", "large"]), None))
    assert "*" not in found
    assert found.endswith(
        "no significant best: large · hinted and small · plain differ by +0.04 (+0.01 to +0.07), p = 0.012, 200 cases"
    )


def test_a_wide_matrix_is_turned() -> None:
    found = lines(matrix(["plain", "hinted"], ["a", "b", "c", "d"]))
    assert found[0].split() == ["target", "(200", "each)", "plain", "hinted"]
    assert [line.split()[0] for line in found[1:9:2]] == ["a", "b", "c", "d"]


def test_a_matrix_that_is_wide_both_ways_is_shown_in_parts() -> None:
    found = lines(matrix(list("pqrst"), list("abcde")))
    heads = [line.split()[3:] for line in found if line.startswith("prompt")]
    assert heads == [["a", "b"], ["c", "d"], ["e"]]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_screen(width: int, count: int) -> None:
    names = [f"name-{number}-{'x' * 70}\x1b[2J家族" for number in range(count)]
    found = lines(matrix(names, [*names, "last"], is_significant=True), width)
    assert max(map(display_width, found)) <= width
    assert "\x1b" not in "".join(found)


def test_different_counts_are_shown_in_the_cells() -> None:
    made = matrix(["plain", "hinted"], ["small"])
    made = replace(made, cells=(made.cells[0], cell("hinted", "small", errors=3)))
    found = lines(made)
    assert found[0].split() == ["prompt", "small"]
    assert found[3].split() == ["of", "200"]
    assert found[6].split() == ["of", "197,", "3", "errors"]


def test_a_cell_without_rows_is_a_dash() -> None:
    made = matrix(["plain", "hinted"], ["small", "large"])
    found = lines(replace(made, cells=made.cells[:3]))
    assert found[4].split() == ["hinted", "62", "%", "55.1", "to", "68.5", "%", "-"]


def test_without_prompts_only_the_best_is_said() -> None:
    (only,) = lines(matrix([None], ["small", "large"], is_significant=True), None)
    assert only.startswith("* best: large, above small by +0.04")


def test_without_a_best_the_cells_that_are_lower_are_named() -> None:
    made = matrix(["plain", "hinted"], ["small", "large"])
    assert made.best is not None
    lower = tuple(("plain", f"target-{number}") for number in range(7))
    (only,) = (line for line in lines(replace(made, best=replace(made.best, lower=lower)), None) if "best" in line)
    named = ", ".join(f"target-{number} · plain" for number in range(5))
    assert only.endswith(f"; large · hinted is significantly above {named} and 2 more")


def test_the_end_of_a_run_has_the_matrix_between_targets_and_scores() -> None:
    made = end_report(replace(REPORT, matrix=matrix(["plain", "hinted"], ["small", "large"])))
    assert made.index("\ntarget ") < made.index("\nprompt (200 each)") < made.index("\nscores ")


def test_the_json_report_has_each_cell_and_the_best() -> None:
    made = matrix(["plain", "hinted"], ["small", "large"], is_significant=True)
    found = json.loads(report_text(replace(REPORT, matrix=made)))["matrix"]
    assert (found["prompts"], found["targets"]) == (["plain", "hinted"], ["small", "large"])
    assert [each["is_best"] for each in found["cells"]] == [False, False, False, True]
    assert found["cells"][0]["pass_rate_interval"] == {"low": 0.551, "high": 0.685, "level": 0.95, "method": "wilson"}
    assert (found["best"]["p"], found["best"]["is_significant"]) == (0.012, True)
    assert "matrix" not in json.loads(report_text(REPORT))


def test_the_html_page_marks_the_best_cell() -> None:
    report = replace(REPORT, matrix=matrix(["plain", "<b>"], ["small", "large"], is_significant=True))
    page = documents_html([run_document(report, None, is_short=False)])
    assert page.count("<b>62 % *</b>") == 1
    assert "&lt;b&gt;" in page
