"""Half-price batches, against the fake server's batch endpoint: submitted once, resumed after a kill."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from tests.support.fake_server import serving_fake

from agentv import EvaluatorConfig, RunReport, evaluate
from agentv.engine.calling.batch_api import BatchApi
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.engine.plugins.loading import load_specs
from agentv.engine.running.clock import make_clock
from agentv.fake import FakeServer
from agentv.storage.run.lock import RunLock
from agentv.storage.run.open_batches import find_open_batch
from agentv.types.failures import Failure
from agentv.types.provider import BatchState, BatchTicket, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.records.answer import ResultKey
from agentv.types.targets import ResolvedTarget

SUITE = """
execution: {evaluators: [{name: any, type: length, min: 1}]}
evalcases:
  - {id: a, expected_outcome: x, input_messages: [{role: user, content: alpha}]}
  - {id: b, expected_outcome: x, input_messages: [{role: user, content: beta}]}
"""
THIRD = "  - {id: c, expected_outcome: x, input_messages: [{role: user, content: gamma}]}\n"
ANY = EvaluatorConfig("any", "length", {"min": 1})


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving_fake(batch_polls=2) as found:
        yield found


def write_project(folder: Path, server: FakeServer, model: str = "fake") -> None:
    (folder / ".git").mkdir()
    (folder / ".agentv").mkdir()
    (folder / "suite.yaml").write_text(SUITE)
    (folder / "targets.yaml").write_text(
        f"targets: [{{name: t, provider: openai, base_url: '{server.url}/v1', model: '{model}', batch_api: true, "
        "price: {input_per_million: 1000000, output_per_million: 0}, max_retries: 0}]"
    )


def events(report: RunReport) -> list[dict[str, object]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / "events.jsonl").read_text().splitlines()]


def test_a_batch_is_handed_in_stored_waited_for_and_costs_half(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server)
    report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
    assert report.exit_code == 0
    assert ["alpha" in row.candidate_answer for row in report.results] == [True, False]
    kinds = [event["type"] for event in events(report)]
    assert kinds == ["started", "batch_submitted", "batch_fetched", "reported", "ended"]
    row = report.results[0]
    assert row.target_usage is not None
    assert row.target_cost_usd == pytest.approx(row.target_usage.input / 2)
    assert all(call.batch for call in server.calls if call.billed)


def test_lost_batch_answer_is_called_singly(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server, model="fake@batch-lost")
    report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
    assert [row.status for row in report.results] == ["pass", "pass"]
    assert any("no answer for a, b" in note for note in report.notes)


def kill_while_waiting(folder: Path, *options: str) -> str:
    """Run the suite until its batch is submitted, kill it, and return the batch's id."""
    before = set((folder / ".agentv").glob("runs/*"))
    command = [sys.executable, "-m", "agentv", "run", "suite.yaml", "--display", "json", *options]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        for line in run.stdout:
            if "batch" in line and json.loads(line)["event"] == "note":
                break
        os.kill(run.pid, signal.SIGKILL)
    (killed,) = set((folder / ".agentv").glob("runs/*")) - before
    (ticket,) = submitted(killed)
    return ticket


def submitted(folder: str | Path | None) -> list[str]:
    assert folder is not None
    lines = (Path(folder) / "events.jsonl").read_text().splitlines()
    return [json.loads(line)["id"] for line in lines if '"batch_submitted"' in line]


def test_batch_of_a_killed_run_is_resumed_and_not_submitted_twice(tmp_path: Path) -> None:
    with serving_fake(batch_polls=3) as server:
        write_project(tmp_path, server)
        ticket = kill_while_waiting(tmp_path)
        report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
        assert report.exit_code == 0
        assert submitted(report.folder) == [ticket]
        assert any(f"resuming batch {ticket}" in note for note in report.notes)
        again = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
        assert submitted(again.folder) != [ticket]


def test_resume_takes_up_the_batch_that_the_run_itself_was_waiting_for(tmp_path: Path) -> None:
    with serving_fake(batch_polls=3) as server:
        write_project(tmp_path, server)
        ticket = kill_while_waiting(tmp_path)
        subprocess.run([sys.executable, "-m", "agentv", "resume"], cwd=tmp_path, check=True, capture_output=True)
        (run,) = (tmp_path / ".agentv" / "runs").iterdir()
        assert set(submitted(run)) == {ticket}
        assert len([call for call in server.calls if call.billed]) == 2


def test_a_batch_of_what_is_not_in_the_cache_is_taken_up_as_well(tmp_path: Path) -> None:
    with serving_fake(batch_polls=3) as server:
        write_project(tmp_path, server)
        first = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", cache="on")
        (tmp_path / "suite.yaml").write_text(SUITE + THIRD)
        ticket = kill_while_waiting(tmp_path, "--cache", "on")
        report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", cache="on")
    assert submitted(first.folder) != [ticket] == submitted(report.folder)
    assert [row.cached for row in report.results] == [True, True, False]
    assert len([call for call in server.calls if call.billed]) == 3


def test_batch_omits_cached_requests_and_caches_its_answers(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server)
    first, second = (evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", cache="on") for _ in range(2))
    assert [row.cached for report in (first, second) for row in report.results] == [False, False, True, True]
    assert [row.target_cost_usd for row in second.results] == [row.target_cost_usd for row in first.results]
    assert [target.saved_usd for target in second.targets] == [target.target_cost_usd for target in first.targets]
    assert submitted(second.folder) == []


def test_single_call_for_a_lost_batch_answer_is_cached(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server, model="fake@batch-lost")
    _, report = (evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv", cache="on") for _ in range(2))
    assert [row.cached for row in report.results] == [True, True]
    assert submitted(report.folder) == []


def test_permanent_failure_in_a_batch_is_the_rows_result(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server, model="fake@content-filter")
    report = evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv")
    assert [row.error and row.error.kind for row in report.results] == ["content_filter", "content_filter"]
    assert all(call.batch for call in server.calls if call.billed)


def test_failed_batch_is_recorded_as_over_and_not_resumed(tmp_path: Path, server: FakeServer) -> None:
    write_project(tmp_path, server, model="fake@batch-failed")
    first, second = (evaluate(tmp_path / "suite.yaml", folder=tmp_path / ".agentv") for _ in range(2))
    tickets = [
        [event["id"] for event in events(report) if event["type"] == kind]
        for report in (first, second)
        for kind in ("batch_submitted", "batch_failed")
    ]
    assert tickets[0] == tickets[1] != tickets[2] == tickets[3]


UNREACHABLE = Failure("transport", "no connection", retryable=True)
GONE = Failure("bad_request", "no such batch", http_status=404)
WITHDRAWN = Failure("auth", "the key is not valid", http_status=401)
TIMED_OUT = Failure("server_error", "the gateway timed out", http_status=504, retryable=True)
BUSY = Failure("rate_limited", "too many batches", http_status=429, retryable=True)


class FakeBatches:
    """A provider whose batches are ready at once; the first `failures` fetches of answers fail."""

    kind = "provider"
    uses_batch_api = True

    def __init__(self, failures: int = 0, failure: Failure = UNREACHABLE) -> None:
        self.failures = failures
        self.failure = failure
        self.refusal: Failure | None = None
        self.submitted = 0

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:  # noqa: ARG002 - the protocol's
        raise AssertionError("there are no single calls")

    async def submit_batch(self, requests: Mapping[str, ProviderRequest]) -> BatchTicket:
        self.submitted += 1
        if self.refusal is not None:
            raise ProviderError(self.refusal)
        return BatchTicket(f"b{self.submitted}", tuple(requests))

    async def poll_batch(self, ticket: BatchTicket) -> BatchState:  # noqa: ARG002 - the protocol's
        return BatchState(is_over=True, status="completed", done=1, total=1)

    async def fetch_batch(self, ticket: BatchTicket) -> Mapping[str, ProviderResponse | Failure]:
        if self.failures > 0:
            self.failures -= 1
            raise ProviderError(self.failure)
        return dict.fromkeys(ticket.keys, ProviderResponse(text="yes", cost_usd=2.0))


@dataclass
class Outcome:
    """The answers of a batch, the recorded events, and the pauses between polls."""

    answers: dict[ResultKey, ProviderResponse | Failure] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)
    error: Failure | None = None


def call(home: Path, provider: FakeBatches, keys: tuple[str, ...] = ("s",)) -> Outcome:
    outcome = Outcome()
    tasks = [SimpleNamespace(slot=key) for key in keys]
    cases = [cast(PreparedCase, SimpleNamespace(answer_key="k", task=task, request=None)) for task in tasks]

    async def run() -> None:
        target, clock, rng = ResolvedTarget("t", "provider", settings=None), make_clock(), random.Random(0)
        async with Runtime(specs=load_specs(), clock=clock, rng=rng, home=str(home)) as runtime:
            resilient = ResilientProvider(provider, target, counts_attempts=False, clock=clock, rng=rng, prices={})

            async def sleep(seconds: float) -> None:
                outcome.pauses.append(seconds)

            def note(type_: str, _fields: object) -> None:
                outcome.events.append(type_)

            api = BatchApi(provider, resilient, runtime, note, sleep)
            try:
                await api.call(cases, outcome.answers.update)
            except ProviderError as error:
                outcome.error = error.failure

    asyncio.run(run())
    return outcome


def test_fetch_of_a_batch_is_retried(tmp_path: Path) -> None:
    outcome = call(tmp_path, provider := FakeBatches(failures=5))
    assert [getattr(answer, "text", None) for answer in outcome.answers.values()] == ["yes"]
    assert provider.submitted == 1
    assert outcome.pauses == [1, 2, 4, 8, 16]
    assert outcome.events == ["batch_submitted", "batch_fetched"]


@pytest.mark.parametrize("why", [UNREACHABLE, WITHDRAWN])
def test_batch_that_cannot_be_fetched_stays_open_and_is_not_repeated(tmp_path: Path, why: Failure) -> None:
    outcome = call(tmp_path, FakeBatches(100, why))
    (failure,) = outcome.answers.values()
    assert isinstance(failure, Failure)
    assert "repeat the run to resume it" in failure.message
    assert not failure.retryable
    assert outcome.events == ["batch_submitted"]


def test_lost_batch_is_recorded_as_failed(tmp_path: Path) -> None:
    outcome = call(tmp_path, FakeBatches(1, GONE))
    assert outcome.error == GONE
    assert outcome.events == ["batch_submitted", "batch_failed"]


@pytest.mark.parametrize(("why", "times"), [(BUSY, 10), (TIMED_OUT, 1), (UNREACHABLE, 1)])
def test_only_a_batch_that_was_surely_not_taken_is_handed_in_again(tmp_path: Path, why: Failure, times: int) -> None:
    provider = FakeBatches()
    provider.refusal = why
    assert call(tmp_path, provider).error == why
    assert provider.submitted == times


def test_case_in_two_suites_is_paid_once_and_answers_both(tmp_path: Path) -> None:
    answers = call(tmp_path, FakeBatches(), keys=("one", "two")).answers.values()
    assert [isinstance(answer, ProviderResponse) and (answer.text, answer.cost_usd) for answer in answers] == [
        ("yes", 1.0),
        ("yes", 0.0),
    ]


def write_batch(home: Path, keys: str, *ends: str) -> Path:
    """Write a run that submitted a batch; each of its keys is a letter."""
    run = home / "runs" / "2026-01-01T00-00-00-aaaaaa"
    run.mkdir(parents=True)
    (run / "run.json").write_text("{}")
    kinds = ["batch_submitted", *ends]
    lines = [json.dumps({"type": kind, "id": "b1", "target": "t", "keys": list(keys)}) for kind in kinds]
    (run / "events.jsonl").write_text("\n".join(lines) + "\n")
    return run


@pytest.mark.parametrize(
    ("ended", "alive", "found"), [(None, False, True), ("batch_failed", False, False), (None, True, False)]
)
def test_only_batches_without_a_waiting_run_are_resumed(
    tmp_path: Path,
    ended: str | None,
    alive: bool,
    found: bool,
) -> None:
    run = write_batch(tmp_path, "k", *([ended] if ended else []))
    lock = RunLock(run) if alive else None
    try:
        assert (find_open_batch(tmp_path, "t", {"k"}, keys={"k"}) is not None) is found
    finally:
        if lock is not None:
            lock.release()


@pytest.mark.parametrize(
    ("batch", "left", "another_runs", "its_own"),
    [
        ("ab", "ab", True, True),
        ("b", "b", True, True),
        ("ab", "b", True, True),
        ("abc", "ab", False, True),
        ("a", "ab", False, True),
        ("c", "ab", False, False),
    ],
)
def test_batch_is_resumed_only_if_it_fits_the_requests(
    tmp_path: Path, batch: str, left: str, another_runs: bool, its_own: bool
) -> None:
    run = write_batch(tmp_path, batch)
    found = [find_open_batch(tmp_path, "t", set(left), keys=set("ab"), own_run_id=own) for own in (None, run.name)]
    assert [ticket is not None for ticket in found] == [another_runs, its_own]
