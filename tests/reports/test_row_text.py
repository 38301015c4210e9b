"""Why a row did not pass, and what it is called."""

import pytest
from msgspec.structs import replace
from tests.reports.rows import FAILED, STARTED
from tests.support.stored import CONTAINS, JUDGE, SLOT, make_result

from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels, row_reason
from agentv.types.evaluation import EvaluationResult, EvaluatorResult
from agentv.types.failures import Failure

FINE = replace(JUDGE, weight=10.0)
MISSED = 'expected "30 days", got "We will look into it."'


def reason(*evaluators: EvaluatorResult) -> str:
    return row_reason(make_result(evaluator_results=evaluators))


def test_a_broken_requirement_is_shown_first() -> None:
    short = replace(JUDGE, name="short", score=0.9, verdict="pass", misses=("a bit long",))
    required = replace(CONTAINS, name="r", required=True, weight=0.0)
    assert reason(short, FINE, required) == f"required r: {MISSED} | short: a bit long"


def test_a_required_score_is_named_with_what_was_reached() -> None:
    almost = replace(JUDGE, hits=(), reasoning=None, score=0.85, required=0.9)
    assert reason(almost) == "required tone: 0.85 where 0.9 is required"


def test_a_required_item_of_a_rubric_is_named() -> None:
    items = (
        EvaluationResult("safe", 0, value=0.0, metadata={"required": True}),
        EvaluationResult("kind", 1, value=1.0, metadata={"required": True}),
    )
    rubric = replace(JUDGE, name="rubric", score=0.95, verdict="fail", misses=("reveals the password",), results=items)
    assert reason(rubric) == "required safe of rubric: reveals the password"


def test_what_weighs_nothing_and_is_not_required_is_no_reason() -> None:
    watched = replace(CONTAINS, name="watched", weight=0.0, misses=("something else",))
    broken = replace(watched, name="broken", error=Failure("judge_error", "no reply"))
    assert reason(watched, broken, CONTAINS) == f"contains: {MISSED}"


@pytest.mark.parametrize(
    ("labels", "trial", "label"),
    [
        (PLAIN_LABELS, 0, "refund-7 · agent-v2"),
        (PLAIN_LABELS, 1, "refund-7 · agent-v2 trial 2"),
        (RowLabels(trials=3, with_target=False), 0, "refund-7 trial 1 of 3"),
        (RowLabels(trials=3, with_target=False), 2, "refund-7 trial 3 of 3"),
        (RowLabels(trials=3, with_target=False), 3, "refund-7 trial 4"),
        (RowLabels(with_suite=True), 0, "refund-7 (evals/refunds.yaml) · agent-v2"),
    ],
)
def test_labels_of_results_are_distinct(labels: RowLabels, trial: int, label: str) -> None:
    assert labels.label(replace(FAILED, slot=replace(SLOT, trial=trial))) == label


def test_a_run_of_several_suites_names_them() -> None:
    assert RowLabels.of_run(STARTED) == RowLabels(with_suite=False, trials=3)
    assert RowLabels.of_run(replace(STARTED, suites=("a", "b"))).with_suite


def test_an_evaluator_that_failed_is_named_once() -> None:
    error = Failure("judge_error", "evaluator 'tone': the judge gave no JSON", stage="evaluator")
    assert row_reason(make_result(status="error", error=error, duration_ms=0.0)) == (
        "error evaluator 'tone': the judge gave no JSON"
    )
