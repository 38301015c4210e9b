"""The facts of a run are the same on a terminal, in Markdown and on a page."""

from html import unescape

import pytest
from msgspec.structs import replace
from tests.reports.hostile_run import tools_of
from tests.reports.rows import FAILED, PASSED, REPORT, UNANSWERED

from agentv.reports.html.page import html_page
from agentv.reports.run.end_table import end_report
from agentv.reports.run.markdown import make_markdown
from agentv.reports.run.views import RowDetail
from agentv.reports.text.signs import STATES_OF_GATES, UNICODE
from agentv.types.events import RunEnded
from agentv.types.results import GateResult, RunReport, RunVerdict

ROWS = (FAILED, UNANSWERED, PASSED)
GATES = (
    GateResult("pass_rate >= 90%", "failed", 0.1, "pass_rate is 10 %, not >= 90 %"),
    GateResult("errors <= 9", "passed", 4, "errors is 4, as required (<= 9)"),
    GateResult("mean >= 0.5", "not_evaluated", None, "mean was not evaluated"),
)


def texts_of(report: RunReport) -> dict[str, str]:
    tools = tools_of([RowDetail(row) for row in report.results])
    markdown = make_markdown(tools).text_of(RunEnded(report))
    return {
        "text": end_report(report, width=None),
        "md": unescape(markdown).replace("`", "").replace("\\", ""),
        "html": unescape(html_page(report, tools)),
    }


@pytest.mark.parametrize("name", ["text", "md", "html"])
def test_every_format_has_the_facts_of_a_run(name: str) -> None:
    verdict = RunVerdict(1, "FAIL: pass_rate is 10 %.", GATES)
    shown = texts_of(replace(REPORT, results=ROWS, verdict=verdict))[name]
    for fact in (
        "FAIL: pass_rate is 10 %.",
        "Exit code 1",
        *(f"{UNICODE.marks[STATES_OF_GATES[gate.state]]} {gate.sentence}" for gate in GATES),
        *("agent-v1", "72.2 % of 557", "68.3 to 75.8 %", "0.78 to 0.84", "pass@3", "$0.84", "150.0 k", "4.5 s"),
        *("contains", "tone", "llm_judge"),
        *("refund-3 (agent-v1)", "the price of 'small' is not known", "02:41", REPORT.run_id),
    ):
        assert fact in shown, fact
    assert ("largest bin: 402 of 568" in shown) == (name != "html")  # a page has a chart with all bins
    assert ("Scores of 568 scored results in ten bins: " in shown) == (name == "html")


def test_a_single_gate_is_said_by_the_verdict_alone() -> None:
    verdict = RunVerdict(1, "FAIL: pass_rate is 10 %.", GATES[:1])
    assert all(
        GATES[0].sentence not in each for each in texts_of(replace(REPORT, results=ROWS, verdict=verdict)).values()
    )


@pytest.mark.parametrize(("count", "head"), [(1, "metric"), (4, "metric"), (5, "target")])
def test_few_targets_are_columns_and_many_are_rows(count: int, head: str) -> None:
    targets = tuple(replace(REPORT.targets[0], target=f"agent-{number}") for number in range(count))
    markdown = texts_of(replace(REPORT, results=ROWS, targets=targets))["md"]
    assert f"\n| {head} |" in markdown
    assert all(each.target in markdown for each in targets)


def test_a_run_that_is_going_on_has_no_exit_code_and_no_duration() -> None:
    running, ended = (html_page(replace(REPORT, state=state), tools_of([])) for state in ("running", "stopped"))
    assert "Exit code" not in running
    assert "<dt>took</dt>" not in running
    assert "Exit code" in ended
    assert "<dt>took</dt>" in ended
