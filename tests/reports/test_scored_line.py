"""One result of `agentv score --otlp`, as it is shown when it comes."""

from msgspec.structs import replace
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
