"""One result of `agentv score --otlp`, as it is shown when it comes."""

import pytest
from msgspec.structs import replace
from tests.reports.hostile_run import report_of
from tests.support.rows import make_row

from agentv.reports.run.score import ScoreView
from agentv.types.failures import Failure
from agentv.types.records.result import CaseResult


def received(row: CaseResult, answer: str) -> CaseResult:
    return replace(row, file="otlp", line=3, part=2, candidate_answer=answer)


def test_a_passed_answer_is_one_line() -> None:
    assert ScoreView().row(received(make_row("a"), "On its\nway.")) == "✓ otlp:3#2  1.00  On its way."


def test_a_long_answer_is_cut_to_the_width() -> None:
    line = ScoreView(width=30).row(received(make_row("a"), "On its way, and here on Friday."))
    assert line == "✓ otlp:3#2  1.00  On its way,…"


def test_an_answer_that_cannot_be_judged_has_the_reason_below() -> None:
    failed = make_row("a", score=None, error=Failure("judge_error", "the judge does not answer"))
    assert ScoreView().row(received(failed, "Hm.")).splitlines() == [
        "! otlp:3#2  Hm.",
        "  │ the judge does not answer",
    ]


@pytest.mark.parametrize(("seconds", "said"), [(600.0, "Took 10:00\n"), (2.0, "Took 2.0 s (2 lines a second)\n")])
def test_traces_that_came_slowly_have_no_speed_of_zero(seconds: float, said: str) -> None:
    rows = [make_row(each) for each in "abcd"]
    assert said in ScoreView().report(replace(report_of(rows), duration_s=seconds))
