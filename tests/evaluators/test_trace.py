import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.judging import evaluator_of, make_context

from agentv import EvalCase, EvaluatorConfig, ProviderRequest, ProviderResponse, evaluate, run_evaluators_for_case
from agentv.evaluators.tools.trace import TraceEvaluator, TraceSettings
from agentv.messages.shapes.reading import read_messages
from agentv.scoring.tools.recorded_calls import count_model_steps, most_repeated_call
from agentv.scoring.tools.traces import summarize_trace
from agentv.types.errors import EvalFileError, EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationScore
from agentv.types.messages import Message, ToolCall, TraceEvent
from agentv.types.usage import Usage

NO_TRACE = "No trace available for evaluation"
CALLS = (
    ToolCall("lookup", {"id": 7}, "sent"),
    ToolCall("lookup", {"id": 7}, {"error": "timed out"}),
    ToolCall("lookup", {"id": 8}, "sent"),
)
MESSAGES = (
    Message("assistant", "one moment", tool_calls=CALLS[:2]),
    Message("assistant", "Done.", tool_calls=CALLS[2:]),
)
TRACE = (
    TraceEvent("model_step"),
    TraceEvent("tool_call", name="lookup", input={"id": 7}),
    TraceEvent("model_step"),
    TraceEvent("error", text="timed out"),
    TraceEvent("model_step"),
)


def judge(context: EvaluationContext, **bounds: Any) -> EvaluationScore:
    score = evaluator_of("trace", **bounds).evaluate(context)
    assert isinstance(score, EvaluationScore)
    return score


@pytest.mark.parametrize(
    ("tools", "said", "met"),
    [
        (("Read", "Grep", "edit"), "0.67 of the calls explore (expected: 0.6, tolerance: 0.2)", True),
        (("Read", "Grep", "list"), "1.00 of the calls explore (expected: 0.6, tolerance: 0.2)", False),
        ((), "no tool call made, so there is no share of calls that explore", False),
        (None, f"{NO_TRACE} (share of calls that explore)", False),
    ],
)
def test_the_share_of_exploring_calls_is_compared(tools: tuple[str, ...] | None, said: str, *, met: bool) -> None:
    messages = None if tools is None else (Message("assistant", "Done.", tool_calls=tuple(map(ToolCall, tools))),)
    score = judge(make_context(output_messages=messages), exploration_ratio=0.6)
    assert (score.hits, score.misses) == (((said,), ()) if met else ((), (said,)))


@pytest.mark.parametrize(
    ("bound", "said", "met"),
    [
        ({"max_tool_calls": 3}, "3 tool calls (maximum: 3)", True),
        ({"max_tool_calls": 2}, "3 tool calls (maximum: 2)", False),
        ({"max_errors": 1}, "1 error (maximum: 1)", True),
        ({"max_errors": 0}, "1 error (maximum: 0)", False),
        ({"max_model_steps": 2}, "2 model steps (maximum: 2)", True),
        ({"max_model_steps": 1}, "2 model steps (maximum: 1)", False),
        ({"no_repeated_calls": 2}, "no call made more than 2 times", True),
        ({"no_repeated_calls": 1}, 'lookup with {"id":7} called 2 times (maximum: 1)', False),
        ({"max_duration_ms": 1500}, "1500 ms (maximum: 1500 ms)", True),
        ({"max_duration_ms": 1499.5}, "1500 ms (maximum: 1499.5 ms)", False),
        ({"max_cost_usd": 0.02}, "$0.0125 (maximum: $0.02)", True),
        ({"max_cost_usd": 0.01}, "$0.0125 (maximum: $0.01)", False),
        ({"max_tokens": 120}, "120 tokens (maximum: 120 tokens)", True),
        ({"maxTokens": 119}, "120 tokens (maximum: 119 tokens)", False),
    ],
)
def test_each_bound_is_one_hit_or_one_miss(bound: dict[str, Any], said: str, met: bool) -> None:
    usage = Usage(input=100, output=20, total=120)
    context = make_context(output_messages=MESSAGES, duration_ms=1500.0, cost_usd=0.0125, usage=usage)
    score = judge(context, **bound)
    assert (score.hits, score.misses) == (((said,), ()) if met else ((), (said,)))
    assert (score.score, score.error) == (float(met), None)


def test_the_score_is_the_share_of_bounds_that_are_met() -> None:
    score = judge(make_context(output_messages=MESSAGES), max_tool_calls=9, max_errors=0, no_repeated_calls=2)
    assert score.score == pytest.approx(2 / 3)
    assert score.expected_aspect_count == 3


@pytest.mark.parametrize(
    ("bound", "message"),
    [
        ({"max_duration_ms": 1}, "the duration of the answer is not known"),
        ({"max_cost_usd": 1}, "the cost of the answer is not known"),
        ({"max_tokens": 1}, "the number of tokens of the answer is not known"),
    ],
)
def test_a_bound_on_what_is_not_known_is_an_error_and_never_met(bound: dict[str, Any], message: str) -> None:
    score = judge(make_context(output_messages=MESSAGES), max_tool_calls=9, **bound)
    assert (score.score, score.status) == (0.0, "error")
    assert score.error is not None
    assert score.error.message == message
    assert score.hits == ("3 tool calls (maximum: 9)",)


def test_tokens_without_a_total_are_those_in_and_out() -> None:
    score = judge(make_context(usage=Usage(input=100, output=20)), max_tokens=119)
    assert score.misses == ("120 tokens (maximum: 119 tokens)",)


def test_without_any_trace_bounds_on_it_are_missed() -> None:
    score = judge(make_context(), max_tool_calls=9, max_errors=9, max_model_steps=9, no_repeated_calls=9)
    assert (score.score, score.error) == (0.0, None)
    assert score.misses == tuple(
        f"{NO_TRACE} ({what})" for what in ("tool calls", "errors", "model steps", "repeated calls")
    )


def test_a_trace_gives_steps_calls_and_errors() -> None:
    score = judge(make_context(trace=TRACE), max_tool_calls=1, max_errors=0, max_model_steps=2, no_repeated_calls=1)
    assert score.hits == ("1 tool call (maximum: 1)", "no call made more than 1 time")
    assert score.misses == ("1 error (maximum: 0)", "3 model steps (maximum: 2)")


def test_a_trace_without_steps_leaves_their_number_unknown() -> None:
    trace = (TraceEvent("tool_call", name="lookup"),)
    assert count_model_steps(make_context(trace=trace)) is None
    assert judge(make_context(candidate_trace=trace), max_model_steps=9).misses == (f"{NO_TRACE} (model steps)",)


def test_a_summary_alone_gives_calls_and_errors() -> None:
    context = make_context(candidate_trace_summary=summarize_trace(TRACE))
    assert judge(context, max_tool_calls=1, max_errors=0).misses == ("1 error (maximum: 0)",)
    assert judge(context, no_repeated_calls=1).misses == (f"{NO_TRACE} (repeated calls)",)


def test_a_result_that_says_it_failed_is_an_error() -> None:
    messages = read_messages(
        [
            {"role": "assistant", "tool_calls": [{"tool": "lookup", "id": "1"}]},
            {
                "role": "tool",
                "content": [{"type": "tool_result", "tool_use_id": "1", "content": "x", "is_error": True}],
            },
        ],
        "messages",
    )
    assert judge(make_context(output_messages=messages), max_errors=0).misses == ("1 error (maximum: 0)",)


@pytest.mark.parametrize(
    ("calls", "count"),
    [
        ((), 0),
        ((ToolCall("a"), ToolCall("b")), 1),
        ((ToolCall("a", {"x": 1, "y": 2}), ToolCall("a", {"y": 2, "x": 1})), 2),
        ((ToolCall("a", {"x": 1}), ToolCall("b", {"x": 1})), 1),
        ((ToolCall("a", {"x": "1"}), ToolCall("a", {"x": 1})), 1),
        ((ToolCall("a"), ToolCall("a", {})), 2),
    ],
)
def test_a_repeated_call_has_the_same_tool_and_the_same_arguments(calls: tuple[ToolCall, ...], count: int) -> None:
    found = most_repeated_call(calls)
    assert found is not None
    assert found[1] == count


def test_arguments_nested_too_deep_are_an_error() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    calls = (ToolCall("a", deep),)
    with pytest.raises(EvaluatorError, match="the arguments of a are nested too deep to compare"):
        judge(make_context(output_messages=(Message("assistant", tool_calls=calls),)), no_repeated_calls=1)


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        ({}, "`trace` needs at least one of `max_tool_calls`, `max_errors`"),
        ({"max_tool_calls": -1}, "$.max_tool_calls  `max_tool_calls` must be a finite number of at least 0"),
        ({"no_repeated_calls": 0}, "$.no_repeated_calls  `no_repeated_calls` must be a finite number of at least 1"),
        ({"max_cost_usd": float("inf")}, "$.max_cost_usd  must be a finite number"),
        ({"max_tool_call": 1}, "did you mean 'max_tool_calls'?"),
    ],
)
def test_bounds_that_say_nothing_are_refused_before_the_run(bounds: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalFileError, match=re.escape(message)):
        evaluator_of("trace", **bounds)


def test_bounds_are_refused_in_python_too() -> None:
    with pytest.raises(ValueError, match="`max_duration_ms` must be a finite number"):
        TraceEvaluator(max_duration_ms=float("nan"))


def test_keywords_replace_fields_of_the_settings() -> None:
    evaluator = TraceEvaluator(TraceSettings(max_tool_calls=5), max_tool_calls=0)
    called = make_context(output_messages=(Message("assistant", "", tool_calls=(ToolCall("search"),)),))
    assert evaluator.evaluate(called).misses == ("1 tool call (maximum: 0)",)


def bounded(*, key: str, bound: float) -> EvalCase:
    return EvalCase("c", "hi", evaluators=(EvaluatorConfig("bounds", "trace", {key: bound}),))


@pytest.mark.parametrize("key", ["max_duration_ms", "max_cost_usd", "max_tokens"])
def test_a_run_records_the_resources_of_the_answer(key: str) -> None:
    def task(_request: ProviderRequest) -> ProviderResponse:
        return ProviderResponse("hi", usage=Usage(10, 5, total=15), cost_usd=0.5)

    (generous,) = evaluate([bounded(key=key, bound=1_000_000)], task=task).results
    (strict,) = evaluate([bounded(key=key, bound=0)], task=task).results
    assert (generous.status, generous.score) == ("pass", 1.0)
    assert (strict.status, strict.score) == ("fail", 0.0)


def test_the_duration_of_a_given_answer_is_unknown() -> None:
    answer = ProviderResponse("hi", usage=Usage(10, 5, total=15))
    score, _ = asyncio.run(run_evaluators_for_case(bounded(key="max_tokens", bound=15), answer))
    assert score.score == 1.0
    score, _ = asyncio.run(run_evaluators_for_case(bounded(key="max_duration_ms", bound=15), answer))
    assert score.error is not None
    assert "the duration of the answer is not known" in score.error.message


@given(st.integers(0, 5), st.integers(0, 5))
def test_a_looser_bound_is_never_harder_to_meet(calls: int, bound: int) -> None:
    context = make_context(output_messages=(Message("assistant", tool_calls=(ToolCall("a"),) * calls),))
    strict, loose = (judge(context, max_tool_calls=most).score for most in (bound, bound + 1))
    assert strict <= loose
