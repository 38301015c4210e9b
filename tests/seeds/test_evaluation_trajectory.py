"""Seed evaluation.md: the tool trajectory evaluator."""

import asyncio
from typing import Any

from agentv import (
    EvalCase,
    EvaluatorConfig,
    EvaluatorResult,
    Message,
    ProviderResponse,
    ToolCall,
    TraceEvent,
    run_evaluators_for_case,
)
from agentv.types.json_value import JsonValue


def trajectory(calls: list[str] | None, *, as_trace: bool = False, **settings: JsonValue) -> EvaluatorResult:
    """Judge calls of tools, told by output messages unless `as_trace`; None: the provider told nothing."""
    case = EvalCase(
        "c", (Message("user", "Search"),), evaluators=(EvaluatorConfig("calls", "tool_trajectory", settings),)
    )
    answer = ProviderResponse("done")
    if calls is not None and as_trace:
        answer = ProviderResponse("done", trace=tuple(TraceEvent("tool_call", name=name) for name in calls))
    elif calls is not None:
        messages = (Message("assistant", tool_calls=tuple(ToolCall(name) for name in calls)),)
        answer = ProviderResponse("done", output_messages=messages)
    _, (result,) = asyncio.run(run_evaluators_for_case(case, answer))
    return result


SEARCH_THREE_TIMES: dict[str, Any] = {"mode": "any_order", "minimums": {"semanticSearch": 3}}
A_THEN_B: list[JsonValue] = [{"tool": "A"}, {"tool": "B"}]


def test_minimum_calls_met_pass_from_outputmessages() -> None:
    score = trajectory(["semanticSearch"] * 3, **SEARCH_THREE_TIMES)
    assert score.score == 1.0
    assert score.hits == ("semanticSearch called 3 times (minimum: 3)",)


def test_minimum_calls_met_pass_fallback_to_trace() -> None:
    assert trajectory(["semanticSearch"] * 3, as_trace=True, **SEARCH_THREE_TIMES).score == 1.0


def test_minimum_calls_not_met_fail() -> None:
    score = trajectory(["semanticSearch"], **SEARCH_THREE_TIMES)
    assert score.score == 0.0
    assert score.misses == ("semanticSearch called 1 time (minimum: 3)",)


def test_multiple_minimums_partial_pass() -> None:
    score = trajectory(["toolA", "toolB", "toolA"], mode="any_order", minimums={"toolA": 2, "toolB": 2})
    assert score.score == 0.5
    assert score.hits == ("toolA called 2 times (minimum: 2)",)
    assert score.misses == ("toolB called 1 time (minimum: 2)",)


def test_in_order_sequence_pass() -> None:
    expected: JsonValue = [*A_THEN_B, {"tool": "C"}]
    assert trajectory(["A", "X", "B", "Y", "C"], mode="in_order", expected=expected).score == 1.0


def test_in_order_sequence_fail_wrong_order() -> None:
    score = trajectory(["B", "A"], mode="in_order", expected=A_THEN_B)
    assert score.score == 0.0
    assert any("B" in miss for miss in score.misses)


def test_exact_sequence_pass() -> None:
    assert trajectory(["A", "B"], mode="exact", expected=A_THEN_B).score == 1.0


def test_exact_sequence_fail_extra_tools() -> None:
    score = trajectory(["A", "B", "C"], mode="exact", expected=A_THEN_B)
    assert score.score == 0.0
    assert any("C" in miss for miss in score.misses)


def test_no_trace_or_outputmessages_available() -> None:
    score = trajectory(None, **SEARCH_THREE_TIMES)
    assert score.score == 0.0
    assert score.misses == ("No trace available for evaluation",)
