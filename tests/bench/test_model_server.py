"""The server of the benchmarks answers like a model, and judges' requests in the form that each judge expects."""

import json

from bench.harnesses.job import RUBRIC
from bench.model_server import ANSWER, reply_to


def message_of(body: object) -> dict:
    reply = json.loads(reply_to(json.dumps(body).encode()))
    message: dict = reply["choices"][0]["message"]
    return message


def test_every_request_gets_the_answer() -> None:
    assert message_of({"messages": [{"role": "user", "content": "Say 1"}]})["content"] == ANSWER


def test_a_judge_of_agentv_gets_its_nonce_back() -> None:
    prompt = 'Reply with one JSON object with the keys "nonce" ("7272638f839f3834", copied exactly), "score".'
    verdict = json.loads(message_of({"messages": [{"role": "user", "content": prompt}]})["content"])
    assert verdict["nonce"] == "7272638f839f3834"
    assert verdict["score"] == 1.0


def test_a_judge_that_brings_a_tool_has_it_called() -> None:
    tools = [{"type": "function", "function": {"name": "final_result"}}]
    (call,) = message_of({"messages": [], "tools": tools})["tool_calls"]
    assert call["function"]["name"] == "final_result"
    assert json.loads(call["function"]["arguments"])["pass"] is True


def test_other_judges_find_json_and_a_grade() -> None:
    text = message_of({"messages": [{"role": "user", "content": f"Criterion: {RUBRIC}"}]})["content"]
    assert json.loads(text)["score"] == 10
    assert "GRADE: C" in text
