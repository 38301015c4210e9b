"""Scores of evaluators as values."""

from typing import Any

import pytest

from agentv.types.evaluation import EvaluationScore
from agentv.types.failures import Failure


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"score": 0.8}, "pass"),
        ({"score": 0.7}, "borderline"),
        ({"score": 0.5}, "fail"),
        ({"score": 1.0, "must_fail": True}, "fail"),
        ({"score": 0.0, "status": "skipped"}, None),
        ({"score": 0.0, "status": "error", "error": Failure("judge_error", "no reply")}, None),
    ],
)
def test_a_score_has_its_verdict(fields: dict[str, Any], verdict: str | None) -> None:
    assert EvaluationScore(**fields).verdict == verdict


def test_a_verdict_that_does_not_follow_from_the_score_is_kept_as_a_demand() -> None:
    assert EvaluationScore(0.9, verdict="fail").must_fail
    assert not EvaluationScore(0.1, verdict="fail").must_fail
