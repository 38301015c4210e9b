"""Rate limits of one account: a pace for requests and tokens, and a concurrency that adapts to refusals.

All targets that use an account (provider, address, key) share one limiter. Times are seconds of the clock that is
passed in, so that tests need not wait.
"""

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable

from msgspec import Struct

from agentv.execution.quotas import HeldLease, InProcessQuota, LeasedPermits, QuotaClient
from agentv.types.protocols import QuotaLimits
from agentv.types.provider import Quota

MINUTE_S = 60.0
HEADROOM = 0.98
"""The share of a known limit that is used. The rest absorbs jitter: a refused call costs more than 2 % of the pace."""

ROUNDING = 1e-9
"""A smaller debt is a rounding error and causes no sleep."""

RECENT_CALLS = 20
TOLERATED_REFUSALS = 2
TOLERATED_SHARE = 0.15
"""Refusals show a limit if they are more than 2, and more than 15 % of the last 20 calls and those in flight; until
then, only the refused calls wait. Calls in flight count because refusals come back before answers do: the refusals of a
whole round of calls arrive together."""

SLOWER = 0.9
SLOWEST = 0.25
"""A refusal lowers a learned pace to 90 % of the measured rate, but not below 25 % of the pace before."""

FASTER = 1.05
FASTER_AFTER = 20
"""A learned pace grows by the factor 1.05 after every 20 accepted requests."""

CONCURRENCY_GROWTH = 1
"""A concurrency of C grows by one after C successful calls. Faster growth meets a limit so often that calls run out of
retries."""

PAUSE_S = 1.0
"""The seconds for which refusals first pause all calls if the server requests no delay; each further pause in a row is
twice as long, up to `LONGEST_PAUSE_S`. One refusal causes a pause if the server requests more than `PAUSE_S`."""

LONGEST_PAUSE_S = 5.0
SLOWEST_PER_MINUTE = 12.0
SLOWEST_WITH_RETRY_AFTER_PER_MINUTE = 60.0
"""Lower bounds of a learned pace, so that a server that refuses everything cannot stall a run. The second bound applies
when the server requests a delay, which is observed in any case."""

SCARCE_SHARE = 0.05
"""If less than this share of the limit remains, other clients seem to use it too, and the pace is halved."""


class Pace(Struct):
    """A token bucket that fills at `per_minute` and holds one second's worth, at least 1.

    A larger amount may be taken when the bucket is full, and leaves a debt.
    """

    per_minute: float
    level: float = 1.0
    filled_at: float = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """Return the seconds until `amount` may be taken."""
        self._fill(now)
        needed = min(amount, self._capacity) - self.level
        return needed / self._per_second if needed > ROUNDING else 0.0

    def take(self, now: float, amount: float) -> None:
        """Take `amount`, which may leave a debt."""
        self._fill(now)
        self.level -= amount

    @property
    def _per_second(self) -> float:
        return self.per_minute * HEADROOM / MINUTE_S

    @property
    def _capacity(self) -> float:
        return max(1.0, self._per_second)

    def _fill(self, now: float) -> None:
        self.level = min(self._capacity, self.level + (now - self.filled_at) * self._per_second)
        self.filled_at = now


class Permit:
    """Permission to make one call; `done` must be called exactly once, however the call ended."""

    def __init__(
        self, limiter: "AccountLimiter", tokens: float, sent_at: float, lease: HeldLease | None = None
    ) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._sent_at = sent_at
        self._lease = lease

    def done(
        self,
        *,
        used_tokens: float | None = None,
        requests: int = 1,
        quota: Quota | None = None,
        refused: bool | None = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Release the permit and record the result of the call.

        `refused` is True for a call rejected because of a limit, and None for one that failed or was abandoned, which
        reveals nothing about limits. `requests` counts the requests made with this permit: more than one in a dialogue
        with tools.
        """
        limiter = self._limiter
        limiter._finish(self._tokens, used_tokens, requests - 1, quota)  # noqa: SLF001 - a permit is a part of its limiter
        if self._lease is not None:
            more_tokens = 0.0 if used_tokens is None else used_tokens - self._tokens
            limiter.leased.correct(self._lease, requests=requests - 1, tokens=more_tokens)
        if refused:
            limiter._refused(self._sent_at, retry_after_s)  # noqa: SLF001 - as above
        elif refused is not None:
            limiter._accepted(requests)  # noqa: SLF001 - as above


class AccountLimiter:
    """Limits calls to the pace that an account allows.

    `requests_per_minute` and `tokens_per_minute` are configured or read from quota headers; a second pace of requests
    is learned. Refusals lower the concurrency by their share of the recent calls, set or lower the learned pace, and
    delay all calls for as long as the server requests; successful calls let concurrency and pace grow back. A few
    refusals among many successful calls delay only the refused calls. `max_concurrency` bounds the concurrency (the
    workers of all targets).

    Configured limits hold in every window of 60 seconds, for all processes that lease from the same quota: each call
    needs a permit of `leased`, by default a quota of this process alone. The paces spread the calls evenly.
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrency: float = math.inf,
        leased: LeasedPermits | None = None,
    ) -> None:
        self.leased = leased or LeasedPermits(QuotaClient(InProcessQuota(now), now, sleep), "")
        self._now = now
        self._sleep = sleep
        self._max_concurrency = max_concurrency
        self._concurrency = max_concurrency
        self._requests = None if requests_per_minute is None else Pace(requests_per_minute, filled_at=now())
        self._tokens = None if tokens_per_minute is None else Pace(tokens_per_minute, filled_at=now())
        self._configured_requests = requests_per_minute
        self._configured_tokens = tokens_per_minute
        self._update_leased_limits()
        self._learned: Pace | None = None
        self._in_flight = 0
        self._held_until = -math.inf  # no call is sent before
        self._slowed_at = -math.inf
        self._counted_from = now()  # the start of `_accepted_count`
        self._refusals_in_a_row = 0
        self._accepted_count = 0
        self._recent: deque[bool] = deque(maxlen=RECENT_CALLS)  # True for each refused call
        # The task that holds the lock waits until its call may start; other tasks wait in order of arrival.
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._released = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """The number of calls in flight."""
        return self._in_flight

    def add_target(self, *, requests_per_minute: float | None, tokens_per_minute: float | None, workers: int) -> None:
        """Add a target of the same account: the lower pace applies, and its workers are added to the concurrency."""
        configured = self._configured_requests
        if requests_per_minute is not None and (configured is None or requests_per_minute < configured):
            self._configured_requests = requests_per_minute
            self._requests = Pace(requests_per_minute, filled_at=self._now())
        if tokens_per_minute is not None and (self._tokens is None or tokens_per_minute < self._tokens.per_minute):
            self._tokens = Pace(tokens_per_minute, filled_at=self._now())
        if tokens_per_minute is not None:
            self._configured_tokens = min(tokens_per_minute, self._configured_tokens or math.inf)
        self._update_leased_limits()
        if math.isinf(self._max_concurrency):
            self._max_concurrency = self._concurrency = 0
        self._max_concurrency += workers
        self._concurrency += workers

    def acquire_now(self, tokens: float = 0.0) -> Permit | None:
        """Return a permit if a call may start immediately and no other call is waiting, else None."""
        if self._waiting or self._wait_s(tokens) > 0:
            return None
        if not self._is_leased:
            return self._permit(tokens)
        lease = self.leased.take_now(tokens)
        return None if lease is None else self._permit(tokens, lease)

    async def acquire(self, tokens: float = 0.0) -> Permit:
        """Wait for a permit for one call that is expected to use `tokens` tokens.

        Raises QuotaError when a shared quota has not answered for PATIENCE_S.
        """
        self._waiting += 1
        try:
            async with self._turn:
                while True:
                    await self._until_paced(tokens)
                    if not self._is_leased:
                        return self._permit(tokens)
                    lease = self.leased.take_now(tokens) or await self.leased.draw(tokens)
                    if lease is not None:
                        return self._permit(tokens, lease)
        finally:
            self._waiting -= 1

    async def aclose(self) -> None:
        """Give back leased permits that were not used."""
        await self.leased.aclose()

    async def _until_paced(self, tokens: float) -> None:
        while (wait_s := self._wait_s(tokens)) > 0:
            if math.isinf(wait_s):
                self._released.clear()
                await self._released.wait()
            else:
                await self._sleep(wait_s)

    @property
    def _is_leased(self) -> bool:
        return self._configured_requests is not None or self._configured_tokens is not None

    def _update_leased_limits(self) -> None:
        requests, tokens = self._configured_requests, self._configured_tokens
        self.leased.limits = QuotaLimits(
            None if requests is None else max(1, math.ceil(requests * HEADROOM)),
            None if tokens is None else tokens * HEADROOM,
        )

    def _permit(self, tokens: float, lease: HeldLease | None = None) -> Permit:
        now = self._now()
        for pace, amount in self._paces(tokens):
            pace.take(now, amount)
        self._in_flight += 1
        return Permit(self, tokens, now, lease)

    def _paces(self, tokens: float) -> list[tuple[Pace, float]]:
        """Return the paces that apply, with the amount that a call takes from each."""
        found = []
        if self._requests is not None:
            found.append((self._requests, 1.0))
        if self._learned is not None:
            found.append((self._learned, 1.0))
        if self._tokens is not None:
            found.append((self._tokens, tokens))
        return found

    def _wait_s(self, tokens: float) -> float:
        """Return the seconds that the next call must wait; infinity means until a call in flight ends."""
        if math.isfinite(self._concurrency) and self._in_flight >= max(1, int(self._concurrency)):
            return math.inf
        now = self._now()
        waits = [pace.wait_s(now, amount) for pace, amount in self._paces(tokens)]
        return max([self._held_until - now, *waits, 0.0])

    def _finish(self, expected: float, used: float | None, more_requests: int, quota: Quota | None) -> None:
        self._in_flight -= 1
        self._released.set()
        if more_requests > 0:
            for pace in (self._requests, self._learned):
                if pace is not None:
                    pace.take(self._now(), more_requests)
        if self._tokens is not None and used is not None:
            self._tokens.take(self._now(), used - expected)
        if quota is not None:
            self._apply_quota(quota)

    def _apply_quota(self, quota: Quota) -> None:
        """Set the pace to the limit in a server's quota, or to half of it while other clients seem to use it too."""
        limit, remaining = quota.limit_requests, quota.remaining_requests
        if limit:
            is_scarce = remaining is not None and remaining - self._in_flight < limit * SCARCE_SHARE
            self._set_requests(min(limit / 2 if is_scarce else limit, self._configured_requests or math.inf))
        if quota.limit_tokens:
            if self._tokens is None:
                self._tokens = Pace(quota.limit_tokens, filled_at=self._now())
            self._tokens.per_minute = min(self._tokens.per_minute, quota.limit_tokens)

    def _set_requests(self, per_minute: float) -> None:
        if self._requests is None:
            self._requests = Pace(per_minute, filled_at=self._now())
        else:
            self._requests.wait_s(self._now(), 0)  # fill at the old pace until now
            self._requests.per_minute = per_minute

    def _accepted(self, requests: int) -> None:
        self._refusals_in_a_row = 0
        self._accepted_count += requests
        self._recent.append(False)
        if math.isfinite(self._concurrency) and self._concurrency < self._max_concurrency:
            # Additive increase, as in TCP.
            self._concurrency = min(
                self._max_concurrency, self._concurrency + CONCURRENCY_GROWTH / max(1.0, self._concurrency)
            )
        if self._learned is not None:
            has_reached_step = self._accepted_count // FASTER_AFTER > (self._accepted_count - requests) // FASTER_AFTER
            self._learned.per_minute *= FASTER if has_reached_step else 1.0

    def _refused(self, sent_at: float, retry_after_s: float | None) -> None:
        """Slow down, once for all calls that were in flight together, and delay the next calls."""
        now = self._now()
        if sent_at <= self._slowed_at:
            return
        self._recent.append(True)
        refused, sent = sum(self._recent), len(self._recent) + self._in_flight
        if refused <= max(TOLERATED_REFUSALS, TOLERATED_SHARE * sent) and (retry_after_s or 0.0) <= PAUSE_S:
            return
        self._slowed_at = now
        self._refusals_in_a_row += 1
        if math.isinf(self._concurrency):
            self._concurrency = self._in_flight + 1.0
        self._concurrency = max(1.0, self._concurrency * max(0.5, 1 - refused / len(self._recent)))
        self._recent.clear()
        pause_s = min(LONGEST_PAUSE_S, PAUSE_S * 2.0 ** (self._refusals_in_a_row - 1))
        held_s = pause_s if retry_after_s is None else retry_after_s
        self._held_until = max(self._held_until, now + held_s)
        if self._is_leased:
            self.leased.hold(held_s)
        self._learn(now, SLOWEST_PER_MINUTE if retry_after_s is None else SLOWEST_WITH_RETRY_AFTER_PER_MINUTE)

    def _learn(self, now: float, slowest: float) -> None:
        """Set the learned pace from the rate accepted since the last slowdown or the start.

        The first pace is that rate; an existing one changes as `SLOWER` and `SLOWEST` describe. Neither is below
        `slowest` per minute.
        """
        elapsed_s = max(PAUSE_S, now - self._counted_from)
        # Calls in flight count as accepted: a pace too fast costs one refusal, a pace too slow delays the whole run.
        measured = max(slowest, (self._accepted_count + self._in_flight) / elapsed_s * MINUTE_S)
        self._counted_from, self._accepted_count = now, 0
        if self._learned is None:
            self._learned = Pace(measured, level=0.0, filled_at=now)
        else:
            self._learned.wait_s(now, 0)  # fill at the old pace until now
            self._learned.level = min(self._learned.level, 0.0)
            pace = self._learned.per_minute
            self._learned.per_minute = max(slowest, min(pace, max(measured * SLOWER, pace * SLOWEST)))
