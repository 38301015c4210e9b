"""`fallback_targets`: after a target has failed with all its retries, the next one answers, and the row says which."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_server import serving_fake

from agentv import ConfigError, RunReport, evaluate

SUITE = """
{execution}
evalcases:
  - id: a
    expected_outcome: hi
    input_messages: [{{role: user, content: hi}}]
    evaluators: [{{name: c, type: contains, value: hi}}]
"""
FAILING = "provider: mock, error: down, max_retries: 0"


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., RunReport]:
    (tmp_path / ".git").mkdir()

    def go(*targets: str, execution: str = "", **options: Any) -> RunReport:
        (tmp_path / "suite.yaml").write_text(SUITE.format(execution=execution))
        (tmp_path / "targets.yaml").write_text("targets:\n" + "".join(f"  - {{{target}}}\n" for target in targets))
        return evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", targets=["first"], **options)

    return go


def answer(report: RunReport) -> Any:
    assert report.folder is not None
    (line,) = (Path(report.folder) / "answers.jsonl").read_text().splitlines()
    return json.loads(line)


def test_the_next_target_answers_and_the_row_says_which(run: Callable[..., RunReport]) -> None:
    report = run(
        f"name: first, {FAILING}, fallback_targets: [second, third]",
        f"name: second, {FAILING}",
        "name: third, provider: mock, response: hi",
    )

    (row,) = report.results
    assert (row.status, row.target, row.answered_by, row.candidate_answer) == ("pass", "first", "third", "hi")
    assert answer(report)["answered_by"] == "third"
    assert [call["kind"] for call in answer(report)["calls"]] == ["server_error", "server_error", "ok"]
    assert "target 'first': it failed on cases that its fallback 'third' answered" in report.notes


def test_a_target_that_answers_needs_no_fallback(run: Callable[..., RunReport]) -> None:
    report = run(
        "name: first, provider: mock, response: hi, fallback_targets: [second]",
        "name: second, provider: mock, response: not called",
    )

    assert (report.results[0].candidate_answer, report.results[0].answered_by) == ("hi", None)
    assert "answered_by" not in answer(report)


def test_if_all_fail_the_error_names_each(run: Callable[..., RunReport]) -> None:
    report = run(
        f"name: first, {FAILING}, fallback_targets: [second]",
        "name: second, provider: cli, command_template: 'echo broken >&2; exit 3', max_retries: 0",
    )

    (row,) = report.results
    assert row.status == "error"
    assert row.error is not None
    assert row.error.message.startswith("down; fallback 'second': ")
    assert "broken" in row.error.message
    assert report.exit_code == 3


def test_a_fallback_finds_a_fresh_workspace(run: Callable[..., RunReport], tmp_path: Path) -> None:
    (tmp_path / "template").mkdir()
    report = run(
        "name: first, provider: cli, command_template: 'echo x > left.txt; exit 3', max_retries: 0, "
        "fallback_targets: [second]",
        "name: second, provider: cli, command_template: 'ls; echo hi'",
        execution="execution: {workspace: {template: template}}",
    )

    assert report.results[0].candidate_answer == "hi"
    assert answer(report)["workspace"]["changed"] == []


def test_a_fallback_that_cannot_be_used_is_refused_before_the_run(run: Callable[..., RunReport]) -> None:
    with pytest.raises(ConfigError, match="unknown target 'scond'"):
        run(f"name: first, {FAILING}, fallback_targets: [scond]", "name: second, provider: mock")
    with pytest.raises(ConfigError, match="a target cannot be its own fallback"):
        run(f"name: first, {FAILING}, fallback_targets: [first]")
    with pytest.raises(ConfigError, match="unknown key 'respones'"):
        run(f"name: first, {FAILING}, fallback_targets: [second]", "name: second, provider: mock, respones: x")


def test_a_batch_has_no_fallbacks_and_the_run_says_so(run: Callable[..., RunReport]) -> None:
    report = run(
        "name: first, provider: cli, command_template: 'exit 3 # {CASES_FILE} {OUTPUT_FILE}', max_retries: 0, "
        "provider_batching: true, fallback_targets: [second]",
        "name: second, provider: mock, response: hi",
    )

    assert "target 'first' answers in batches, which do not use its fallback_targets" in report.notes


def test_a_fallback_needs_a_price_under_a_budget(run: Callable[..., RunReport]) -> None:
    with pytest.raises(ConfigError, match="--budget-usd needs a price for target 'second'"):
        run(
            f"name: first, {FAILING}, fallback_targets: [second]",
            "name: second, provider: openai, model: m, base_url: 'http://127.0.0.1:9/v1'",
            budget_usd=1.0,
        )


def test_failed_attempts_of_a_target_are_billed_and_estimated_also_before_a_cached_answer(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "agent.py").write_text(
        "from agentv.types.provider import ProviderError\n"
        "from agentv.types.failures import Failure\n"
        "from agentv.types.provider import ProviderResponse\n"
        "def fails(request):\n"
        "    raise ProviderError(Failure('server_error', 'down'), partial=ProviderResponse('I begin to answer'))\n"
    )
    (tmp_path / "suite.yaml").write_text(SUITE.format(execution=""))
    with serving_fake() as server:
        settings = f"base_url: '{server.url}/v1', api_key: sk-none-none, model: fake"
        (tmp_path / "targets.yaml").write_text(
            "targets:\n"
            "  - {name: first, provider: python, callable: 'agent.py:fails', max_retries: 0,\n"
            "     fallback_targets: [second], price: {input_per_million: 1000, output_per_million: 1000}}\n"
            f"  - {{name: second, provider: openai, {settings},\n"
            "     price: {input_per_million: 10, output_per_million: 10}}\n"
        )
        live, cached = (
            answer(evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", targets=["first"], cache="on"))
            for _ in range(2)
        )
    lost = live["calls"][0]["cost_usd"]
    assert lost > 0
    assert (live["estimated"], cached["estimated"]) == (True, True)
    assert live["billed_usd"] == live["cost_usd"] > lost
    assert "cached" in cached
    assert (cached["billed_usd"], cached["cost_usd"]) == (lost, live["cost_usd"])
