"""Failures and missing results are reported, and never lead to a verdict as if they did not exist."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.support.judging import Judge

from agentv import (
    AggregatedEvaluationResult,
    EvaluationContext,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationResult,
    EvaluationRunConfig,
    EvaluationScore,
    ProviderRequest,
    run_evaluation_sync,
)

POLITE, SHORT, WARM = EvaluationCriteria("polite"), EvaluationCriteria("short"), EvaluationCriteria("warm")
PLEASE = {"type": "contains", "value": "please", "criterion": "polite"}


class Own:
    """A criteria evaluator whose criteria are known from its results only."""

    type = "Own"

    def __init__(self, says: Callable[[], Any], weight: float = 1.0) -> None:
        self.says = says
        self.weight = weight

    def evaluate(self, given: EvaluationInput, criteria: Sequence[EvaluationCriteria]) -> Any:  # noqa: ARG002
        return self.says()


def fails() -> Any:
    raise ValueError("boom")


def judged(
    evaluators: Sequence[Any], criteria: Sequence[EvaluationCriteria] = (POLITE, SHORT, WARM), **options: Any
) -> AggregatedEvaluationResult:
    config = EvaluationRunConfig(evaluators=evaluators, **options)
    return run_evaluation_sync(EvaluationInput("please", tuple(criteria)), config)


def test_failed_evaluator_leaves_only_its_own_criteria_unscored() -> None:
    result = judged([Own(fails), PLEASE])
    assert (result.overall_score, result.verdict, result.scored, result.expected) == (1.0, None, 1, 3)
    assert [(error.evaluator, error.criterion) for error in result.run_errors] == [("Own", "short"), ("Own", "warm")]
    assert "boom" in str(result.result("warm").error)
    assert judged([Own(fails), PLEASE], error_policy="zero").overall_score == pytest.approx(1 / 3)


@pytest.mark.parametrize("criteria", [(), (POLITE,)])
def test_a_failure_that_belongs_to_no_criterion_leaves_no_verdict(criteria: tuple[EvaluationCriteria, ...]) -> None:
    result = judged([Own(fails), PLEASE], criteria)
    assert (result.overall_score, result.verdict) == (1.0, None)
    assert [(error.evaluator, error.criterion) for error in result.run_errors] == [("Own", None)]
    assert judged([Own(fails, weight=0), PLEASE], criteria).verdict == "pass"


def test_an_evaluator_that_fails_without_criteria_counts_as_the_policy_says() -> None:
    excluded = judged([Own(fails), PLEASE], ())
    assert (excluded.overall_score, excluded.scored, excluded.expected) == (1.0, 1, 2)
    zero = judged([Own(fails), PLEASE], (), error_policy="zero")
    assert (zero.overall_score, zero.scored, zero.expected, zero.verdict) == (0.5, 2, 2, None)
    assert [error.evaluator for error in zero.run_errors] == ["Own"]
    weighed = judged([Own(fails, weight=3.0), PLEASE], (), error_policy="zero")
    assert weighed.overall_score == 0.25


def test_criterion_left_out_by_an_evaluator_without_names_is_an_error() -> None:
    result = judged([Own(lambda: [EvaluationResult("short", score=True)]), PLEASE])
    assert (result.verdict, result.scored, result.expected) == (None, 2, 3)
    assert [(error.criterion, error.message) for error in result.run_errors] == [("warm", "no evaluator scored it")]


def test_criterion_of_an_unselected_evaluator_is_not_missed() -> None:
    result = judged([Own(list), PLEASE], only=["contains"])
    assert (result.verdict, result.expected, result.run_errors) == ("pass", 1, ())


def test_results_for_other_criteria_than_the_evaluators_own_count_as_well() -> None:
    def polite(_context: EvaluationContext) -> list[EvaluationResult]:
        return [EvaluationResult("polite", score=True), EvaluationResult("short", score=False)]

    brief = {"type": "length", "max": 9, "criterion": "short"}
    result = judged([polite, brief], (POLITE, SHORT))
    assert [(each.criterion_name, each.value) for each in result.results] == [
        ("polite", 1.0),
        ("short", 0.0),
        ("short", 1.0),
    ]
    assert "not a criterion of the input" in judged([polite], (POLITE,)).run_errors[0].message


def test_what_an_evaluator_skips_is_expected_and_not_scored() -> None:
    def polite(_context: EvaluationContext) -> EvaluationScore:
        return EvaluationScore(0.0, status="skipped", reasoning="no reply yet")

    result = judged([polite], (POLITE,))
    assert (result.scored, result.expected, result.run_errors) == (0, 1, ())
    assert result.result("polite").reasoning == "no reply yet"


def test_an_evaluator_given_as_an_object_may_ask_the_judge() -> None:
    judge = Judge(lambda _request: "yes")

    async def polite(context: EvaluationContext) -> bool:
        assert context.judge_provider is not None
        reply = await context.judge_provider.invoke(ProviderRequest("Is it?"))
        return reply.text == "yes"

    assert judged([polite], (POLITE,), judge=judge).overall_score == 1.0
    assert len(judge.requests) == 1
