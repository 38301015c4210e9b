"""The limiter against servers with the rate limits of real vendors, in virtual time."""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import pytest
from tests.support.virtual_time import let_pass, run_virtually

from agentv.execution.limits import TOLERATED_REFUSALS, AccountLimiter
from agentv.types.provider import Quota

LATENCY_S = 0.4


class Server(Protocol):
    def accepts(self, now: float) -> bool: ...

    def retry_after_s(self, now: float) -> float | None: ...

    def quota(self) -> Quota | None: ...


@dataclass
class TokenBucket:
    """Refills all the time and holds at most `capacity` requests; reports its quota if `reports_quota`."""

    per_minute: float
    capacity: float
    reports_quota: bool = False
    level: float = math.nan
    filled_at: float = 0.0

    def accepts(self, now: float) -> bool:
        level = self.capacity if math.isnan(self.level) else self.level
        self.level = min(self.capacity, level + (now - self.filled_at) * self.per_minute / 60)
        self.filled_at = now
        # The float dust of virtual time must not refuse a call that came exactly in time.
        if self.level < 1 - 1e-6:
            return False
        self.level -= 1
        return True

    def retry_after_s(self, _now: float) -> float | None:
        return None

    def quota(self) -> Quota | None:
        return Quota(limit_requests=self.per_minute, remaining_requests=self.level) if self.reports_quota else None


@dataclass
class SlidingWindow:
    """Accepts `per_minute` requests in any sixty seconds, and sends a retry delay."""

    per_minute: int
    reports_quota: bool = False
    times: deque[float] = field(default_factory=deque)

    def accepts(self, now: float) -> bool:
        while self.times and self.times[0] <= now - 60:
            self.times.popleft()
        if len(self.times) >= self.per_minute:
            return False
        self.times.append(now)
        return True

    def retry_after_s(self, now: float) -> float | None:
        return max(1.0, self.times[0] + 60 - now)

    def quota(self) -> Quota | None:
        left = self.per_minute - len(self.times)
        return Quota(limit_requests=self.per_minute, remaining_requests=left) if self.reports_quota else None


@dataclass
class FixedWindow:
    """Accepts so many requests in each minute of the clock."""

    per_minute: int
    window: int = -1
    count: int = 0

    def accepts(self, now: float) -> bool:
        if int(now // 60) != self.window:
            self.window, self.count = int(now // 60), 0
        self.count += 1
        return self.count <= self.per_minute

    def retry_after_s(self, now: float) -> float | None:
        return 60 - now % 60

    def quota(self) -> Quota | None:
        return None


@dataclass
class Outcome:
    took_s: float
    calls: int
    refused: int

    @property
    def refused_share(self) -> float:
        return self.refused / self.calls


def drive(
    server: Server, *, calls: int, workers: int, requests_per_minute: float | None = None, refusal_s: float = LATENCY_S
) -> Outcome:
    """Make so many accepted calls with so many workers, each refused one tried again. A refusal takes `refusal_s`."""

    async def work() -> Outcome:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        limiter.add_target(requests_per_minute=requests_per_minute, tokens_per_minute=None, workers=workers)
        rng = random.Random(1)
        left, tried, refused = calls, 0, 0

        async def worker() -> None:
            nonlocal left, tried, refused
            while left > 0:
                left -= 1
                accepted = False
                while not accepted:
                    permit = await limiter.acquire()
                    tried += 1
                    accepted = server.accepts(loop.time())
                    await let_pass((LATENCY_S if accepted else refusal_s) * rng.uniform(0.5, 1.5))
                    if accepted:
                        permit.done(quota=server.quota())
                    else:
                        refused += 1
                        permit.done(refused=True, retry_after_s=server.retry_after_s(loop.time()))

        async with asyncio.TaskGroup() as tasks:
            for _ in range(workers):
                tasks.create_task(worker())
        return Outcome(loop.time(), tried, refused)

    return run_virtually(work())


SERVERS: dict[str, Callable[[], Server]] = {
    "bucket": lambda: TokenBucket(300, capacity=300),
    "bucket of one second": lambda: TokenBucket(300, capacity=5),
    "sliding window": lambda: SlidingWindow(300),
    "fixed window": lambda: FixedWindow(300),
}
IDEAL_S = 3000 / 300 * 60


@pytest.mark.parametrize("make", SERVERS.values(), ids=SERVERS)
def test_a_configured_limit_is_used_almost_fully_and_rarely_refused(make: Callable[[], Server]) -> None:
    outcome = drive(make(), calls=3000, workers=16, requests_per_minute=300)
    assert outcome.took_s <= IDEAL_S * 1.1
    assert outcome.refused_share < 0.01


@pytest.mark.parametrize(
    "server",
    [TokenBucket(300, capacity=300, reports_quota=True), SlidingWindow(300, reports_quota=True)],
    ids=["bucket", "window"],
)
def test_a_limit_from_quota_headers_serves_as_well(server: Server) -> None:
    outcome = drive(server, calls=3000, workers=16)
    assert outcome.took_s <= IDEAL_S * 1.1
    assert outcome.refused_share < 0.01


@pytest.mark.parametrize("make", SERVERS.values(), ids=SERVERS)
def test_an_unknown_limit_is_learned_with_less_than_a_tenth_refused(make: Callable[[], Server]) -> None:
    outcome = drive(make(), calls=3000, workers=16)
    assert outcome.refused_share < 0.1
    assert outcome.took_s < IDEAL_S * 2, "it must not get lost in being careful"


@dataclass
class Flaky:
    """Has no limit, but refuses some calls at random."""

    share: float
    delay_s: float | None
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    def accepts(self, _now: float) -> bool:
        return self.rng.random() >= self.share

    def retry_after_s(self, _now: float) -> float | None:
        return self.delay_s

    def quota(self) -> Quota | None:
        return None


@pytest.mark.parametrize("delay_s", [0.0, 0.5, None], ids=["retry at once", "retry soon", "no delay given"])
@pytest.mark.parametrize(("share", "at_most"), [(0.01, 1.1), (0.05, 1.2)])
@pytest.mark.parametrize("refusal_s", [LATENCY_S, 0.002], ids=["refused late", "refused at once"])
def test_a_few_refusals_without_a_limit_behind_them_do_not_slow_a_run_down(
    share: float, at_most: float, delay_s: float | None, refusal_s: float
) -> None:
    smooth = drive(Flaky(0.0, None), calls=3000, workers=50)
    outcome = drive(Flaky(share, delay_s), calls=3000, workers=50, refusal_s=refusal_s)
    assert outcome.took_s <= smooth.took_s * at_most


@dataclass
class FirstRefused(Flaky):
    """Refuses three of the first calls, before it has answered any other, and then one in a hundred."""

    number: int = 0

    def accepts(self, now: float) -> bool:
        self.number += 1
        return self.number not in (3, 17, 31) and super().accepts(now)


def test_refusals_that_overtake_the_first_answers_do_not_slow_a_run_down() -> None:
    smooth = drive(Flaky(0.0, None), calls=1500, workers=50)
    outcome = drive(FirstRefused(0.01, 0.0), calls=1500, workers=50, refusal_s=0.002)
    assert outcome.took_s <= smooth.took_s * 1.1


def test_one_refusal_with_a_long_delay_stops_all_calls_for_that_long_but_not_longer() -> None:
    class Once(Flaky):
        def accepts(self, now: float) -> bool:  # noqa: ARG002 - a server's signature
            self.share, was_refused = self.share + 1, self.share == 100
            return not was_refused

    smooth = drive(Flaky(0.0, None), calls=3000, workers=50)
    outcome = drive(Once(0, 30.0), calls=3000, workers=50)
    assert smooth.took_s + 28 <= outcome.took_s <= smooth.took_s * 1.1 + 30


def test_without_a_limiter_most_calls_are_refused() -> None:
    """The control: the same workers with nothing in between."""

    async def work() -> float:
        loop = asyncio.get_running_loop()
        server, left, tried = TokenBucket(300, capacity=5), 600, 0

        async def worker() -> None:
            nonlocal left, tried
            while left > 0:
                left -= 1
                accepted = False
                while not accepted:
                    tried += 1
                    accepted = server.accepts(loop.time())
                    await let_pass(LATENCY_S)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(16):
                tasks.create_task(worker())
        return (tried - 600) / tried

    assert run_virtually(work()) > 0.5


def test_tokens_are_estimated_before_and_corrected_after() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time, tokens_per_minute=60_000)
        for _ in range(100):
            permit = await limiter.acquire(tokens=100)
            permit.done(used_tokens=1000)
        return loop.time()

    took_s = run_virtually(work())
    assert took_s == pytest.approx(100 * 1000 / 60_000 * 60, rel=0.1)


def test_a_call_larger_than_the_bucket_goes_through_when_it_is_full() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time, tokens_per_minute=600)
        for _ in range(3):
            (await limiter.acquire(tokens=5000)).done(used_tokens=5000)
        return loop.time()

    assert run_virtually(work()) == pytest.approx(2 * 5000 / 600 * 60, rel=0.1)


def test_concurrency_halves_at_a_refusal_and_never_exceeds_the_workers() -> None:
    async def work() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        limiter.add_target(requests_per_minute=None, tokens_per_minute=None, workers=8)
        permits = [await limiter.acquire() for _ in range(8)]
        before = limiter.in_flight
        for permit in permits:
            permit.done(refused=True, retry_after_s=5)
        permits = [await limiter.acquire()]
        started = loop.time()
        waiting = [asyncio.create_task(limiter.acquire()) for _ in range(8)]
        await let_pass(600)
        assert started >= 5
        after = limiter.in_flight
        for task in waiting:
            task.cancel()
        return before, after

    assert run_virtually(work()) == (8, 4)


def test_everybody_waits_as_long_as_the_server_asks() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        (await limiter.acquire()).done(refused=True, retry_after_s=30)
        await limiter.acquire()
        return loop.time()

    assert run_virtually(work()) >= 30


def test_every_request_of_a_dialogue_counts_against_the_pace() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time, requests_per_minute=60)
        for _ in range(10):
            (await limiter.acquire()).done(requests=3)
        await limiter.acquire()
        return loop.time()

    assert run_virtually(work()) == pytest.approx(30, rel=0.1)


async def refuse_often(limiter: AccountLimiter) -> None:
    """Refuse so many calls in a row that the limiter takes it for a limit."""
    for _ in range(TOLERATED_REFUSALS + 1):
        (await limiter.acquire()).done(refused=True, retry_after_s=1)


def test_a_call_that_failed_gives_no_reason_to_go_faster() -> None:
    async def work(refused: bool | None) -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        await refuse_often(limiter)
        for _ in range(200):
            (await limiter.acquire()).done(refused=refused)
        return loop.time()

    assert run_virtually(work(refused=False)) < run_virtually(work(refused=None)) / 1.2


def test_a_learned_pace_recovers_from_calls_of_many_requests_too() -> None:
    async def work(requests: int) -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        await refuse_often(limiter)
        for _ in range(840 // requests):
            (await limiter.acquire()).done(requests=requests)
        return loop.time()

    assert run_virtually(work(7)) == pytest.approx(run_virtually(work(1)), rel=0.1)


def test_a_cancelled_waiter_does_not_block_the_others() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time, requests_per_minute=60)
        (await limiter.acquire()).done()
        waiting = asyncio.create_task(limiter.acquire())
        await let_pass(0.1)
        waiting.cancel()
        (await limiter.acquire()).done()
        return loop.time()

    assert run_virtually(work()) == pytest.approx(1.0, rel=0.1)


def test_a_new_call_does_not_overtake_a_waiting_one() -> None:
    async def work() -> bool:
        limiter = AccountLimiter(now=asyncio.get_running_loop().time, max_concurrency=1)
        first = limiter.acquire_now()
        assert first is not None
        waiting = asyncio.create_task(limiter.acquire())
        await let_pass(0.1)
        first.done()  # there is room now, but the waiting call has not noticed it yet
        overtaking = limiter.acquire_now()
        await waiting
        return overtaking is not None

    assert not run_virtually(work())


def test_no_limit_costs_no_waiting() -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        for _ in range(1000):
            (await limiter.acquire()).done()
        return loop.time()

    assert run_virtually(work()) == 0.0


@pytest.mark.parametrize(("retry_after_s", "at_most_s"), [(None, 110), (0.01, 25)])
def test_a_server_that_refuses_everything_does_not_hold_a_run_up_for_ever(
    retry_after_s: float | None, at_most_s: float
) -> None:
    async def work() -> float:
        loop = asyncio.get_running_loop()
        limiter = AccountLimiter(now=loop.time)
        for _ in range(20):
            permit = await limiter.acquire()
            await let_pass(0.01)
            permit.done(refused=True, retry_after_s=retry_after_s)
        return loop.time()

    assert run_virtually(work()) <= at_most_s


def test_few_calls_run_out_of_retries_at_a_limit_that_refuses_at_once() -> None:
    async def work() -> int:
        loop = asyncio.get_running_loop()
        limiter, server = AccountLimiter(now=loop.time), TokenBucket(300, capacity=5)
        limiter.add_target(requests_per_minute=None, tokens_per_minute=None, workers=50)
        rng = random.Random(1)
        left, lost = 1500, 0

        async def accepted_attempt() -> bool:
            permit = await limiter.acquire()
            accepted = server.accepts(loop.time())
            await let_pass(LATENCY_S if accepted else 0.01)
            permit.done(refused=not accepted)
            return accepted

        async def worker() -> None:
            nonlocal left, lost
            while left > 0:
                left -= 1
                for retry in range(4):
                    if await accepted_attempt():
                        break
                    await let_pass(2**retry * rng.uniform(0.75, 1.25))
                else:
                    lost += 1

        async with asyncio.TaskGroup() as tasks:
            for _ in range(50):
                tasks.create_task(worker())
        return lost

    assert run_virtually(work()) <= 3
