"""Runs with targets and judges that stream: what is stored, retried and cached."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import serving_fake

from agentv import EvalCase, EvaluatorConfig, Message, RunReport, TargetConfig, evaluate
from agentv.fake import FakeServer

HAS = EvaluatorConfig("has", "contains", {"value": "said"})
JUDGE = EvaluatorConfig("judge", "llm_judge", {})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(keep_requests=True) as server:
        yield server


def run(
    server: FakeServer, folder: Path, judge: EvaluatorConfig = HAS, model: str = "m", **settings: Any
) -> tuple[RunReport, dict[str, Any]]:
    """Run one case and return the report with the stored answer."""
    base: dict[str, Any] = {"model": model, "base_url": f"{server.url}/v1", "api_key": "k", "retry_initial_delay_ms": 1}
    target = TargetConfig("fake", "openai", {**base, "max_retries": 1, "stream": True, **settings})
    case = EvalCase("a", (Message("user", "Where is it?"),), expected_outcome="an answer")
    report = evaluate([case], target=target, evaluators=[judge], folder=folder, gates="none", cache="on")
    assert report.folder is not None
    (line,) = (Path(report.folder) / "answers.jsonl").read_text().splitlines()
    return report, json.loads(line)


def test_the_time_to_the_first_token_is_stored(server: FakeServer, tmp_path: Path) -> None:
    report, answer = run(server, tmp_path)

    assert [row.status for row in report.results] == ["pass"]
    assert 0 < answer["first_token_ms"] <= answer["duration_ms"]
    assert answer["usage"]["output"] > 0
    assert "first_token_ms" not in run(server, tmp_path / "plain", stream=False)[1]


def test_a_stream_that_is_cut_once_is_asked_for_again(server: FakeServer, tmp_path: Path) -> None:
    report, answer = run(server, tmp_path, model="m@cut-x1")

    assert [row.status for row in report.results] == ["pass"]
    assert [call["kind"] for call in answer["calls"]] == ["transport", "ok"]
    assert answer["text"] == "You said: Where is it?"


@pytest.mark.parametrize(("fault", "kind"), [("cut", "transport"), ("error-event", "server_error")])
def test_a_stream_that_is_always_cut_is_an_error_and_no_answer(
    server: FakeServer, tmp_path: Path, fault: str, kind: str
) -> None:
    report, answer = run(server, tmp_path, model=f"m@{fault}")

    assert [(row.status, row.score) for row in report.results] == [("error", None)]
    assert (answer["text"], answer["error"]["kind"], len(answer["calls"])) == ("", kind, 2)


def test_a_judge_may_stream(server: FakeServer, tmp_path: Path) -> None:
    report, _ = run(server, tmp_path, judge=JUDGE)

    assert [row.status == "error" for row in report.results] == [False]
    assert all(json.loads(request.body)["stream"] for request in server.requests)


def test_an_answer_is_cached_whether_it_was_streamed_or_not(server: FakeServer, tmp_path: Path) -> None:
    _, first = run(server, tmp_path)
    _, again = run(server, tmp_path, stream=False)

    assert len(server.requests) == 1
    assert (again["text"], again["first_token_ms"]) == (first["text"], first["first_token_ms"])
