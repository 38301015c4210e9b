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
    # A score of the judge's own and aspects beside the checks count for nothing: each item is checked.
    verdict = {"score": 0.7, "hits": ["own hit"], "misses": [], **json.loads(checks(rule=True, amount=False))}
    model = judge(json.dumps(verdict))
    score = judged(model, context("Within 30 days."), ITEMS)
    assert score.score == pytest.approx(0.1)
    assert (len(score.hits), len(score.misses), score.expected_aspect_count) == (1, 1, 2)
    (asked,) = model.requests
    for item in ITEMS:
        assert item.id in asked.question
        assert item.description in asked.question
    assert "Within 30 days." in asked.question
    assert "checks" in asked.system_prompt


def test_rubric_mode_trigger_needs_an_item(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge('{"score": 0.7, "hits": ["a"], "misses": []}')
    score = judged(model, context("Within 30 days."), [])
    assert (score.score, score.hits) == (0.7, ("a",))


def test_rubric_mode_trigger_is_not_satisfied_by_a_freeform_reply(
    judge: Callable[..., Any], context: Callable[..., Any]
) -> None:
    score = judged(judge('{"score": 1, "hits": ["all of it"], "misses": []}'), context("Within 30 days."), ITEMS)
    assert (score.score, score.status) == (0.0, "error")
    assert "all of it" not in score.hits


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
      - {id: rule, description: Mentions the rule, required: true, weight: 3}
      - {id: amount, description: States the amount, weight: 5}
      - {id: tone, description: Is polite, weight: 2}
"""


def mock_targets(reply: str) -> str:
    return json.dumps(
        {
            "targets": [
                {"name": "default", "provider": "mock", "response": "hello", "judge_target": "judge"},
                {"name": "judge", "provider": "mock", "response": reply},
            ]
        }
    )


def verdict_of(run: Callable[..., Any], suite: str, reply: str) -> str:
    """Run a suite whose judge gives this reply; return the evaluator's verdict, which is the case's too."""
    (row,) = run(suite, targets=mock_targets(reply)).rows
    (result,) = row["evaluator_results"]
    assert row["verdict"] == result["verdict"]
    return str(result["verdict"])


def test_verdict_calculation_freeform(run: Callable[..., Any]) -> None:
    # Nothing is rounded: 0.7999 is shown as 0.80, and is borderline.
    scores = {
        1.0: "pass",
        0.9: "pass",
        0.8: "pass",
        0.7999: "borderline",
        0.7: "borderline",
        0.6: "borderline",
        0.5999: "fail",
        0.3: "fail",
        0.0: "fail",
    }
    assert {score: verdict_of(run, FREEFORM, json.dumps({"score": score})) for score in scores} == scores


@pytest.mark.parametrize(
    ("rule", "amount", "tone", "verdict"),
    [
        (True, True, True, "pass"),  # 10 of 10
        (True, True, False, "pass"),  # 8 of 10
        (True, False, True, "fail"),  # 5 of 10
        (True, False, False, "fail"),  # 3 of 10
        (False, True, True, "fail"),  # 7 of 10, but the required item is unmet
    ],
)
def test_verdict_calculation_rubric(
    rule: bool, amount: bool, tone: bool, verdict: str, run: Callable[..., Any]
) -> None:
    assert verdict_of(run, RUBRIC, checks(rule=rule, amount=amount, tone=tone)) == verdict


@pytest.mark.parametrize(
    ("weight", "verdict"), [(4, "pass"), (3.99, "borderline"), (1.5, "borderline"), (1.49, "fail")]
)
def test_verdict_calculation_rubric_at_its_thresholds(weight: float, verdict: str, run: Callable[..., Any]) -> None:
    """The optional item of weight 1 is unmet: with 4 to 1 the score is 0.8, with 1.5 to 1 it is 0.6."""
    suite = f"""
evalcases:
  - id: c
    expected_outcome: Anything
    input_messages: [{{role: user, content: hi}}]
    rubrics:
      - {{id: met, description: Mentions the rule, weight: {weight}}}
      - {{id: unmet, description: States the amount, required: false}}
"""
    assert verdict_of(run, suite, checks(met=True, unmet=False)) == verdict


def test_verdict_calculation_rubric_of_a_required_item(run: Callable[..., Any]) -> None:
    heavy = RUBRIC.replace("weight: 5", "weight: 96")
    # 0.97 and more: only the required item decides, whether it is unmet or not answered
    assert verdict_of(run, heavy, checks(rule=True, amount=True, tone=False)) == "pass"
    assert verdict_of(run, heavy, checks(rule=False, amount=True, tone=True)) == "fail"
    assert verdict_of(run, heavy, checks(amount=True, tone=True)) == "fail"


def test_hits_and_misses_rubric(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    items = [RubricItem(name, f"Item {name}", weight=number) for number, name in enumerate("abcde", start=1)]
    # in another order than asked, one item unanswered, one that nobody asked for
    reply = checks(e=True, nobody=True, c=False, a=True, b=False)
    score = judged(judge(reply), context("Within 30 days."), items)
    assert score.hits == ("[a] Item a: a looked at", "[e] Item e: e looked at")
    assert [miss.partition(":")[0] for miss in score.misses] == ["[b] Item b", "[c] Item c", "[d] Item d"]
    assert score.misses[:2] == ("[b] Item b: b looked at", "[c] Item c: c looked at")
    assert score.score == pytest.approx((1 + 5) / 15)
    assert score.expected_aspect_count == 5


def test_hits_and_misses_rubric_in_a_row(run: Callable[..., Any]) -> None:
    targets = mock_targets(checks(rule=True, amount=False, tone=True))
    (row,) = run(RUBRIC, targets=targets).rows
    assert row["hits"] == row["evaluator_results"][0]["hits"]
    assert [hit.partition("]")[0] for hit in row["hits"]] == ["[rule", "[tone"]
    assert [miss.partition("]")[0] for miss in row["misses"]] == ["[amount"]
