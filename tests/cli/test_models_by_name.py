"""`provider:model` in place of a target, and the judge of an eval file: no targets file needs to name them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.command_line import Call, command_line
from tests.support.fake_server import fake_server

from agentv import evaluate
from agentv.fake import FakeServer

SUITE: dict[str, Any] = {
    "evalcases": [
        {
            "id": "france",
            "input_messages": [{"role": "user", "content": "What is the capital of France?"}],
            "expected_outcome": "Names Paris",
        }
    ]
}
TARGETS = """
targets:
  - {name: agent, provider: mock, response: "It is Paris.", judge_target: strict}
  - {name: strict, provider: mock, response: '{"score": 0.1, "hits": [], "misses": [], "reasoning": "no"}'}
  - {name: mild, provider: mock, response: '{"score": 0.9, "hits": [], "misses": [], "reasoning": "yes"}'}
"""
INLINE = {"provider": "mock", "response": '{"score": 0.9, "hits": [], "misses": [], "reasoning": "yes"}'}

__all__ = ["fake_server"]


@pytest.fixture
def agentv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)

    return command_line(capsys)


def write_suite(**keys: Any) -> None:
    Path("suite.yaml").write_text(json.dumps({**keys, **SUITE}))


def only_row() -> dict[str, Any]:
    (line,) = Path("rows.jsonl").read_text().splitlines()
    row: dict[str, Any] = json.loads(line)
    return row


@pytest.mark.parametrize("has_targets", [False, True])
def test_a_model_answers_and_judges_without_an_entry(
    agentv: Call, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch, has_targets: bool
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-anything-at-all")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake_server.url}/v1")
    write_suite()
    if has_targets:
        Path("targets.yaml").write_text(TARGETS)
    code, said, problems = agentv("run", "suite.yaml", "--target", "openai:small", "-o", "rows.jsonl", "--gate", "none")
    assert code == 0, said + problems
    assert (only_row()["target"], only_row()["status"] in ("pass", "fail")) == ("openai:small", True)


def test_a_model_is_named_in_the_file(agentv: Call, fake_server: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-anything-at-all")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake_server.url}/v1")
    write_suite(target="openai:small", judge="openai:large")
    assert agentv("check", "suite.yaml")[0] == 0
    code, said, problems = agentv("run", "suite.yaml", "-o", "rows.jsonl", "--gate", "none")
    assert code == 0, said + problems
    assert only_row()["target"] == "openai:small"


def test_a_misspelt_provider_is_still_an_unknown_target(agentv: Call) -> None:
    write_suite()
    Path("targets.yaml").write_text(TARGETS)
    code, _, problems = agentv("run", "suite.yaml", "--target", "opnai:small")
    assert (code, "there is no target 'opnai:small'" in problems) == (4, True)


@pytest.mark.parametrize(("judge", "score"), [(None, 0.1), ("mild", 0.9), (INLINE, 0.9)])
def test_the_judge_of_a_file_replaces_those_of_its_targets(agentv: Call, judge: Any, score: float) -> None:
    write_suite(**({} if judge is None else {"judge": judge}))
    Path("targets.yaml").write_text(TARGETS)
    assert agentv("check", "suite.yaml")[0] == 0
    agentv("run", "suite.yaml", "--target", "agent", "-o", "rows.jsonl")
    assert only_row()["score"] == score
    assert evaluate("suite.yaml", target="agent").results[0].score == score
    assert evaluate("suite.yaml", target="agent", judge="strict").results[0].score == 0.1


@pytest.mark.parametrize(
    ("judge", "problem"),
    [
        ("mid", "there is no target 'mid' in targets.yaml; known: agent, strict, mild; did you mean 'mild'?"),
        ({"provider": "mok"}, "unknown provider 'mok'; known: "),
        ({"response": "x"}, "the key 'provider' is missing"),
    ],
)
def test_a_wrong_judge_of_a_file_is_found_before_the_run(agentv: Call, judge: Any, problem: str) -> None:
    write_suite(judge=judge)
    Path("targets.yaml").write_text(TARGETS)
    code, said, _ = agentv("check", "suite.yaml")
    assert (code, problem in said) == (4, True), said
    assert agentv("run", "suite.yaml", "--target", "agent")[0] == 4
