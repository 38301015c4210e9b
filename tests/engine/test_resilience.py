"""The layer between a row and its model: rate limits, deadlines, and the usage of attempts."""

import asyncio
import random
from pathlib import Path
from typing import cast

import pytest
from tests.support.fake_server import serving_fake

from agentv import EvalCase, EvaluatorConfig, Message, ProviderRequest, ProviderResponse, evaluate
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.running.clock import make_clock
from agentv.execution.limits import AccountLimiter
from agentv.types.failures import Failure
from agentv.types.provider import Provider, ProviderError
from agentv.types.targets import ResolvedTarget, RetryPolicy
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


def test_retry_after_of_an_hour_is_limited_by_the_retry_policy(tmp_path: Path) -> None:
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


class Wordless:
    """A provider that breaks its protocol: there is no reply at all."""

    kind = "wordless"

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - the protocol's
        return cast(ProviderResponse, None)


@pytest.mark.parametrize("provider", [Wordless(), Stumbling(1)], ids=["no reply", "no fresh workspace"])
def test_whatever_goes_wrong_in_a_try_gives_its_turn_back(provider: Provider) -> None:
    async def fail() -> None:
        raise RuntimeError("no space")

    async def run() -> int:
        limiter = AccountLimiter(now=asyncio.get_running_loop().time)
        target, clock, rng = (
            ResolvedTarget("t", provider.kind, settings=None, retry=RetryPolicy(initial_delay_s=0)),
            make_clock(),
            random.Random(0),
        )
        resilient = ResilientProvider(
            provider, target, counts_attempts=True, clock=clock, rng=rng, prices={}, limiter=limiter
        )
        with pytest.raises((RuntimeError, AttributeError)):
            await resilient.invoke_within(ProviderRequest(question="hi"), total_s=None, before_repeat=fail)
        return limiter.in_flight

    assert asyncio.run(run()) == 0


class OddAnswers:
    """A provider that returns something else than a ProviderResponse."""

    kind = "odd"

    def __init__(self, returned: object) -> None:
        self.returned = returned

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - the protocol's
        return cast(ProviderResponse, self.returned)


@pytest.mark.parametrize("returned", [{"text": "4"}, None, 4], ids=repr)
def test_a_provider_that_returns_no_response_is_an_error(returned: object, tmp_path: Path) -> None:
    case = EvalCase("a", (Message("user", "hi"),))
    has = EvaluatorConfig("any", "length", {"min": 1})
    (row,) = evaluate([case], target=OddAnswers(returned), evaluators=[has], folder=tmp_path).results
    assert row.error is not None
    assert (row.error.kind, "must return a ProviderResponse" in row.error.message) == ("unexpected_shape", True)
