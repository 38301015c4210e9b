"""Seed evaluation.md: the tool trajectory evaluator."""

from collections.abc import Callable
from typing import Any

import pytest

from agentv import EvaluationScore, Message, ToolCall, ToolTrajectoryEvaluator, TraceEvent, summarize_trace


@pytest.fixture
def trajectory(context: Callable[..., Any]) -> Callable[..., EvaluationScore]:
    """Return a function that judges calls of tools, told by output messages unless `as_trace`."""

    def judge(calls: list[str] | None, *, as_trace: bool = False, **settings: Any) -> EvaluationScore:
        told: dict[str, Any] = {}
        if calls is not None and as_trace:
            trace = tuple(TraceEvent("tool_call", name=name) for name in calls)
            told = {"trace": trace, "candidate_trace": trace, "candidate_trace_summary": summarize_trace(trace)}
        elif calls is not None:
            messages = (Message("assistant", tool_calls=tuple(ToolCall(name) for name in calls)),)
            told = {"output_messages": messages, "candidate_trace_summary": summarize_trace(messages)}
        score = ToolTrajectoryEvaluator(**settings).evaluate(context("done", **told))
        assert isinstance(score, EvaluationScore)
        return score

    return judge


SEARCH_THREE_TIMES = {"mode": "any_order", "minimums": {"semanticSearch": 3}}
A_THEN_B = ({"tool": "A"}, {"tool": "B"})


def test_minimum_calls_met_pass_from_outputmessages(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(["semanticSearch"] * 3, **SEARCH_THREE_TIMES)
    assert score.score == 1.0
    assert score.hits == ("semanticSearch called 3 times (minimum: 3)",)


def test_minimum_calls_met_pass_fallback_to_trace(trajectory: Callable[..., EvaluationScore]) -> None:
    assert trajectory(["semanticSearch"] * 3, as_trace=True, **SEARCH_THREE_TIMES).score == 1.0


def test_minimum_calls_not_met_fail(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(["semanticSearch"], **SEARCH_THREE_TIMES)
    assert score.score == 0.0
    assert score.misses == ("semanticSearch called 1 time (minimum: 3)",)


def test_multiple_minimums_partial_pass(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(["toolA", "toolB", "toolA"], mode="any_order", minimums={"toolA": 2, "toolB": 2})
    assert score.score == 0.5
    assert score.hits == ("toolA called 2 times (minimum: 2)",)
    assert score.misses == ("toolB called 1 time (minimum: 2)",)


def test_in_order_sequence_pass(trajectory: Callable[..., EvaluationScore]) -> None:
    expected = (*A_THEN_B, {"tool": "C"})
    assert trajectory(["A", "X", "B", "Y", "C"], mode="in_order", expected=expected).score == 1.0


def test_in_order_sequence_fail_wrong_order(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(["B", "A"], mode="in_order", expected=A_THEN_B)
    assert score.score == 0.0
    assert any("B" in miss for miss in score.misses)


def test_exact_sequence_pass(trajectory: Callable[..., EvaluationScore]) -> None:
    assert trajectory(["A", "B"], mode="exact", expected=A_THEN_B).score == 1.0


def test_exact_sequence_fail_extra_tools(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(["A", "B", "C"], mode="exact", expected=A_THEN_B)
    assert score.score == 0.0
    assert any("C" in miss for miss in score.misses)


def test_no_trace_or_outputmessages_available(trajectory: Callable[..., EvaluationScore]) -> None:
    score = trajectory(None, **SEARCH_THREE_TIMES)
    assert score.score == 0.0
    assert score.misses == ("No trace available for evaluation",)
