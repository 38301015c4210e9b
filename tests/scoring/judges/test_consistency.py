"""Consistency of a judge over repeats."""

import pytest

from agentv.scoring.judges.consistency import RepeatedJudgement, consistency, repeated_judgement
from agentv.scoring.judges.labels import Opinion
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus
from agentv.types.records.answer import ResultKey


def again(case: int, *scores: float, length: int = 10) -> RepeatedJudgement:
    slot = ResultKey("s.yaml", f"c-{case}", "agent")
    return RepeatedJudgement(slot, length, tuple(Opinion(each, each >= 0.8) for each in scores))


def result(score: float, *verdicts: tuple[str, str], status: EvaluatorStatus = "scored") -> EvaluatorResult:
    parts = (EvaluationResult("tone", score, score, metadata={"verdicts": [list(each) for each in verdicts]}),)
    return EvaluatorResult(name="tone", type="pairwise", score=score, status=status, results=parts)


def test_the_share_of_answers_with_the_same_verdict_each_time() -> None:
    found = consistency([again(1, 1, 0.9, 1), again(2, 1, 0, 1), again(3, 0, 0.2, 0.1), again(4, 0.5)], 3)
    assert found.same_verdict.rate is not None
    assert found.same_verdict.rate.value == pytest.approx(2 / 3)
    assert (found.same_verdict.rate.rows, found.answers) == (3, 4)
    assert found.deviation == pytest.approx((0.05773502691896257 + 0.5773502691896258 + 0.1) / 3)


def test_verdicts_that_change_with_the_order_are_counted() -> None:
    # The candidate is A first, then B: A and then B is the same verdict, A twice depends on the position.
    each = repeated_judgement(
        ResultKey("s", "c", "t"), 5, [result(0.5, ("A", "A")), result(1, ("A", "B"), ("tie", "tie"))]
    )
    assert (each.comparisons, each.flips) == (3, 1)
    found = consistency([each], 2)
    assert found.position is not None
    assert found.position.rate is not None
    assert found.position.rate.value == pytest.approx(1 / 3)


def test_a_judge_that_compares_nothing_has_no_position() -> None:
    assert consistency([again(1, 1, 1)], 2).position is None


def test_times_without_a_verdict_are_counted_apart() -> None:
    each = repeated_judgement(ResultKey("s", "c", "t"), 5, [result(0, status="error"), result(1)])
    found = consistency([each], 2)
    assert (len(each.opinions), found.failed, found.same_verdict.rate) == (1, 1, None)


def test_longer_answers_with_higher_scores_correlate() -> None:
    answers = [again(case, case / 40, case / 40, length=100 + case * case) for case in range(40)]
    found = consistency(answers, 2).lengths
    assert found["all"].value == pytest.approx(1.0)
    assert found["passed"].answers + found["failed"].answers == 40


def test_nothing_judged_is_a_check_too() -> None:
    found = consistency([], 3)
    assert (found.answers, found.deviation, found.alpha, found.lengths["all"].value) == (0, None, None, None)
