"""Whole runs with `semantic_similarity`: who makes the vectors, what they cost, what is kept and what is not."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.fake_server import serving_fake

from agentv import ConfigError, RunReport, evaluate
from agentv.fake import FakeServer
from agentv.types.evaluation import EvaluatorResult

KEY = "sk-canary-0123456789"
CASES = 6


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake() as server:
        yield server


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("EMBEDDING_KEY", KEY)
    return KEY


def write_project(folder: Path, evaluator: str, *targets: str) -> Path:
    cases = "".join(
        f"- {{id: c{number}, expected_outcome: x, input_messages: [{{role: user, content: q{number}}}],"
        f" expected_messages: [{{role: assistant, content: the answer is number {number}}}]}}\n"
        for number in range(CASES)
    )
    (folder / ".git").mkdir()
    (folder / "suite.yaml").write_text(f"execution: {{evaluators: [{evaluator}]}}\nevalcases:\n{cases}")
    agent = "{name: agent, provider: mock, response: the answer is number 1, workers: 6}"
    (folder / "targets.yaml").write_text("targets:\n" + "".join(f"- {target}\n" for target in (agent, *targets)))
    return folder / "suite.yaml"


def run(suite: Path, **options: object) -> RunReport:
    return evaluate(suite, targets=("agent",), folder=suite.parent / ".agentv", **options)  # type: ignore[arg-type] # a test's own


def judged(report: RunReport) -> list[EvaluatorResult]:
    return [result for row in report.results for result in row.evaluator_results]


def named(server: FakeServer, model: str = "text-embedding-3-small") -> str:
    return (
        f"{{name: embedder, provider: openai, base_url: '{server.url}/v1', model: '{model}',"
        " api_key: '${{ EMBEDDING_KEY }}'}"
    )


def in_place(server: FakeServer) -> str:
    return (
        f"{{name: meaning, type: semantic_similarity, model: {{provider: openai, base_url: '{server.url}/v1',"
        " model: text-embedding-3-small, api_key: '${{ EMBEDDING_KEY }}'}}"
    )


BY_NAME = "{name: meaning, type: semantic_similarity, model: embedder}"


@pytest.mark.usefixtures("key")
def test_a_target_makes_the_vectors_of_all_cases_and_their_cost_is_summed(server: FakeServer, tmp_path: Path) -> None:
    report = run(write_project(tmp_path, BY_NAME, named(server)))
    scores = {row.slot.eval_id: row.score for row in report.results}
    assert scores["c1"] == pytest.approx(1.0)
    assert 0.5 < (scores["c2"] or 0) < 1.0
    tokens = sum(call.input_tokens for call in server.calls)
    # Six references, one of which is also the answer of every case.
    assert sum(result.usage.input for result in judged(report) if result.usage) == tokens
    assert report.targets[0].judge_cost_usd == pytest.approx(tokens * 0.02 / 1e6)


@pytest.mark.usefixtures("key")
def test_a_model_written_in_place_has_its_references_filled(server: FakeServer, tmp_path: Path) -> None:
    report = run(write_project(tmp_path, in_place(server)))
    assert {result.status for result in judged(report)} == {"scored"}
    assert {call.judge for result in judged(report) for call in result.judge_calls} == {"openai text-embedding-3-small"}


@pytest.mark.parametrize("where", ["by name", "in place"])
def test_the_key_is_nowhere_in_what_is_kept(server: FakeServer, tmp_path: Path, key: str, where: str) -> None:
    evaluator = BY_NAME if where == "by name" else in_place(server)
    run(write_project(tmp_path, evaluator, named(server, "m@401")))
    kept = [path for path in (tmp_path / ".agentv").rglob("*") if path.is_file()]
    assert kept
    assert not [path for path in kept if key.encode() in path.read_bytes()]


@pytest.mark.usefixtures("key")
def test_a_second_run_asks_for_nothing(server: FakeServer, tmp_path: Path) -> None:
    suite = write_project(tmp_path, BY_NAME, named(server))
    first = run(suite)
    calls = len(server.calls)
    second = run(suite)
    assert len(server.calls) == calls > 0
    assert [row.score for row in second.results] == [row.score for row in first.results]
    assert all(call.cached for result in judged(second) for call in result.judge_calls)


def test_a_variable_that_is_not_set_stops_the_run_before_it_begins(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EMBEDDING_KEY", raising=False)
    for number, evaluator in enumerate((BY_NAME, in_place(server))):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(ConfigError, match="EMBEDDING_KEY"):
            run(write_project(folder, evaluator, named(server)))
    assert server.calls == []


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("unknown", "no target named 'unknown'"),
        ("agent", r"'agent' \(mock\) cannot make embeddings; providers that can: azure, openai, gemini, local"),
        ("{model: m}", "`model` must be the name of a target"),
        ("{provider: opnai}", "unknown provider 'opnai'.*Did you mean 'openai'"),
        ("{provider: openai, model: m, api_key: k, dimension: 7}", "dimension"),
        ("{provider: gemini, model: m, project: p}", "Vertex"),
        ("{provider: local, model: other}", "all-minilm-l6-v2"),
    ],
)
def test_a_model_that_cannot_be_had_stops_the_run_before_it_begins(model: str, message: str, tmp_path: Path) -> None:
    evaluator = f"{{name: meaning, type: semantic_similarity, model: {model}}}"
    with pytest.raises(ConfigError, match=message):
        run(write_project(tmp_path, evaluator))


def test_a_source_of_embeddings_is_no_target_of_a_run(tmp_path: Path) -> None:
    suite = write_project(tmp_path, BY_NAME, "{name: embedder, provider: local}")
    with pytest.raises(ConfigError, match="makes embeddings and cannot answer cases"):
        evaluate(suite, targets=("embedder",), folder=tmp_path / ".agentv")


@pytest.mark.usefixtures("key")
def test_only_free_leaves_out_what_a_model_api_makes(server: FakeServer, tmp_path: Path) -> None:
    report = run(write_project(tmp_path, BY_NAME, named(server)), only="free")
    assert {row.status for row in report.results} == {"skipped"}
    assert server.calls == []


def test_only_free_needs_no_key_for_what_it_leaves_out(server: FakeServer, tmp_path: Path) -> None:
    report = run(write_project(tmp_path, in_place(server)), only="free")
    assert {row.status for row in report.results} == {"skipped"}


def test_a_server_that_is_busy_is_an_error_of_the_evaluator_with_its_kind(tmp_path: Path, server: FakeServer) -> None:
    target = f"{{name: embedder, provider: openai, base_url: '{server.url}/v1', model: m@400, max_retries: 0}}"
    report = run(write_project(tmp_path, BY_NAME, target))
    failures = {result.error.kind for result in judged(report) if result.error}
    assert failures == {"bad_request"}
    assert {row.status for row in report.results} == {"error"}


def test_rows_can_be_read_again_with_what_the_vectors_used(tmp_path: Path, server: FakeServer, key: str) -> None:
    run(write_project(tmp_path, BY_NAME, named(server)))
    lines = [path.read_text() for path in (tmp_path / ".agentv" / "runs").rglob("results.jsonl")]
    rows = [json.loads(line) for text in lines for line in text.splitlines()]
    roles = {call["role"] for row in rows for each in row["evaluator_results"] for call in each["judge_calls"]}
    assert (roles, key in "".join(lines)) == ({"embedding"}, False)
