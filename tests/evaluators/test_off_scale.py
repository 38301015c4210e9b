"""A number off its scale: the judge is called once more with the range, then the result is a `judge_error`."""

import asyncio
import json
from typing import Any

import pytest
from tests.support.judging import Judge, evaluator_of, make_context, numbered_nonces, signed

from agentv.evaluators.judges.composite import CompositeEvaluator, Maximum
from agentv.evaluators.judges.llm_judge import LlmJudgeEvaluator
from agentv.scoring.judge_replies.replies import ANOTHER_SCALE_ADVICE
from agentv.scoring.results.aggregation import to_result
from agentv.scoring.results.completion import to_score
from agentv.types.cases import EvaluatorConfig, RubricItem
from agentv.types.evaluation import EvaluationScore
from agentv.types.provider import ProviderRequest
from agentv.types.scales import EvaluationCriteria

TONE = RubricItem(id="tone", description="Is polite", scale="likert5")
GRADE = EvaluationCriteria("grade", scale="numeric", max=10)
PLAIN = EvaluationCriteria("plain", scale="numeric")


def replying(*bodies: str, kind: str = "scripted") -> Judge:
    """Return a judge that replies with these bodies in turn, and then with the last, with the nonce of each call."""
    left = list(bodies)

    def reply(request: ProviderRequest) -> str:
        return signed(request, left.pop(0) if len(left) > 1 else left[0])

    return Judge(reply, kind=kind)


def judged(judge: Judge, **options: Any) -> EvaluationScore:
    evaluator = LlmJudgeEvaluator(nonce=numbered_nonces(), **options)
    context = make_context("Hello", judge=judge, criteria=(GRADE, PLAIN))
    return to_score(asyncio.run(evaluator.evaluate(context)), name="j", kind="llm_judge")


def test_a_judge_is_called_once_more_with_the_range() -> None:
    judge = replying('"score": 10', '"score": 0.9')
    score = judged(judge)
    assert (score.score, score.clamped, score.error) == (0.9, False, None)
    assert [(call.role, call.score) for call in score.judge_calls] == [("sample", None), ("repair", 0.9)]
    _, repair = judge.requests
    assert "\nAllowed scores: a number from 0.0 (" in repair.question.partition("[[ ## reply_format ## ]]\n")[2]


@pytest.mark.parametrize(("said", "clamped"), [("10", 1.0), ("-3", 0.0), ('"10"', 1.0), ("1.51", 1.0)])
def test_a_judge_that_is_off_its_scale_again_is_an_error(said: str, clamped: float) -> None:
    judge = replying(f'"score": {said}, "hits": ["kind"], "reasoning": "so it is"')
    score = judged(judge)
    assert score.error is not None
    assert score.error.kind == "judge_error"
    number = said.strip('"')
    why = f"its reply gives a score that cannot be read: {number} is outside 0 to 1{ANOTHER_SCALE_ADVICE}"
    assert score.error.message.endswith(f"gave no usable verdict in two attempts: {why}")
    assert (score.score, score.verdict, score.status) == (clamped, None, "error")
    assert (score.hits, score.reasoning) == (("kind",), "so it is")
    assert len(judge.requests) == 2


@pytest.mark.parametrize(
    "replies", [('"score": 10', '"verdict": "good"'), ('"verdict": "good"', '"score": 10')], ids=["first", "second"]
)
def test_there_is_one_repair_request_whatever_is_wrong(replies: tuple[str, str]) -> None:
    judge = replying(*replies)
    score = judged(judge)
    assert score.error is not None
    assert score.error.kind == "judge_error"
    assert len(judge.requests) == 2


def test_a_function_is_not_called_again() -> None:
    judge = replying('"score": 10', '"score": 1', kind="python")
    score = judged(judge)
    assert score.error is not None
    assert "gave no usable verdict: its reply gives a score" in score.error.message
    assert (score.score, len(judge.requests)) == (1.0, 1)


@pytest.mark.parametrize(("said", "score"), [(1.5, 1.0), (-0.5, 0.0), ("1.2", 1.0)])
def test_a_little_outside_is_clamped_and_counted(said: object, score: float) -> None:
    judge = replying(f'"score": {json.dumps(said)}')
    found = judged(judge)
    assert (found.score, found.clamped, found.error, len(judge.requests)) == (score, True, None, 1)
    assert to_result(found, EvaluatorConfig("j", "llm_judge")).clamped


def test_one_opinion_off_its_scale_is_an_error_of_all() -> None:
    left = [1, 1, 10, 10]
    judge = Judge(lambda request: signed(request, f'"score": {left.pop(0)}'))
    score = judged(judge, samples=3)
    assert score.error is not None
    assert "10 is outside 0 to 1" in score.error.message


def test_a_graded_requirement_off_its_scale_is_called_once_more() -> None:
    off, on = ('"checks": ' + json.dumps([{"id": "tone", "score": mark}]) for mark in (10, 5))
    judge = replying(off, on)
    assert judged(judge, rubrics=[TONE]).score == 1.0
    assert "Allowed scores: tone: a number from 1 to 5." in judge.requests[1].question
    failed = judged(replying(off), rubrics=[TONE, RubricItem(id="b", description="Is short")])
    assert failed.error is not None
    assert failed.error.message.endswith("cannot be read: [tone] 10 is outside 1 to 5")
    assert [result.error for result in failed.results] == ["10 is outside 1 to 5", None]
    assert failed.score == 0.0


def test_a_criterion_off_its_scale_is_called_once_more() -> None:
    off, on = (
        '"criteria": ' + json.dumps([{"name": "grade", "score": grade}, {"name": "plain", "score": 0.5}])
        for grade in (11, 10)
    )
    judge = replying(off, on)
    score = judged(judge, criteria=("grade", "plain"))
    assert (score.score, score.error) == (0.75, None)
    allowed = '"grade": a number from 0 (worst) to 10 (best); "plain": a number from 0 (worst) to 1 (best).'
    assert f"Allowed scores: {allowed}" in judge.requests[1].question


def test_a_criterion_that_stays_off_its_scale_keeps_the_others() -> None:
    judge = replying('"criteria": [{"name": "grade", "score": 7}, {"name": "plain", "score": 70}]')
    score = judged(judge, criteria=("grade", "plain"))
    assert score.error is not None
    assert "plain: 70 is outside 0 to 1" in score.error.message
    assert "`max: 100` or `scale: percent`" in score.error.message
    grade, plain = score.results
    assert (grade.value, grade.error) == (0.7, None)
    assert (plain.score, plain.value) == (None, None)
    assert len(judge.requests) == 2


def test_a_member_off_its_scale_is_an_error_of_its_composite() -> None:
    judge = replying('"score": 10')
    composite = CompositeEvaluator([evaluator_of("llm_judge"), evaluator_of("contains", value="Hello")], Maximum())
    score = asyncio.run(composite.evaluate(make_context("Hello", judge=judge)))
    assert score.error is not None
    assert score.error.kind == "judge_error"
    assert (score.score, score.verdict) == (0.0, None)
    assert [member.score for member in score.members] == [1.0, 1.0]
