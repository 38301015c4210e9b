"""What stands between a row and its model: turns at the account, deadlines, and what a try used."""

from pathlib import Path

import pytest
from tests.fake_server import serving_fake

from agentv import EvalCase, EvaluatorConfig, Message, ProviderRequest, ProviderResponse, evaluate
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.usage import Usage

SUITE = """
execution: {evaluators: [{name: any, type: length, min: 1}]}
evalcases:
  - {id: a, expected_outcome: x, input_messages: [{role: user, content: one}]}
  - {id: b, expected_outcome: x, input_messages: [{role: user, content: two}]}
"""


def write_project(folder: Path, suite: str, targets: str) -> Path:
    (folder / ".git").mkdir()
    (folder / ".agentv").mkdir()
    (folder / "targets.yaml").write_text(targets)
    (folder / "suite.yaml").write_text(suite)
    return folder / "suite.yaml"


def test_a_server_that_asks_for_an_hour_holds_the_account_only_as_long_as_the_policy_grants(tmp_path: Path) -> None:
    with serving_fake(retry_after_s=3600) as server:
        address = f"provider: openai, base_url: '{server.url}/v1', max_retries: 1, retry_max_delay_ms: 50, workers: 1"
        targets = f"targets:\n- {{name: busy, {address}, model: fake@429}}\n- {{name: well, {address}, model: fake}}\n"
        suite = write_project(tmp_path, SUITE, targets)
        report = evaluate(suite, targets=("busy", "well"), folder=tmp_path / ".agentv")
    assert {(row.target, row.status) for row in report.results} == {("busy", "error"), ("well", "pass")}


def test_a_judge_that_waits_for_its_turn_is_not_late(tmp_path: Path) -> None:
    """Two judges at 60 requests a minute: the second waits longer than any evaluator may take."""
    with serving_fake() as server:
        address = f"provider: openai, base_url: '{server.url}/v1', model: fake"
        targets = (
            f"targets:\n- {{name: t, {address}, judge_target: j}}\n- {{name: j, {address}, requests_per_minute: 60}}\n"
        )
        judges = (
            "evaluator_timeout_seconds: 0.8, evaluators: [{name: j1, type: llm_judge}, {name: j2, type: llm_judge}]"
        )
        suite = write_project(
            tmp_path, SUITE.replace("evaluators: [{name: any, type: length, min: 1}]", judges), targets
        )
        report = evaluate(suite, targets=("t",), folder=tmp_path / ".agentv")
    assert {result.status for row in report.results for result in row.evaluator_results} == {"scored"}


class Stumbling:
    """A provider that fails in the middle of a dialogue the first times, with tokens spent by then."""

    kind = "stumbling"

    def __init__(self, failures: int) -> None:
        self.failures = failures

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - the protocol's
        if self.failures > 0:
            self.failures -= 1
            details = {"usage": {"input": 100, "output": 10, "total": 110, "requests": 2}}
            raise ProviderError(Failure("transport", "gone", retryable=True, details=details))
        return ProviderResponse(text="yes", usage=Usage(input=5, output=1, total=6, requests=1))


@pytest.mark.parametrize(("failures", "status", "tokens"), [(1, "pass", 116), (9, "error", 220)])
def test_tokens_of_tries_that_failed_are_counted(tmp_path: Path, failures: int, status: str, tokens: int) -> None:
    case = EvalCase("a", (Message("user", "hi"),))
    report = evaluate(
        [case],
        target=Stumbling(failures),
        evaluators=[EvaluatorConfig("any", "length", {"min": 1})],
        folder=tmp_path,
        max_retries=1,
    )
    (row,) = report.results
    assert row.status == status
    assert row.target_usage is not None
    assert row.target_usage.total == tokens
