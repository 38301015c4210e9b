"""Changes to its arguments by one evaluator or caller affect neither others nor the saved judgement."""

from typing import Any

import pytest

from agentv import (
    ConfigError,
    EvalCase,
    EvaluationContext,
    EvaluationCriteria,
    EvaluationInput,
    EvaluationRunConfig,
    Message,
    ProviderResponse,
    ToolCall,
    evaluate,
    run_evaluation_sync,
)
from agentv.types.messages import DataPart, TextPart
from agentv.types.structs import deep_copy

CALL = Message("assistant", "Found.", tool_calls=(ToolCall("lookup", {"id": 7}, "found", id="c1"),))


def changes(context: EvaluationContext) -> bool:
    context.metadata["seen"] = True  # type: ignore[index]  # what an evaluator should not do
    context.context["seen"] = True  # type: ignore[index]
    context.eval_case.metadata["seen"] = True  # type: ignore[index]
    for message in context.output_messages or ():
        message.tool_calls[0].input["id"] = 8  # type: ignore[index]
    return True


def sees_nothing_of_it(context: EvaluationContext) -> bool:
    seen = {**context.metadata, **context.context, **context.eval_case.metadata}
    calls = [call.input for message in context.output_messages or () for call in message.tool_calls]
    return "seen" not in seen and calls == [{"id": 7}]


def test_no_evaluator_changes_what_the_next_one_sees_in_run_evaluation() -> None:
    given = EvaluationInput(CALL, context={"a": 1}, metadata={"m": [1]})
    config = EvaluationRunConfig(evaluators=[changes, sees_nothing_of_it], evaluator_concurrency=1)
    result = run_evaluation_sync(given, config)
    assert result.overall_score == 1.0, result.run_errors
    assert (given.context, given.metadata) == ({"a": 1}, {"m": [1]})


def test_no_evaluator_changes_what_the_next_one_sees_in_the_case_door() -> None:
    case = EvalCase("one", (Message("user", "Where is it?"),), metadata={"m": 1})
    report = evaluate(
        [case],
        task=lambda _request: ProviderResponse("Found.", output_messages=(CALL,)),
        evaluators=[changes, sees_nothing_of_it],
    )
    (row,) = report.results
    assert row.score == 1.0
    assert case.metadata == {"m": 1}


def test_judgements_by_one_configuration_share_nothing_that_can_change() -> None:
    metadata: dict[str, Any] = {"tags": ["a"]}
    config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}], metadata=metadata)
    one, other = (run_evaluation_sync(EvaluationInput("x"), config) for _ in range(2))
    one.metadata["tags"].append("b")  # type: ignore[union-attr]
    one.evaluation_config_snapshot["config"]["evaluators"].clear()  # type: ignore[union-attr, call-overload, index]
    assert other.metadata == metadata == {"tags": ["a"]}
    assert other.evaluation_config_snapshot["config"]["evaluators"]  # type: ignore[index, call-overload]
    assert run_evaluation_sync(EvaluationInput("x"), config).metadata == {"tags": ["a"]}


def test_an_input_that_holds_itself_or_is_too_deep_is_refused() -> None:
    within: dict[str, Any] = {}
    within["self"] = within
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    config = EvaluationRunConfig(evaluators=[{"type": "contains", "value": "x"}])
    for context in (within, {"deep": deep}):
        with pytest.raises(ConfigError, match="nested too deeply"):
            run_evaluation_sync(EvaluationInput("x", (EvaluationCriteria("contains"),), context=context), config)


def test_a_copy_is_equal_and_shares_only_what_cannot_change() -> None:
    plain = Message("user", "Hello")
    parts = Message("user", (TextPart("a"), DataPart("image", {"url": ["u"]})))
    value = {"a": [1, (2.0, None, "x", {"b": True})], "plain": plain, "parts": parts, "call": CALL}
    copied = deep_copy(value)
    assert copied == value
    assert copied["plain"] is plain
    assert copied["call"] is not CALL
    copied["parts"].content[1].value["url"].append("v")  # type: ignore[attr-defined]
    assert parts.content[1].value == {"url": ["u"]}  # type: ignore[index, union-attr]
