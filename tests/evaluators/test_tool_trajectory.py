from typing import Any

import pytest
from tests.support.judging import make_context

from agentv.evaluators.tools.tool_trajectory import ToolTrajectoryEvaluator, ToolTrajectorySettings
from agentv.scoring.tools.traces import summarize_trace
from agentv.types.errors import EvaluatorError
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, ToolCall, TraceEvent

SEARCHES = tuple(TraceEvent(type="tool_call", name="semanticSearch") for _ in range(3))
MESSAGES = (Message(role="assistant", tool_calls=tuple(ToolCall("semanticSearch") for _ in range(3))),)


def test_output_messages_are_read_first() -> None:
    evaluator = ToolTrajectoryEvaluator(minimums={"semanticSearch": 3})
    score = evaluator.evaluate(make_context(output_messages=MESSAGES, trace=()))
    assert score.score == 1.0
    assert score.hits == ("semanticSearch called 3 times (minimum: 3)",)
    assert score.expected_aspect_count == 1


def test_the_trace_is_read_when_there_are_no_messages() -> None:
    evaluator = ToolTrajectoryEvaluator(minimums={"semanticSearch": 3})
    assert evaluator.evaluate(make_context(trace=SEARCHES)).score == 1.0
    assert evaluator.evaluate(make_context(candidate_trace=SEARCHES)).score == 1.0


def test_a_summary_alone_is_enough_for_counts_but_not_for_order() -> None:
    context = make_context(candidate_trace_summary=summarize_trace(SEARCHES))
    assert ToolTrajectoryEvaluator(minimums={"semanticSearch": 3}).evaluate(context).score == 1.0
    in_order = ToolTrajectoryEvaluator(ToolTrajectorySettings(mode="in_order"), expected=())
    assert in_order.evaluate(context).misses == ("No trace available for evaluation",)


def test_without_any_trace_it_says_so() -> None:
    score = ToolTrajectoryEvaluator(minimums={"a": 1}).evaluate(make_context())
    assert (score.score, score.misses) == (0.0, ("No trace available for evaluation",))
    assert score.error is None


def test_an_agent_that_called_nothing_is_judged_as_such() -> None:
    evaluator = ToolTrajectoryEvaluator(forbidden=("delete",))
    score = evaluator.evaluate(make_context(output_messages=(Message(role="assistant", content="hi"),)))
    assert (score.score, score.hits) == (1.0, ("delete called 0 times (forbidden)",))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "mode any_order needs `minimums`, `maximums` or `forbidden`"),
        ({"minimums": {"a": -1}}, "whole numbers of at least 0"),
        ({"mode": "any_order", "expected": ({"tool": "a"},)}, "`expected` needs a mode that compares"),
        ({"minimums": {"a": 1}, "score": "partial"}, "`score: partial` needs a mode that compares"),
    ],
)
def test_settings_that_demand_nothing_are_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ToolTrajectoryEvaluator(**settings)


def test_expected_calls_may_be_given_as_dicts() -> None:
    evaluator = ToolTrajectoryEvaluator(mode="exact", expected=({"tool": "A", "args": {"x": 1}},))
    context = make_context("x", output_messages=(Message("assistant", tool_calls=(ToolCall("A", {"x": 1}),)),))
    assert evaluator.evaluate(context).score == 1.0


def tool_calls(*calls: tuple[str, JsonObject]) -> tuple[Message, ...]:
    return (Message("assistant", tool_calls=tuple(ToolCall(tool, given) for tool, given in calls)),)


def test_expected_calls_are_compared_in_order_and_may_have_more_arguments() -> None:
    evaluator = ToolTrajectoryEvaluator(expected=({"tool": "find", "args": {"order": "1001"}}, {"tool": "pay"}))
    found: tuple[str, JsonObject] = ("find", {"order": "1001", "verbose": True})
    assert evaluator.evaluate(make_context(output_messages=tool_calls(found, ("pay", {})))).score == 1.0
    assert evaluator.evaluate(make_context(output_messages=tool_calls(("pay", {}), found))).score == 0.0
    other = evaluator.evaluate(make_context(output_messages=tool_calls(("find", {"order": 1001}), ("pay", {}))))
    assert other.misses == ('Expected find with {"order":"1001"} at position 1, found find with {"order":1001}',)


@pytest.mark.parametrize("word", ["exact", "ignore"])
def test_a_word_under_args_without_an_input_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match=f"`args: {word}` says how `input` is compared, and there is no `input`"):
        ToolTrajectoryEvaluator(expected=({"tool": "find", "args": word},))


def test_without_order_a_miss_shows_expected_and_actual_arguments() -> None:
    evaluator = ToolTrajectoryEvaluator(mode="superset", expected=({"tool": "find", "args": {"id": 1}},))
    score = evaluator.evaluate(make_context(output_messages=tool_calls(("find", {"id": 2}))))
    assert score.misses == ('Expected find with {"id":1}, found find with {"id":2}',)


def test_an_unknown_duration_under_a_limit_is_an_error_unless_it_is_skipped() -> None:
    context = make_context(output_messages=(Message("assistant", tool_calls=(ToolCall("a"),)),))
    expected = [{"tool": "a", "max_duration_ms": 5}]
    with pytest.raises(EvaluatorError, match="the duration of a is not recorded"):
        ToolTrajectoryEvaluator(expected=expected).evaluate(context)
    score = ToolTrajectoryEvaluator(expected=expected, unknown_duration="skip").evaluate(context)
    assert (score.score, score.reasoning) == (
        1.0,
        "the duration of a is not recorded, so `max_duration_ms` was not checked",
    )
