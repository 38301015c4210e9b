"""Every holder of leases keeps the same laws, on a clock that the test owns."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.postgres_server import upgraded_database
from tests.support.quotas import Process, most_in_a_window

from agentv.execution.quota_journal import JournaledBook
from agentv.execution.quotas import InProcessQuota
from agentv.storage.postgres.connection import connect
from agentv.storage.postgres.quotas import PostgresQuota
from agentv.templating.store_url import StoreUrl, parse_store_url
from agentv.types.protocols import LEASE_S, Amounts, LeaseUse, QuotaGrant, QuotaLimits, QuotaRequest, QuotaService


@dataclass
class Stage:
    """A holder of leases and its clock, which `set_clock` moves where the holder has a clock of its own."""

    quota: QuotaService
    now: float = 0.0
    set_clock: Callable[[float], None] = lambda _now: None

    async def let_pass(self, seconds: float) -> None:
        self.now += seconds
        self.set_clock(self.now)

    def process(self, limits: QuotaLimits, *, account: str = "account", name: str = "process") -> Process:
        return Process(self.quota, limits, account=account, name=name)


@asynccontextmanager
async def in_process() -> AsyncIterator[Stage]:
    stage: Stage
    stage = Stage(InProcessQuota(lambda: stage.now, lease_s=LEASE_S))
    yield stage


@cache
def database() -> StoreUrl:
    """Return a database with a clock that stands still: the function that tells its time reads a table."""
    url = parse_store_url(upgraded_database())
    with connect(url) as connection:
        connection.execute("CREATE TABLE clock AS SELECT timestamptz '2026-01-31 12:00Z' AS now")
        connection.execute(
            "CREATE OR REPLACE FUNCTION agentv.quota_now() RETURNS timestamptz LANGUAGE sql VOLATILE "
            "AS $$ SELECT now FROM public.clock $$"
        )
    return url


@asynccontextmanager
async def in_postgres() -> AsyncIterator[Stage]:
    url = database()
    with connect(url) as connection:
        connection.execute("TRUNCATE agentv.quota_leases, agentv.quota_accounts")

        def set_clock(now: float) -> None:
            connection.execute("UPDATE clock SET now = timestamptz '2026-01-31 12:00Z' + %s * interval '1 s'", [now])

        set_clock(0.0)
        quota = PostgresQuota(url)
        try:
            yield Stage(quota, set_clock=set_clock)
        finally:
            await quota.aclose()


class KilledBook:
    """A journaled book whose process is killed and started again after every second exchange, as a part of a minute."""

    def __init__(self, path: Path, now: Callable[[], float]) -> None:
        self._path, self._now = path, now
        self._exchanges = 0

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        if self._exchanges % 2 == 0:
            await self.aclose()
            self._book = JournaledBook(self._path, self._now, lease_s=LEASE_S)
        self._exchanges += 1
        return self._book.exchange(request)

    async def aclose(self) -> None:
        if self._exchanges:
            self._book.close()


@asynccontextmanager
async def in_a_journal() -> AsyncIterator[Stage]:
    stage: Stage
    with TemporaryDirectory() as folder:
        quota = KilledBook(Path(folder, "journal"), lambda: stage.now)
        stage = Stage(quota)
        yield stage
        await quota.aclose()


OpenStage = Callable[[], AbstractAsyncContextManager[Stage]]
STAGES: dict[str, OpenStage] = {"in process": in_process, "killed": in_a_journal, "postgres": in_postgres}

stages = pytest.mark.parametrize("open_stage", STAGES.values(), ids=STAGES)


@stages
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(limit=st.integers(1, 90), crashes=st.sampled_from([0.0, 0.05]), seed=st.integers(0, 2**32))
def test_no_window_has_more_requests_than_the_limit_when_processes_crash(
    open_stage: OpenStage, limit: int, crashes: float, seed: int
) -> None:
    """Three processes want all they can get, and use it now, later, or never; sometimes one is killed."""

    async def run() -> list[float]:
        rng, times = random.Random(seed), list[float]()
        async with open_stage() as stage:
            processes = [stage.process(QuotaLimits(requests=limit), name=str(number)) for number in range(3)]
            while stage.now < 140:
                process = rng.choice(processes)
                if rng.random() < crashes:
                    process.crash()
                if not process.left or stage.now >= process.expires_at:
                    await process.draw(stage.now)
                for _ in range(rng.randint(0, process.left)):
                    times += [stage.now] if process.use(stage.now) else []
                await stage.let_pass(rng.choice([0.01, 0.3, 0.6, 1.9]))
        return times

    times = asyncio.run(run())
    assert most_in_a_window(times) <= limit
    assert crashes or len(times) > limit, "the limit is what bounds them"


@stages
@pytest.mark.parametrize(("limit", "block"), [(10, 1), (300, 10), (6000, 100)])
def test_a_lease_is_a_block_and_the_pace_allows_the_next_after_its_time(
    open_stage: OpenStage, limit: int, block: int
) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            process = stage.process(QuotaLimits(requests=limit))
            assert await process.draw(stage.now) == block
            while process.use(stage.now):
                pass
            while await process.draw(stage.now):
                while process.use(stage.now):
                    pass
            grant = await process.exchange(Amounts(1), Amounts(block))
            assert grant.granted == Amounts()
            assert grant.wait_s is not None
            assert 0 < grant.wait_s <= 60 / limit * block
            await stage.let_pass(60 / limit * block)
            assert await process.draw(stage.now) == block

    asyncio.run(run())


@stages
def test_what_was_given_back_is_free_and_what_a_dead_process_had_is_not(open_stage: OpenStage) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            one, other = (stage.process(QuotaLimits(requests=30), name=name) for name in ("one", "other"))
            for _ in range(30):
                assert await one.draw(stage.now) == 1
                await one.give_back()
                await stage.let_pass(0.01)
            for _ in range(30):
                assert await one.draw(stage.now) == 1
                one.crash()
                await stage.let_pass(2.0)
            assert await other.draw(stage.now) == 0, "30 are counted as used, the first until 62 s after its grant"
            await stage.let_pass(2.5)
            assert await other.draw(stage.now) == 1

    asyncio.run(run())


@stages
def test_a_refusal_stops_every_process_of_the_account_and_no_other(open_stage: OpenStage) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            limits = QuotaLimits(requests=600)
            refused, other = stage.process(limits), stage.process(limits)
            stranger = stage.process(limits, account="another")
            await refused.exchange(hold_s=5.0)
            grant = await other.exchange(Amounts(1))
            assert grant.granted == Amounts()
            assert grant.wait_s == pytest.approx(5.0, abs=0.1)
            assert await stranger.draw(stage.now) == 20
            await stage.let_pass(5.1)
            assert await other.draw(stage.now) == 20

    asyncio.run(run())


@stages
def test_tokens_are_reserved_then_settled_and_an_overrun_is_a_debt(open_stage: OpenStage) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            process = stage.process(QuotaLimits(tokens=1000.0))
            assert (await process.exchange(Amounts(1, 600.0), lease="first")).granted.tokens == 600.0
            refused = await process.exchange(Amounts(1, 600.0))
            assert refused.granted == Amounts()
            fewer = (LeaseUse("first", Amounts(1, 100.0)),)
            assert (await process.exchange(Amounts(1, 600.0), lease="second", uses=fewer)).granted.tokens == 600.0
            more = (LeaseUse("second", Amounts(1, 2500.0)),)
            assert (await process.exchange(Amounts(1, 1.0), uses=more)).granted == Amounts()
            await stage.let_pass(59.0)
            assert (await process.exchange(Amounts(1, 1.0))).granted == Amounts()
            await stage.let_pass(1.5)
            assert (await process.exchange(Amounts(1, 1000.0))).granted.tokens == 1000.0

    asyncio.run(run())


@stages
def test_a_repeated_report_changes_nothing_and_an_unknown_one_is_a_debt(open_stage: OpenStage) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            process = stage.process(QuotaLimits(tokens=1000.0))
            await process.exchange(Amounts(1, 600.0), lease="first")
            report = (LeaseUse("first", Amounts(1, 500.0)),)
            await process.exchange(uses=report)
            await process.exchange(uses=report)
            await process.exchange(uses=(LeaseUse("late", Amounts(0, 300.0)),))
            await process.exchange(uses=(LeaseUse("late", Amounts(0, 300.0)),))
            assert (await process.exchange(Amounts(1, 201.0))).granted == Amounts()
            assert (await process.exchange(Amounts(1, 200.0))).granted.tokens == 200.0

    asyncio.run(run())


MONEY = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(["draw", "draw", "renew", "end", "crash"]),
        st.floats(0.001, 0.4),
        st.floats(0.0, 3.0),
    ),
    max_size=60,
)


@stages
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=MONEY)
def test_processes_never_lease_more_than_their_budget(
    open_stage: OpenStage, steps: list[tuple[int, str, float, float]]
) -> None:
    """Each process spends what it was granted, or a part of that; a crash loses the rest."""

    async def run() -> None:
        async with open_stage() as stage:
            process = stage.process(QuotaLimits(usd=1.0), account="budget")
            spent, granted = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
            names = ["a", "b", "c"]
            lost = 0.0
            for number, step, usd, seconds in steps:
                match step:
                    case "draw":
                        grant = await process.exchange(Amounts(usd=usd), lease=names[number])
                        granted[number] += grant.granted.usd
                    case "renew" | "end":
                        spent[number] += (granted[number] - spent[number]) * min(1.0, usd * 2)
                        granted[number] = spent[number]
                        use = LeaseUse(names[number], Amounts(usd=spent[number]), is_over=step == "end")
                        await process.exchange(uses=(use,))
                    case _:
                        lost += granted[number]
                        names[number] += "'"
                        spent[number] = granted[number] = 0.0
                assert sum(granted) + lost <= 1.0 + 1e-6
                await stage.let_pass(seconds)

    asyncio.run(run())


@stages
def test_money_is_waited_for_while_a_living_process_has_some(open_stage: OpenStage) -> None:
    async def run() -> None:
        async with open_stage() as stage:
            one, other = (stage.process(QuotaLimits(usd=1.0), name=name) for name in ("one", "other"))
            assert (await one.exchange(Amounts(usd=0.2), Amounts(usd=0.9), lease="of one")).granted.usd == 0.9
            waiting = await other.exchange(Amounts(usd=0.2))
            assert waiting.granted == Amounts()
            assert waiting.wait_s is not None
            assert 0 < waiting.wait_s <= LEASE_S
            await stage.let_pass(1.5)
            await one.exchange(uses=(LeaseUse("of one", Amounts(usd=0.9), is_over=False),))
            await stage.let_pass(1.5)
            assert (await other.exchange(Amounts(usd=0.2))).wait_s is not None, "it was renewed"
            await stage.let_pass(1.0)
            exhausted = await other.exchange(Amounts(usd=0.2))
            assert exhausted.wait_s is None, "a dead process gives nothing back"
            assert exhausted.spent_usd == pytest.approx(0.9)
            assert (await other.exchange(Amounts(usd=0.1))).granted.usd == pytest.approx(0.1)

    asyncio.run(run())
