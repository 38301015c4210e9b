"""The limiters of several processes that lease from one quota, in virtual time."""

import asyncio
import random
from dataclasses import dataclass, field

import pytest
from tests.support.quotas import in_window, most_in_a_window
from tests.support.virtual_time import let_pass, run_virtually

from agentv.execution.limits import AccountLimiter
from agentv.execution.quotas import (
    PATIENCE_S,
    RETRY_S,
    InProcessQuota,
    LeasedMoney,
    LeasedPermits,
    MoneyInUse,
    QuotaClient,
)
from agentv.types.errors import QuotaError
from agentv.types.protocols import LEASE_S, QuotaGrant, QuotaRequest, QuotaService


def limiter_on(quota: QuotaService, *, per_minute: float | None = None, tokens: float | None = None) -> AccountLimiter:
    now = asyncio.get_running_loop().time
    leased = LeasedPermits(QuotaClient(quota, now), "account")
    return AccountLimiter(now=now, requests_per_minute=per_minute, tokens_per_minute=tokens, leased=leased)


@dataclass
class Fleet:
    """Processes that call as fast as their common quota allows, for `seconds`; some crash and are started again."""

    per_minute: int
    processes: int
    seconds: float
    crashes: bool = False
    times: list[float] = field(default_factory=list)

    async def run(self) -> None:
        quota = InProcessQuota(asyncio.get_running_loop().time, lease_s=LEASE_S)
        async with asyncio.TaskGroup() as group:
            for number in range(self.processes):
                group.create_task(self._process(quota, random.Random(number)))

    async def _process(self, quota: QuotaService, rng: random.Random) -> None:
        now = asyncio.get_running_loop().time
        while now() < self.seconds:
            limiter = limiter_on(quota, per_minute=self.per_minute)
            ends_at = now() + rng.uniform(5, 40) if self.crashes else self.seconds
            workers = [asyncio.create_task(self._worker(limiter, rng)) for _ in range(16)]
            await let_pass(min(ends_at, self.seconds) - now())
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _worker(self, limiter: AccountLimiter, rng: random.Random) -> None:
        while True:
            permit = await limiter.acquire()
            self.times.append(asyncio.get_running_loop().time())
            await let_pass(rng.uniform(0.05, 0.4))
            permit.done()


@pytest.mark.parametrize("per_minute", [20, 300, 3000])
@pytest.mark.parametrize("processes", [1, 3, 5])
def test_processes_use_one_quota_almost_fully_and_never_more(per_minute: int, processes: int) -> None:
    fleet = Fleet(per_minute, processes, seconds=240)
    run_virtually(fleet.run())
    assert most_in_a_window(fleet.times) <= per_minute
    assert min(in_window(fleet.times, start) for start in range(180)) >= 0.9 * per_minute


def test_crashes_of_processes_break_no_window() -> None:
    fleet = Fleet(120, processes=4, seconds=300, crashes=True)
    run_virtually(fleet.run())
    assert most_in_a_window(fleet.times) <= 120
    assert len(fleet.times) > 300


def test_permits_that_are_not_used_are_free_for_others_when_they_expire() -> None:
    async def work() -> float:
        quota = InProcessQuota(asyncio.get_running_loop().time, lease_s=LEASE_S)
        idle, busy = (limiter_on(quota, per_minute=60) for _ in range(2))
        for _ in range(30):
            (await idle.acquire()).done()
            await let_pass(LEASE_S)
        for _ in range(25):
            (await busy.acquire()).done()
        return asyncio.get_running_loop().time()

    assert run_virtually(work()) < 60 + 30


def test_a_refusal_of_one_process_stops_the_others() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        quota = InProcessQuota(loop.time, lease_s=LEASE_S)
        one, other = (limiter_on(quota, per_minute=600) for _ in range(2))
        (await one.acquire()).done(refused=True, retry_after_s=30)
        await let_pass(0)
        await other.acquire()
        return loop.time()

    assert run_virtually(work()) >= 30


def test_tokens_that_a_process_used_too_many_delay_the_others() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        quota = InProcessQuota(loop.time, lease_s=LEASE_S)
        one, other = (limiter_on(quota, tokens=6000) for _ in range(2))
        permit = await one.acquire(tokens=100)
        await let_pass(5)
        permit.done(used_tokens=9000)
        await let_pass(LEASE_S)
        await other.acquire(tokens=100)
        return loop.time()

    assert run_virtually(work()) >= 60


def test_tokens_that_a_process_used_less_are_free_for_others() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        quota = InProcessQuota(loop.time, lease_s=LEASE_S)
        one, other = (limiter_on(quota, tokens=6000) for _ in range(2))
        (await one.acquire(tokens=5800)).done(used_tokens=10)
        await let_pass(LEASE_S + 1)
        await other.acquire(tokens=5000)
        return loop.time()

    assert run_virtually(work()) <= LEASE_S + 2


@dataclass
class Silent:
    """A holder of leases that does not answer from one time until another."""

    inner: QuotaService
    since: float
    until: float

    async def exchange(self, request: QuotaRequest) -> QuotaGrant:
        now = asyncio.get_running_loop().time()
        if self.since <= now < self.until:
            await let_pass(self.until - now)
        return await self.inner.exchange(request)

    async def aclose(self) -> None: ...

    def __str__(self) -> str:
        return "the shared quota"


def test_calls_stop_within_one_expiry_of_a_silent_quota_and_go_on_after() -> None:
    async def work() -> list[float]:
        loop = asyncio.get_running_loop()
        said: list[str] = []
        quota = Silent(InProcessQuota(loop.time, lease_s=LEASE_S), since=10, until=30)
        leased = LeasedPermits(QuotaClient(quota, loop.time, on_unanswered=said.append), "account")
        limiter = AccountLimiter(now=loop.time, requests_per_minute=600, leased=leased)
        times = []
        while loop.time() < 40:
            (await limiter.acquire()).done()
            times.append(loop.time())
        assert [message.partition(";")[0] for message in said] == [
            "the shared quota does not answer within 2 s",
            "the shared quota answers again",
        ]
        return times

    times = run_virtually(work())
    assert not [time for time in times if 10 + LEASE_S < time < 30]
    assert len([time for time in times if time >= 30]) > 90


def test_a_quota_that_stays_silent_fails_the_call() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        lost: list[str] = []
        client = QuotaClient(Silent(InProcessQuota(loop.time), since=0, until=1e6), loop.time, on_loss=lost.append)
        leased = LeasedPermits(client, "account")
        limiter = AccountLimiter(now=loop.time, requests_per_minute=600, leased=leased)
        for _ in range(2):
            with pytest.raises(QuotaError, match="the shared quota has not answered for 60 s"):
                await limiter.acquire()
        assert len(lost) == 1
        return loop.time()

    assert run_virtually(work()) <= PATIENCE_S + LEASE_S + RETRY_S + 0.1


@dataclass
class Spender:
    """A process that pays calls from a budget; each reserves 0.01 and costs that."""

    money: LeasedMoney
    spent: float = 0.0
    calls: int = 0
    in_flight: int = 0

    @staticmethod
    def on(client: QuotaClient, limit_usd: float) -> "Spender":
        spender: Spender

        def in_use() -> MoneyInUse:
            usd = spender.spent + 0.01 * spender.in_flight
            return MoneyInUse(usd, spender.calls, spender.in_flight)

        spender = Spender(LeasedMoney(client, "budget", limit_usd, in_use))
        return spender

    async def call(self, seconds: float) -> bool:
        """Pay one call, which takes so many seconds; False when the budget has no room."""
        while self.spent + 0.01 * (self.in_flight + 1) > self.money.leased_usd + 1e-9:
            wait_s = await self.money.draw(0.01)
            if wait_s is None:
                return False
            await let_pass(wait_s)
        self.in_flight += 1
        self.calls += 1
        await let_pass(seconds)
        self.in_flight -= 1
        self.spent += 0.01
        return True


def test_processes_spend_a_common_budget_to_the_end_and_no_more() -> None:
    async def work() -> list[float]:
        now = asyncio.get_running_loop().time
        client = QuotaClient(InProcessQuota(now, lease_s=LEASE_S), now)
        spenders = [Spender.on(client, 1.0) for _ in range(3)]

        async def spend(spender: Spender, seconds: float) -> None:
            while await spender.call(seconds):
                pass
            await spender.money.aclose()

        async with asyncio.TaskGroup() as group:
            for spender, seconds in zip(spenders, (0.1, 1.0, 7.0), strict=True):
                group.create_task(spend(spender, seconds))
        return [spender.spent for spender in spenders]

    spent = run_virtually(work())
    assert sum(spent) == pytest.approx(1.0)
    assert min(spent) > 0.0


def test_a_long_call_keeps_its_money_and_idle_money_returns() -> None:
    async def work() -> None:
        now = asyncio.get_running_loop().time
        client = QuotaClient(InProcessQuota(now, lease_s=LEASE_S), now)
        long, other = (Spender.on(client, 0.6) for _ in range(2))
        assert await long.call(0.1)
        assert long.money.leased_usd == pytest.approx(0.02), "a block is a thirtieth"
        task = asyncio.create_task(long.call(60.0))
        await let_pass(5.0)
        assert long.money.leased_usd == pytest.approx(0.02)
        for _ in range(58):
            assert await other.call(0.0)
        refused = asyncio.create_task(other.call(0.0))
        await let_pass(20.0)
        assert not refused.done(), "the long call may still cost less"
        await task
        assert not await refused
        await long.money.aclose()
        await other.money.aclose()

    run_virtually(work())


def test_a_process_that_died_with_money_is_not_waited_for() -> None:
    async def work() -> float:
        now = asyncio.get_running_loop().time
        quota = InProcessQuota(now, lease_s=LEASE_S)
        dead = Spender.on(QuotaClient(quota, now), 0.02)
        assert await dead.money.draw(0.01) == 0.0
        assert dead.money._renewal is not None
        dead.money._renewal.cancel()
        living = Spender.on(QuotaClient(quota, now), 0.02)
        assert await living.call(0.0)
        started = now()
        assert not await living.call(0.0)
        return now() - started

    assert run_virtually(work()) <= LEASE_S + 0.6
