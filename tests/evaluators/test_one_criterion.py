"""A judge of one criterion is asked on the criterion's scale and read on it; a score outside is never clamped."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.judging import Judge, make_context, numbered_nonces, signed

from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator
from agentv.scoring.results.completion import to_score
from agentv.scoring.results.criteria import UNBOUNDED_ADVICE
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.scales import EvaluationCriteria

SCALES = {
    "binary": EvaluationCriteria("tone"),
    "pass/fail": EvaluationCriteria("tone", scale="pass/fail"),
    "likert5": EvaluationCriteria("tone", scale="likert5"),
    "numeric": EvaluationCriteria("tone", scale="numeric"),
    "0 to 10": EvaluationCriteria("tone", scale="numeric", min=0, max=10),
    "percent": EvaluationCriteria("tone", scale="percent"),
    "labels": EvaluationCriteria("tone", labels=("poor", "fair", "good")),
    "custom": EvaluationCriteria("tone", scale="mood"),
}


def judged(scale: str, *said: object, **options: Any) -> tuple[EvaluationScore, Judge]:
    """Return the completed score of a judge that gives these scores in turn."""
    left = list(said)
    judge = Judge(lambda request: signed(request, f'"score": {json.dumps(left.pop(0) if len(left) > 1 else left[0])}'))
    criterion = SCALES[scale]
    evaluator = LlmJudgeEvaluator(nonce=numbered_nonces(), **options)
    config = EvaluatorConfig("j", "llm_judge", criterion="tone")
    context = make_context("Hello", judge=judge, criteria=(criterion,), evaluator=config)
    score = asyncio.run(evaluator.evaluate(context))
    return to_score(score, name="tone", kind="llm_judge", criteria=(criterion,)), judge


def result_of(scale: str, *said: object, **options: Any) -> EvaluationResult:
    (result,) = judged(scale, *said, **options)[0].results
    return result


@pytest.mark.parametrize(
    ("scale", "said", "value", "score"),
    [
        ("likert5", 1, 0.0, 1),
        ("likert5", 4, 0.75, 4),
        ("likert5", "4/5", 0.75, 4),
        ("binary", True, 1.0, True),
        ("binary", 0, 0.0, False),
        ("pass/fail", "pass", 1.0, "pass"),
        ("pass/fail", False, 0.0, "fail"),
        ("numeric", 0.25, 0.25, 0.25),
        ("0 to 10", 7, 0.7, 7),
        ("percent", 85, 0.85, 85),
        ("labels", "Fair", 0.5, "fair"),
        ("custom", 0.4, 0.4, 0.4),
    ],
)
def test_a_score_is_read_on_the_criterions_scale(scale: str, said: object, value: float, score: object) -> None:
    result = result_of(scale, said)
    assert result.value == pytest.approx(value)
    assert result.score == score


@pytest.mark.parametrize(
    ("scale", "said", "why"),
    [
        ("likert5", 0, "0 is outside 1 to 5 (likert5)"),
        ("likert5", 6, "6 is outside 1 to 5 (likert5)"),
        ("binary", 0.67, "0.67 is not 0 or 1, as the scale binary demands"),
        ("pass/fail", 0.67, "0.67 is not 0 or 1, as the scale pass/fail demands"),
        ("numeric", 1.5, f"1.5 is outside 0 to 1 (tone){UNBOUNDED_ADVICE}"),
        ("numeric", 85, f"85 is outside 0 to 1 (tone){UNBOUNDED_ADVICE}"),
        ("0 to 10", 11, "11 is outside 0 to 10 (tone)"),
        ("percent", 101, "101 is outside 0 to 100 (percent)"),
        ("labels", "great", "'great' is not one of the labels poor, fair, good"),
        ("labels", 0.5, "'0.5' is not one of the labels poor, fair, good"),
    ],
)
def test_a_score_outside_the_scale_is_an_error(scale: str, said: object, why: str) -> None:
    score, judge = judged(scale, said)
    assert score.error is not None
    assert score.error.kind == "judge_error"
    assert score.error.message.endswith(f"its reply gives a score that cannot be read: {why}")
    assert len(judge.requests) == 2


@pytest.mark.parametrize(
    ("scale", "asked", "type_"),
    [
        ("binary", "true (met) or false (not met)", {"type": "boolean"}),
        ("pass/fail", '"pass" or "fail"', {"type": "string"}),
        ("likert5", "a number from 1 (worst) to 5 (best)", {"type": "number"}),
        ("numeric", "a number from 0 (worst) to 1 (best)", {"type": "number"}),
        ("percent", "a number from 0 (worst) to 100 (best)", {"type": "number"}),
        ("labels", 'one of "poor", "fair", "good" (from worst to best)', {"type": "string"}),
    ],
)
@pytest.mark.parametrize("prompt", [None, "Judge {{ candidate_answer }}"])
def test_the_judge_is_asked_on_the_scale(scale: str, asked: str, type_: object, prompt: str | None) -> None:
    said = {"labels": "fair", "binary": True, "pass/fail": "pass"}.get(scale, 1)
    _, judge = judged(scale, said, prompt=prompt)
    (request,) = judge.requests
    assert f'- "score": {asked}\n' in (request.system_prompt or "")
    assert request.response_schema is not None
    assert request.response_schema["properties"]["score"] == type_  # type: ignore[index,call-overload]


@pytest.mark.parametrize("scale", ["binary", "pass/fail"])
@pytest.mark.parametrize(
    ("said", "vote", "value", "mean"),
    [
        ((1, 1, 0), "mean", 1.0, 2 / 3),
        ((1, 0, 0), "median", 0.0, 1 / 3),
        ((1, 0), "mean", 0.0, 1 / 2),
        ((1, 1, 0), "min", 0.0, 2 / 3),
    ],
)
def test_of_two_values_the_majority_decides(
    scale: str, said: tuple[int, ...], vote: str, value: float, mean: float
) -> None:
    score, _ = judged(scale, *said, samples=len(said), vote=vote)
    (result,) = score.results
    assert (score.score, result.value) == (value, value)
    assert result.score == {"binary": bool(value), "pass/fail": "pass" if value else "fail"}[scale]
    assert result.metadata is not None
    assert result.metadata["agreement"] == pytest.approx(mean)


def test_several_opinions_are_combined_on_the_scale() -> None:
    result = result_of("likert5", 2, 4, 5, samples=3, vote="median")
    assert (result.score, result.value) == (4, 0.75)
    assert result.metadata is not None
    assert result.metadata["spread"]["values"] == [0.25, 0.75, 1.0]  # type: ignore[index,call-overload]


def test_without_a_criterion_a_score_is_clamped_to_0_to_1() -> None:
    judge = Judge(lambda request: signed(request, '"score": 1.2'))
    score = asyncio.run(LlmJudgeEvaluator(nonce=numbered_nonces()).evaluate(make_context("Hello", judge=judge)))
    assert (score.score, score.clamped, score.error) == (1.0, True, None)
