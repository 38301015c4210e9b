"""Whole runs from files: what ends a run, what does not, and what is told."""

import asyncio
import itertools
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentv import EvalCase, EvaluatorConfig, ProviderError, ProviderRequest, ProviderResponse, RunReport, evaluate
from agentv.types.failures import Failure

CASE = "{id: %s, expected_outcome: x, input_messages: [{role: user, content: hi}]}"
HAS_X = "execution: {evaluators: [{name: has, type: contains, value: x}]}"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReport]:
    (tmp_path / ".git").mkdir()

    def go(targets: str, *cases: str, files: dict[str, str] | None = None, **options: Any) -> RunReport:
        lines = "\n".join(f"  - {CASE % case}" for case in cases or ("a",))
        (tmp_path / "suite.yaml").write_text(f"{HAS_X}\nevalcases:\n{lines}\n")
        (tmp_path / "targets.yaml").write_text(f"targets: [{targets}]")
        for name, text in (files or {}).items():
            (tmp_path / name).write_text(text)
        return evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", **options)

    return go


def cli_target(code: str, **settings: Any) -> str:
    command = f"{sys.executable} -c '{code}'".replace('"', '\\"')
    more = "".join(f", {key}: {json.dumps(value)}" for key, value in settings.items())
    return f'{{name: t, provider: cli, command_template: "{command}"{more}}}'


def stored(report: RunReport, name: str) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / name).read_text().splitlines()]


def test_a_failing_healthcheck_ends_the_run_before_any_case_is_spent(run: Callable[..., RunReport]) -> None:
    report = run(cli_target("print(1)", healthcheck={"type": "command", "command_template": "false"}))
    assert (report.exit_code, report.results) == (3, ())
    assert "healthcheck of target 't' failed" in report.verdict.sentence


def test_a_target_that_times_out_is_tried_again_with_the_next_attempt_number(
    run: Callable[..., RunReport], tmp_path: Path
) -> None:
    code = "import signal, sys; print(sys.argv[1] + str(1)) if sys.argv[1] == str(1) + str() else signal.pause()"
    (tmp_path / "agent.py").write_text(code.replace("str(1) + str()", "'1'"))
    target = (
        f"{{name: t, provider: cli, command_template: '{sys.executable} agent.py {{ATTEMPT}}', "
        "timeout_seconds: 1, max_retries: 1, initial_delay_ms: 1}"
    )
    (row,) = run(target, gates=()).results
    assert (row.candidate_answer.strip(), row.attempt) == ("11", 1)


def test_every_try_of_a_call_is_kept_with_its_kind(run: Callable[..., RunReport]) -> None:
    target = (
        "{name: t, provider: mock, response: x, fail_every: 1, error: HTTP 503, max_retries: 2, initial_delay_ms: 1}"
    )
    report = run(target)
    (answer,) = stored(report, "answers.jsonl")
    assert answer["error"]["kind"] in ("server_error", "transport")
    assert {call["kind"] for call in answer["calls"]} == {answer["error"]["kind"]}


def test_a_provider_that_cannot_batch_is_told_and_asked_case_by_case(run: Callable[..., RunReport]) -> None:
    report = run("{name: t, provider: mock, response: x, provider_batching: true}", "a", "b")
    assert report.exit_code == 0
    assert any("cannot batch" in note for note in report.notes)


def test_the_same_case_id_in_two_suites_makes_two_rows(run: Callable[..., RunReport], tmp_path: Path) -> None:
    run("{name: t, provider: mock, response: x}")
    (tmp_path / "second.yaml").write_text((tmp_path / "suite.yaml").read_text())
    report = evaluate(tmp_path, folder=tmp_path / ".agentv")
    assert sorted(row.slot.suite for row in report.results) == ["second.yaml", "suite.yaml"]


def test_a_bad_line_far_down_a_stream_is_a_row_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    good = '{"id": "c%d", "expected_outcome": "x", "input_messages": [{"role": "user", "content": "hi"}]}'
    lines = [good % number for number in range(1200)]
    lines[1100] = '{"id": "c1100", "expected_outcom": "x"}'
    (tmp_path / "data.jsonl").write_text("\n".join(lines))
    (tmp_path / "data.yaml").write_text(HAS_X)
    (tmp_path / "targets.yaml").write_text("targets: [{name: t, provider: mock, response: x}]")
    report = evaluate(tmp_path / "data.jsonl", folder=tmp_path / ".agentv")
    assert (report.exit_code, len(report.results)) == (4, 1200)
    (bad,) = (row for row in report.results if row.error)
    assert bad.error is not None
    assert (bad.error.kind, bad.line) == ("config_error", 1101)
    assert "expected_outcom" in bad.error.message


def test_workers_bound_how_many_rows_are_worked_on_at_once() -> None:
    busy, most = 0, 0

    async def task(_request: ProviderRequest) -> str:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        for _ in range(5):
            await asyncio.sleep(0)
        busy -= 1
        return "x"

    cases = [EvalCase(f"c{n}", "?") for n in range(20)]  # type: ignore[arg-type]  # a string is taken
    has_x = EvaluatorConfig("has", "contains", {"value": "x"})
    evaluate(cases, task=task, evaluators=[has_x], workers=3)
    assert most == 3
    most = 0
    evaluate(cases, task=task, evaluators=[has_x])
    assert most == 1


def test_twenty_transport_failures_in_a_row_stop_the_target_and_its_rows_say_so() -> None:
    asked = itertools.count()

    class Unreachable:
        kind = "unreachable"

        async def invoke(self, _request: ProviderRequest) -> ProviderResponse:
            next(asked)
            raise ProviderError(Failure("transport", "connection refused"))

    cases = [EvalCase(f"c{n}", "?") for n in range(30)]  # type: ignore[arg-type]  # a string is taken
    report = evaluate(cases, target=Unreachable(), evaluators=[EvaluatorConfig("h", "contains", {"value": "x"})])
    assert next(asked) == 20
    errors = [row.error for row in report.results if row.error]
    assert len(errors) == 30
    assert {error.kind for error in errors} == {"transport"}
    assert errors[-1].message.startswith("not tried: target 'target' was stopped")


def test_a_secret_of_the_target_never_reaches_a_file(run: Callable[..., RunReport], tmp_path: Path) -> None:
    code = 'import os; print("x", os.environ["AGENT_TOKEN"])'
    (tmp_path / ".env").write_text("AGENT_TOKEN=very-secret-token\n")
    target = cli_target(code).removesuffix("}") + ", env: {AGENT_TOKEN: '${{ AGENT_TOKEN }}'}}"
    report = run(target)
    assert report.results[0].candidate_answer.strip() == "x ***"
    assert report.folder is not None
    for path in Path(report.folder).iterdir():
        if path.is_file():
            assert "very-secret-token" not in path.read_text(), path.name


def test_answers_are_kept_before_they_are_judged(run: Callable[..., RunReport]) -> None:
    report = run("{name: t, provider: mock, response: x}", "a", "b", trials=2)
    answers, rows, cases = (stored(report, f"{name}.jsonl") for name in ("answers", "results", "cases"))
    assert [(row["slot"]["eval_id"], row["slot"]["trial"]) for row in answers] == [
        ("a", 0), ("a", 1), ("b", 0), ("b", 1),
    ]  # fmt: skip
    assert [row["answer_ref"]["seq"] for row in rows] == [row["seq"] for row in answers]
    assert [row["answer_key"] for row in rows] == [row["answer_key"] for row in answers]
    assert len({row["answer_key"] for row in answers}) == 4
    assert [case["eval_id"] for case in cases] == ["a", "b"]


def test_reordering_and_renaming_changes_no_key(run: Callable[..., RunReport], tmp_path: Path) -> None:
    def keys(report: RunReport) -> dict[str, tuple[str, str]]:
        return {row.eval_id: (row.answer_key, row.score_keys["has"]) for row in report.results}

    target = "{name: t, provider: mock, response: x}"
    before = keys(run(target, "a", "b"))
    run(target, "b", "c", "a")
    (tmp_path / "suite.yaml").rename(tmp_path / "renamed.yaml")
    after = keys(evaluate(tmp_path / "renamed.yaml", folder=tmp_path / ".agentv"))
    assert {name: after[name] for name in before} == before
    changed = keys(run(target.replace("response: x", "response: xy"), "a"))
    assert changed["a"] != before["a"]


def test_a_changed_judge_script_changes_its_score_key_and_no_answer_key(tmp_path: Path) -> None:
    judge = tmp_path / "judge.py"
    case = EvalCase("a", "hi")  # type: ignore[arg-type]  # a string is taken
    config = EvaluatorConfig("j", "code_judge", {"script": [sys.executable, "judge.py"]}, base_dir=str(tmp_path))

    def keys(score: float) -> tuple[str, str]:
        judge.write_text(f"print('{{\"score\": {score}}}')")
        (row,) = evaluate([case], task=lambda _request: "x", evaluators=[config]).results
        return row.answer_key, row.score_keys["j"]

    first, second = keys(1), keys(0.5)
    assert first[0] == second[0]
    assert first[1] != second[1]
