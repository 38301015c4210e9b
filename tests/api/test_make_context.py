"""make_context: a context for tests of one's own evaluators."""

import asyncio
from typing import Any

import pytest

from agentv import (
    AgentvError,
    EvaluationContext,
    EvaluationCriteria,
    EvaluatorResult,
    LlmJudgeEvaluator,
    Message,
    ToolTrajectoryEvaluator,
    make_context,
)


def my_evaluator(context: EvaluationContext) -> float:
    return 1.0 if "Paris" in context.candidate and "Capital" in context.prompt_inputs.question else 0.0


def test_a_function_is_tested_with_an_answer_and_a_question() -> None:
    assert my_evaluator(make_context(answer="Paris", question="Capital?")) == 1.0
    assert my_evaluator(make_context("Rome", question="Capital?")) == 0.0


def test_everything_that_an_evaluator_may_read_can_be_given() -> None:
    call = {"role": "assistant", "tool_calls": [{"tool": "lookup", "input": {"id": 7}}]}
    context = make_context(
        "Paris",
        expected_outcome="Names it",
        reference="Paris",
        messages=[call, {"role": "assistant", "content": "Paris"}],
        history=[{"role": "user", "content": "Capital?"}],
        criteria=[{"name": "polite"}],
        settings={"strict": True},
        metadata={"n": 1},
    )
    assert context.eval_case.expected_outcome == "Names it"
    assert context.reference_answer == context.ground_truth == "Paris"
    assert context.prompt_inputs.question == "Capital?"
    assert context.criteria == (EvaluationCriteria("polite"),)
    assert context.message_history == (Message("user", "Capital?"),)
    assert context.evaluator is not None
    assert context.evaluator.settings == {"strict": True}
    assert context.candidate_trace_summary is not None
    assert context.candidate_trace_summary.tool_names == ("lookup",)
    assert ToolTrajectoryEvaluator({"minimums": {"lookup": 1}}).evaluate(context).score == 1.0
    assert make_context("x", trace=[{"type": "tool_call", "name": "y"}]).candidate_trace_summary is not None


def test_a_model_judge_is_tested_with_a_function() -> None:
    verdict = {"score": 0.7, "hits": [], "misses": [], "reasoning": "ok"}
    context = make_context("Paris", question="Capital?", judge=lambda _request: verdict)
    assert asyncio.run(LlmJudgeEvaluator().evaluate(context)).score == 0.7


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"judge": "openai:gpt-4o-mini"}, "judge= takes a Provider or a function; got str"),
        ({"messages": [{"rol": "user"}]}, r"messages\[0\] has no role"),
        ({"trace": [{"type": "call"}]}, r"trace\[0\] is not a trace event"),
    ],
)
def test_what_is_not_understood_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(AgentvError, match=message):
        make_context("x", **given)


def test_the_request_to_a_judge_has_the_same_name_on_scores_and_results() -> None:
    result = EvaluatorResult(name="a", type="llm_judge", score=1.0, evaluator_provider_request={"userPrompt": "q"})
    assert result.evaluator_raw_request == {"userPrompt": "q"}
