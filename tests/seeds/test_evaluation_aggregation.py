"""Seed evaluation.md: per-evaluator weights, their record, and the aggregate."""

from collections.abc import Callable
from typing import Any

import pytest

TARGETS = "targets: [{name: t, provider: mock, response: hello}]"
SUITE = """
evalcases:
  - id: c
    expected_outcome: Says hello
    input_messages: [{role: user, content: hi}]
    evaluators:
"""
SCORES = "def first(case): return {'score': 0.8}\ndef second(case): return {'score': 0.4}\n"


def judged(run: Callable[..., Any], first: str = "", second: str = "") -> dict[str, Any]:
    """Run one case with an evaluator that says 0.8 and one that says 0.4; return its row."""
    evaluators = (
        f"      - {{name: first, type: code_judge, python: 'scores.py:first'{first}}}\n"
        f"      - {{name: second, type: code_judge, python: 'scores.py:second'{second}}}\n"
    )
    done = run(SUITE + evaluators, targets=TARGETS, files={"evals/scores.py": SCORES})
    (row,) = done.rows
    assert [result["score"] for result in row["evaluator_results"]] == [0.8, 0.4]
    return dict(row)


def test_default_aggregation_no_weights(run: Callable[..., Any]) -> None:
    assert judged(run)["score"] == pytest.approx(0.6)


def test_weighted_aggregation_mixed_weights(run: Callable[..., Any]) -> None:
    assert judged(run, ", weight: 3", ", weight: 1")["score"] == pytest.approx(0.7)


def test_weight_of_zero_excludes_evaluator_from_aggregation(run: Callable[..., Any]) -> None:
    assert judged(run, "", ", weight: 0")["score"] == pytest.approx(0.8)


def test_all_weights_are_zero(run: Callable[..., Any]) -> None:
    assert judged(run, ", weight: 0", ", weight: 0")["score"] == 0.0


def test_weight_included_in_evaluator_results(run: Callable[..., Any]) -> None:
    row = judged(run, ", weight: 2")
    assert [result["weight"] for result in row["evaluator_results"]] == [2, 1]


def test_multiple_evaluators_aggregation(run: Callable[..., Any]) -> None:
    evaluators = "      - {name: a, type: contains, value: hello}\n      - {name: b, type: contains, value: bye}\n"
    (row,) = run(SUITE + evaluators, targets=TARGETS).rows
    assert row["score"] == 0.5
    assert row["status"] == "fail"
