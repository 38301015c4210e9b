"""Seed evaluation.md and prompt-evaluator.md: what a judge is asked, and how its reply is read."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from agentv import EvaluationScore, LlmJudgeEvaluator


def judged(model: Any, context: Any) -> EvaluationScore:
    evaluator = LlmJudgeEvaluator(resolve_judge_provider=lambda _: model)
    return asyncio.run(evaluator.evaluate(context))


def test_enforce_json_prompt_contract(judge: Callable[..., Any], context: Callable[..., Any]) -> None:
    model = judge('{"score": 1}')
    judged(model, context("It is 4, said the candidate"))
    (request,) = model.requests
    for title, text in [
        ("expected_outcome", "It is four"),
        ("question", "What is 2 + 2?"),
        ("reference_answer", "4"),
        ("candidate_answer", "It is 4, said the candidate"),
    ]:
        section = request.question.partition(f"[[ ## {title} ## ]]")[2].partition("[[ ##")[0]
        assert text in section, title
    for word in ("score", "hits", "misses", "reasoning", "JSON"):
        assert word in request.system_prompt
    assert "four" in request.system_prompt or "4" in request.system_prompt


@pytest.mark.parametrize("reply", ["{}", "before {} after", "```json\n{}\n```"])
def test_parse_json_evaluator_response(
    reply: str, judge: Callable[..., Any], context: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    signature = {} if reply == "{}" else {"nonce": "NONCE"}  # only a bare object needs none
    verdict = {
        **signature,
        "score": 1.7,
        "hits": [" one ", "", "two", "three", "four", "five"],
        "misses": ["   ", "miss"],
        "reasoning": "because",
    }
    score = judged(judge(reply.replace("{}", json.dumps(verdict))), context("4"))
    assert score.score == 1.0
    assert score.hits == ("one", "two", "three", "four")
    assert score.misses == ("miss",)
    assert score.reasoning == "because"

    nothing = judged(judge("I would say it is good."), context("4"))
    assert (nothing.score, nothing.hits, nothing.misses) == (0.0, (), ())
    assert nothing.reasoning == "I would say it is good."
    assert caplog.records == []


def test_record_evaluator_request_metadata(
    judge: Callable[..., Any], context: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    for reply in ('{"score": 1}', "no JSON at all"):
        model = judge(reply)
        kept = judged(model, context("4")).evaluator_raw_request
        assert kept is not None
        assert kept["userPrompt"] == model.requests[0].question
        assert kept["systemPrompt"] == model.requests[0].system_prompt
    assert caplog.records == []
