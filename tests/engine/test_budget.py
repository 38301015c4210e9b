"""`--budget-usd`: no call is sent that could exceed the limit, and the calls not sent are left for a resume."""

import asyncio
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.fake_server import serving_fake

from agentv import ConfigError, EvalCase, EvaluatorConfig, Message, RunReport, TargetConfig, evaluate
from agentv.engine.calling.budget import Budget, BudgetAccount, BudgetStop
from agentv.engine.stored.resume import load_spent
from agentv.execution.quotas import InProcessQuota, QuotaClient
from agentv.fake import FakeServer
from agentv.fake.answers import answer
from agentv.fake.api import Question, Reply
from agentv.storage.run.folder import append_event
from agentv.storage.run.stored import StoredRun
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.protocols import QuotaGrant, QuotaRequest
from agentv.types.provider import CallRecord, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.usage import Usage

HAS = EvaluatorConfig("has", "contains", {"value": "said"})
JUDGE = EvaluatorConfig("judge", "llm_judge", {})
PRICE = {"input_per_million": 1_000, "output_per_million": 10_000}
amounts = st.floats(min_value=0, max_value=1, allow_nan=False)


class Shop:
    """Calls of several targets against one budget. `turns` is the length of each, in turns of the event loop."""

    def __init__(self, limit: float, targets: int) -> None:
        self.stops: list[BudgetStop] = []
        self.budget = Budget(limit, self.stops.append)
        self.accounts = [BudgetAccount(self.budget, f"t{number}", lambda _usage: None) for number in range(targets)]
        self.flying: dict[int, float] = {}
        self.excess: dict[int, float] = {}
        self.refused = 0

    async def call(self, number: int, target: int, guess: float, cost: float | None, turns: int) -> None:
        async def go() -> ProviderResponse:
            reserved = self.budget.reserved_usd - sum(self.flying.values())
            assert self.budget.spent_usd + self.budget.reserved_usd <= self.budget.limit_usd + 1e-9
            self.flying[number] = reserved
            self.excess = dict.fromkeys(self.flying, 0.0)
            for _ in range(turns):
                await asyncio.sleep(0)
            del self.flying[number]
            if number in self.excess and cost is not None:
                self.excess[number] = max(0.0, cost - reserved)
            return ProviderResponse("", cost_usd=cost)

        try:
            await self.accounts[target].pay(go, estimate_usd=guess)
        except ProviderError:
            self.refused += 1


@example(limit=2.0, calls=[(0, 1e-9, None, 0)], workers=1)
@given(
    limit=st.floats(min_value=0.01, max_value=5),
    calls=st.lists(
        st.tuples(st.integers(0, 2), amounts, st.none() | amounts, st.integers(0, 5)), min_size=1, max_size=25
    ),
    workers=st.integers(1, 8),
)
def test_budget_is_exceeded_only_by_cost_above_reservations(
    limit: float, calls: Sequence[tuple[int, float, float | None, int]], workers: int
) -> None:
    async def run() -> Shop:
        shop, numbered = Shop(limit, 3), iter(enumerate(calls))

        async def work() -> None:
            for number, call in numbered:
                await shop.call(number, *call)

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        return shop

    shop = asyncio.run(run())
    assert shop.budget.spent_usd <= limit + sum(shop.excess.values()) + 1e-9
    assert shop.budget.reserved_usd == 0.0
    assert bool(shop.refused) == bool(shop.stops)
    assert len(shop.stops) <= 1


def test_a_call_waits_for_room_that_others_may_leave() -> None:
    """Reservations are larger than costs: a call that does not fit waits for others, and does not stop the run."""

    async def run() -> Shop:
        shop = Shop(1.2, 1)
        await shop.call(0, 0, 0.5, 0.01, 0)  # the dearest so far is what it cost
        async with asyncio.TaskGroup() as group:
            for number in range(1, 9):
                group.create_task(shop.call(number, 0, 0.3, 0.1, 3))
        return shop

    shop = asyncio.run(run())
    assert (shop.refused, shop.stops) == (0, [])
    assert shop.budget.spent_usd == pytest.approx(0.81)


@pytest.mark.parametrize(
    ("failure", "spent"),
    [(Failure("server_error", "no"), 0.0), (Failure("deadline", "late"), 0.25), (Failure("bad_request", "no"), 0.0)],
)
def test_a_call_that_ran_out_of_time_may_be_billed_and_counts(failure: Failure, spent: float) -> None:
    async def run() -> float:
        budget = Budget(1.0)

        async def fail() -> ProviderResponse:
            raise ProviderError(failure)

        with pytest.raises(ProviderError):
            await BudgetAccount(budget, "t", lambda _usage: None).pay(fail, estimate_usd=0.25)
        return budget.spent_usd

    assert asyncio.run(run()) == spent


def cases(count: int) -> list[EvalCase]:
    return [EvalCase(f"c{n}", (Message("user", f"question {n}"),), expected_outcome="an answer") for n in range(count)]


def target(server: FakeServer, **settings: Any) -> TargetConfig:
    return TargetConfig("fake", "openai", {"model": "m", "base_url": f"{server.url}/v1", "price": PRICE, **settings})


def stored(report: RunReport, name: str) -> list[dict[str, Any]]:
    assert report.folder is not None
    return [json.loads(line) for line in (Path(report.folder) / name).read_text().splitlines()]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server whose cost cannot be estimated from the prompt: each answer has a thousand tokens, ten dollars."""

    def wordy(question: Question) -> Reply:
        reply = answer(question)
        return reply if '"nonce"' in reply.text else replace(reply, text="said " * 800)

    with serving_fake(answer=wordy) as server:
        yield server


def spent(report: RunReport) -> float:
    (summary,) = report.targets
    return (summary.target_cost_usd or 0) + (summary.judge_cost_usd or 0)


@pytest.mark.parametrize("workers", [1, 8])
def test_a_run_stops_before_the_call_that_could_pass_the_budget(
    server: FakeServer, tmp_path: Path, workers: int
) -> None:
    report = evaluate(
        cases(40), target=target(server), evaluators=[HAS], folder=tmp_path, budget_usd=55.0, workers=workers
    )
    assert (report.exit_code, report.state) == (2, "stopped")
    assert "of the budget of $55 is spent" in report.verdict.sentence
    assert "5 of 40 planned results are complete" in report.verdict.sentence
    assert (len(server.calls), len(report.results)) == (5, 5)
    assert 50 < spent(report) <= 55
    (event,) = (event for event in stored(report, "events.jsonl") if event["type"] == "budget_stop")
    assert (event["limit_usd"], event["target"]) == (55.0, "fake")
    assert event["spent_usd"] == pytest.approx(spent(report))
    assert len(stored(report, "answers.jsonl")) == len(stored(report, "results.jsonl")) == 5


def said(_request: ProviderRequest) -> ProviderResponse:
    return ProviderResponse("said", cost_usd=0.5)


@pytest.mark.parametrize(("name", "spent_usd"), [("team", 0.5), ("of the run", 99.0), (None, 99.0)])
def test_what_all_runs_of_a_shared_budget_spent_is_not_the_cost_of_one(
    tmp_path: Path, name: str | None, spent_usd: float
) -> None:
    report = evaluate(cases(1), task=said, evaluators=[HAS], folder=tmp_path)
    assert report.folder is not None
    event: JsonObject = {"target": "said", "limit_usd": 100.0, "spent_usd": 99.0, "next_usd": 1.0}
    named = {} if name is None else {"name": report.run_id if name == "of the run" else name}
    append_event(Path(report.folder), "budget_stop", {**event, **named}, clock=lambda: datetime.now(UTC))
    assert load_spent(StoredRun(Path(report.folder))).usd == spent_usd


def test_budget_covers_judges_and_saves_no_partly_scored_row(server: FakeServer, tmp_path: Path) -> None:
    report = evaluate(
        cases(20), target=target(server), evaluators=[JUDGE], folder=tmp_path, budget_usd=60.0, workers=4, gates="none"
    )
    assert report.exit_code == 2
    assert not any(row.error for row in report.results)
    assert len(report.results) < 20
    answers = stored(report, "answers.jsonl")
    assert len(server.calls) == len(answers) + sum(len(row.evaluator_results[0].judge_calls) for row in report.results)
    assert all(row.evaluator_results[0].judge_calls for row in report.results)
    assert not any("error" in answer for answer in answers)


def test_a_budget_too_small_for_the_first_call_spends_nothing(server: FakeServer, tmp_path: Path) -> None:
    report = evaluate(cases(3), target=target(server), evaluators=[HAS], folder=tmp_path, budget_usd=0.001)
    assert (report.exit_code, len(server.calls), report.results) == (2, 0, ())
    assert "0 of 3 planned results are complete" in report.verdict.sentence


def test_a_budget_that_is_enough_changes_nothing(server: FakeServer, tmp_path: Path) -> None:
    report = evaluate(
        cases(6), target=target(server), evaluators=[HAS], folder=tmp_path, budget_usd=200.0, workers=3, gates="none"
    )
    assert (report.exit_code, len(report.results), report.state) == (0, 6, "finished")


def test_what_comes_from_the_cache_needs_no_budget(server: FakeServer, tmp_path: Path) -> None:
    def run(budget: float) -> RunReport:
        return evaluate(
            cases(3),
            target=target(server),
            evaluators=[HAS],
            folder=tmp_path,
            budget_usd=budget,
            cache="on",
            gates="none",
        )

    assert run(100.0).exit_code == 0
    again = run(0.001)
    assert (again.exit_code, len(again.results), len(server.calls)) == (0, 3, 3)


def test_unknown_price_is_rejected_before_any_call(server: FakeServer, tmp_path: Path) -> None:
    unpriced = target(server, price=None)
    with pytest.raises(ConfigError) as raised:
        evaluate(cases(1), target=unpriced, evaluators=[HAS], folder=tmp_path, budget_usd=1.0)
    message = str(raised.value)
    assert "needs a price for target 'fake' (openai, model 'm')" in message
    assert "`price: {input_per_million: 0, output_per_million: 0}`" in message
    assert server.calls == []


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf")])
def test_a_budget_is_an_amount(budget: float, server: FakeServer) -> None:
    with pytest.raises(ConfigError, match="budget_usd must be a finite number above 0"):
        evaluate(cases(1), target=target(server), evaluators=[HAS], budget_usd=budget)


def test_targets_that_cost_nothing_need_no_price(tmp_path: Path) -> None:
    report = evaluate(
        cases(2), target=TargetConfig("m", "mock", {"response": "said"}), evaluators=[HAS], folder=tmp_path,
        budget_usd=0.01,
    )  # fmt: skip
    assert report.exit_code == 0


def test_tokens_of_failed_tries_are_spent() -> None:
    tries = (CallRecord(kind="transport", started_at=datetime.now(UTC), usage=Usage(total=300)),) * 2

    async def run() -> float:
        budget = Budget(10.0)

        async def fail() -> ProviderResponse:
            raise ProviderError(Failure("transport", "gone"), calls=tries)

        with pytest.raises(ProviderError):
            await BudgetAccount(budget, "t", lambda usage: usage.total / 1000).pay(fail, estimate_usd=1.0)
        return budget.spent_usd

    assert asyncio.run(run()) == 0.6


@pytest.mark.parametrize(("budget", "code", "rows"), [(1e-6, 2, 0), (100.0, 0, 2)])
def test_models_that_make_vectors_are_paid_from_the_budget(
    server: FakeServer, tmp_path: Path, budget: float, code: int, rows: int
) -> None:
    model: JsonObject = {
        "provider": "openai",
        "model": "text-embedding-3-small",
        "base_url": f"{server.url}/v1",
        "price": PRICE,
    }
    near = EvaluatorConfig("near", "semantic_similarity", {"model": model})
    expected = (Message("assistant", "said something like it"),)
    report = evaluate(
        [replace(case, expected_messages=expected) for case in cases(2)],
        target=TargetConfig("m", "mock", {"response": "said"}),
        evaluators=[near],
        folder=tmp_path,
        budget_usd=budget,
        gates="none",
    )
    assert (report.exit_code, len(report.results)) == (code, rows)
    assert bool(server.calls) == bool(rows)


def test_judge_without_price_in_a_late_stream_line_is_not_called(server: FakeServer, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: mock, provider: mock, response: said}, "
        f"{{name: late, provider: openai, model: m, base_url: '{server.url}/v1'}}]"
    )
    has: JsonObject = {"name": "has", "type": "contains", "value": "said"}
    late: JsonObject = {"name": "late", "type": "llm_judge", "target": "late"}
    common = {"expected_outcome": "x", "input_messages": [{"role": "user", "content": "q"}]}
    lines = [
        json.dumps({"id": f"c{number}", **common, "evaluators": [has if number < 1100 else late]})
        for number in range(1101)
    ]
    (tmp_path / "suite.jsonl").write_text("\n".join(lines))
    report = evaluate(tmp_path / "suite.jsonl", target="mock", folder=tmp_path / ".agentv", budget_usd=1.0)
    failed = {row.eval_id: row.error.message for row in report.results if row.error is not None}
    assert list(failed) == ["c1100"]
    assert "needs a price for target" in failed["c1100"]
    assert server.calls == []


class SlowQuota:
    """A quota that decides at once and answers only when it is told to, as over a network."""

    def __init__(self) -> None:
        self.holder = InProcessQuota(lambda: 0.0, lease_s=2.0)
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        grant = await self.holder.exchange(request)
        await self.may_answer.wait()
        return grant

    async def aclose(self) -> None:
        return


def test_a_call_that_ends_while_money_is_requested_leaves_its_rest_for_the_next() -> None:
    async def run() -> tuple[list[BudgetStop], float]:
        quota, stops, is_answered = SlowQuota(), list[BudgetStop](), asyncio.Event()
        client = QuotaClient(quota, asyncio.get_running_loop().time)
        budget = Budget(0.5, stops.append, name="both", client=client)
        account = BudgetAccount(budget, "t", lambda _usage: None)

        async def cheap() -> ProviderResponse:
            await is_answered.wait()
            return ProviderResponse("", cost_usd=0.01)

        async with asyncio.TaskGroup() as group:
            account.record_cost(0.0)  # a cost is known, so that calls are concurrent
            group.create_task(account.pay(cheap, estimate_usd=0.3))
            await turns()
            quota.may_answer.clear()
            group.create_task(account.pay(cheap, estimate_usd=0.3))  # is refused beside the first one
            await turns()
            is_answered.set()
            await turns()
            quota.may_answer.set()
        await budget.aclose()
        return stops, budget.spent_usd

    async def turns() -> None:
        for _ in range(20):
            await asyncio.sleep(0)

    stops, spent_usd = asyncio.run(run())
    assert stops == []
    assert spent_usd == pytest.approx(0.02)


def test_the_first_answer_without_a_cost_stops_a_target_without_a_price(tmp_path: Path) -> None:
    asked: list[str] = []

    def task(request: ProviderRequest) -> ProviderResponse:
        asked.append(request.question)
        return ProviderResponse("said", cost_usd=None if len(asked) == 3 else 0.5)

    report = evaluate(cases(9), task=task, evaluators=[HAS], folder=tmp_path, budget_usd=50.0)
    assert (report.exit_code, len(asked), len(report.results)) == (2, 3, 3)
    assert "a call of target 'task' has no known cost" in report.verdict.sentence
    (event,) = (event for event in stored(report, "events.jsonl") if event["type"] == "budget_stop")
    assert (event["target"], event["spent_usd"], event["is_unpriced"]) == ("task", 1.5, True)


def test_a_negative_cost_does_not_defeat_a_budget(tmp_path: Path) -> None:
    asked: list[str] = []

    def task(request: ProviderRequest) -> ProviderResponse:
        asked.append(request.question)
        return ProviderResponse("said", cost_usd=-5.0 if len(asked) == 2 else 1.0)

    report = evaluate(cases(9), task=task, evaluators=[HAS], folder=tmp_path, budget_usd=4.0)
    assert (report.exit_code, len(asked)) == (2, 2)
    assert "a cost in its responses counts as unknown" in "".join(report.notes)


def test_a_call_of_unknown_cost_counts_as_its_reservation() -> None:
    async def run() -> float:
        account = BudgetAccount(Budget(4.0), "t", lambda usage: float(usage.total))

        async def call(cost: float | None) -> ProviderResponse:
            return ProviderResponse("", cost_usd=cost)

        for cost in (1.0, -5.0, 1.0):
            await account.pay(partial(call, cost), estimate_usd=0.0)
        return account.budget.spent_usd

    assert asyncio.run(run()) == 3.0


def test_time_outs_of_unknown_cost_stop_a_target_without_a_price() -> None:
    async def run() -> list[BudgetStop]:
        stops = list[BudgetStop]()
        account = BudgetAccount(Budget(1.0, stops.append), "t", lambda _usage: None, needs_costs=True)

        async def fail() -> ProviderResponse:
            raise ProviderError(Failure("target_timeout", "late"))

        with pytest.raises(ProviderError):
            await account.pay(fail, estimate_usd=0.0)
        return stops

    (stop,) = asyncio.run(run())
    assert stop.is_unpriced


TARGETS = """
targets:
  - {name: priced, provider: python, callable: "bot.py:answer", price: {input_per_million: 1, output_per_million: 1}}
  - {name: silent, provider: python, callable: "bot.py:answer"}
  - {name: model, provider: openai, model: m, base_url: "http://localhost:1/v1", api_key: none}
  - {name: page, provider: http, url: "http://localhost:1?q={{ question }}", response: "$.a"}
  - {name: meter, provider: http, url: "http://localhost:1?q={{ question }}", response: "$.a", cost: "$.cost"}
"""


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "bot.py").write_text("def answer(question):\n    return 'said'\n")
    (tmp_path / "targets.yaml").write_text(TARGETS)
    case = "input_messages: [{role: user, content: q}]"
    evaluators = "evaluators: [{name: has, type: contains, value: said}]"
    for name, budget in (("limited", "budget_usd: 2, "), ("other", "")):
        execution = f"execution: {{{budget}target: silent, {evaluators}}}"
        (tmp_path / f"{name}.yaml").write_text(f"{execution}\nevalcases: [{{id: a, {case}}}, {{id: b, {case}}}]\n")
    return tmp_path


@pytest.mark.parametrize("target", ["model", "page"])
def test_a_budget_in_a_file_is_rejected_like_that_of_the_command(suites: Path, target: str) -> None:
    with pytest.raises(ConfigError, match=f"needs a price for target '{target}'"):
        evaluate(str(suites / "limited.yaml"), target=target)


def test_a_budget_in_a_file_stops_at_an_answer_without_a_cost(suites: Path) -> None:
    report = evaluate(str(suites / "limited.yaml"))
    assert (report.exit_code, len(report.results)) == (2, 1)
    assert "the budget of $2 cannot be enforced" in report.verdict.sentence


def test_a_budget_of_one_file_is_that_of_the_whole_run(suites: Path) -> None:
    report = evaluate(str(suites))
    assert report.exit_code == 2
    assert any("other.yaml: the file has no `budget_usd`; the budget of $2 is that" in note for note in report.notes)
