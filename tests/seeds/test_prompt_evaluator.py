"""Seed prompt-evaluator.md: one class for both modes."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agentv import EvaluationScore, LlmJudgeEvaluator, PromptEvaluator
from agentv.types.cases import RubricItem

ITEMS = (
    RubricItem("rule", "Mentions the 30-day rule", required=True),
    RubricItem("amount", "States the amount", weight=9),
)


def checks(**satisfied: bool) -> str:
    rows = [{"id": name, "satisfied": value, "reasoning": f"{name} looked at"} for name, value in satisfied.items()]
    return json.dumps({"checks": rows, "overall_reasoning": "all looked at"})


def judged(model: Any, context: Any, rubrics: Sequence[RubricItem] = ()) -> EvaluationScore:
    evaluator = PromptEvaluator(resolve_judge_provider=lambda _: model, rubrics=tuple(rubrics))
    return asyncio.run(evaluator.evaluate(context))


def test_it_is_the_llm_judge_by_its_other_name() -> None:
    assert PromptEvaluator is LlmJudgeEvaluator


def test_rubric_mode_trigger(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge(checks(rule=True, amount=False))
    score = judged(model, context("Within 30 days."), ITEMS)
    assert score.score == pytest.approx(0.1)
    assert "Mentions the 30-day rule" in model.requests[0].question
    assert "checks" in model.requests[0].system_prompt


def test_freeform_mode_trigger(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge('{"score": 0.7, "hits": ["a"], "misses": ["b"], "reasoning": "c"}')
    score = judged(model, context("4"))
    assert (score.score, score.hits, score.misses, score.reasoning) == (0.7, ("a",), ("b",), "c")
    assert "checks" not in model.requests[0].system_prompt


FREEFORM = """
evalcases:
  - id: c
    expected_outcome: Anything
    input_messages: [{role: user, content: hi}]
    evaluators: [{name: judge, type: llm_judge}]
"""
RUBRIC = """
evalcases:
  - id: c
    expected_outcome: Anything
    input_messages: [{role: user, content: hi}]
    rubrics:
      - {id: rule, description: Mentions the rule, required: true}
      - {id: amount, description: States the amount, weight: 9}
"""


def verdict_of(run: Callable[..., Any], suite: str, reply: str) -> str:
    """Run a suite whose judge gives this reply; return the evaluator's verdict."""
    targets = json.dumps(
        {
            "targets": [
                {"name": "default", "provider": "mock", "response": "hello", "judge_target": "judge"},
                {"name": "judge", "provider": "mock", "response": reply},
            ]
        }
    )
    (row,) = run(suite, targets=targets).rows
    (result,) = row["evaluator_results"]
    return str(result["verdict"])


def test_verdict_calculation_freeform(run: Callable[..., Any]) -> None:
    scores = {1.0: "pass", 0.8: "pass", 0.79: "borderline", 0.6: "borderline", 0.59: "fail", 0.0: "fail"}
    assert {score: verdict_of(run, FREEFORM, json.dumps({"score": score})) for score in scores} == scores


def test_verdict_calculation_rubric(run: Callable[..., Any]) -> None:
    assert verdict_of(run, RUBRIC, checks(rule=True, amount=True)) == "pass"
    assert verdict_of(run, RUBRIC, checks(rule=False, amount=True)) == "fail"
    assert verdict_of(run, RUBRIC, checks(amount=True)) == "fail"
    assert verdict_of(run, RUBRIC, checks(rule=True, amount=False)) == "fail"
    graded = RUBRIC.replace("weight: 9", "weight: 0.4")
    assert verdict_of(run, graded, checks(rule=True, amount=False)) == "borderline"


def test_hits_and_misses_rubric(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    score = judged(judge(checks(rule=True, amount=False)), context("Within 30 days."), ITEMS)
    assert score.hits == ("[rule] Mentions the 30-day rule: rule looked at",)
    assert score.misses == ("[amount] States the amount: amount looked at",)
