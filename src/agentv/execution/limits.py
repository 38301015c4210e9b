"""How fast one account may be asked: a pace for requests and tokens, and a concurrency that learns from refusals.

One limiter stands for one account (provider, address, key) and is shared by everyone who asks it. Times are seconds of
the clock it is given, so that its behaviour can be proven without waiting for it.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable

from msgspec import Struct

from agentv.types.provider import Quota

MINUTE_S = 60.0
HEADROOM = 0.98
"""Share of a known limit that is used: clocks and networks jitter, and a refused call costs more than 2 % of a pace."""

ROUNDING = 1e-9
"""A debt so small is a rounding error, not something that anybody must sleep for."""

SLOWER = 0.7
SLOWEST = 0.25
"""A learned pace is lowered by a refusal to something between these two; what was measured since the last decides."""

FASTER = 1.05
PAUSE_S = 1.0
LONGEST_PAUSE_S = 5.0
SLOWEST_PER_MINUTE = 12.0
SLOWEST_WITH_RETRY_AFTER_PER_MINUTE = 60.0
"""No refusal makes a pace slower than this: a server that refuses everything must not hold a run up for ever. One that
says when to come back is waited for as it asks, so that the pace needs to be less careful."""

SCARCE = 0.05
"""Share of a quota below which others seem to use it too: the pace is then halved."""


class Pace(Struct):
    """A bucket that fills at `per_minute` and holds one second's worth, or one whole request of any size."""

    per_minute: float
    level: float = 1.0
    filled_at: float = 0.0

    def wait_s(self, now: float, amount: float) -> float:
        """Return how long until `amount` may be taken."""
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
    """The right to make one call; `done` must be called once, however the call ended."""

    def __init__(self, limiter: "AccountLimiter", tokens: float, sent_at: float) -> None:
        self._limiter = limiter
        self._tokens = tokens
        self._sent_at = sent_at

    def done(
        self,
        *,
        used_tokens: float | None = None,
        requests: int = 1,
        quota: Quota | None = None,
        refused: bool | None = False,
        retry_after_s: float | None = None,
    ) -> None:
        """Give the right back and say how it went.

        `refused` is for a call turned away because of a limit; None says that it failed or was given up, which tells
        nothing about limits. `requests` is how many were made with this one right (a dialogue with tools makes more).
        """
        limiter = self._limiter
        limiter._finish(self._tokens, used_tokens, requests - 1, quota)  # noqa: SLF001 - a permit is its own hand
        if refused:
            limiter._refused(self._sent_at, retry_after_s)  # noqa: SLF001 - as above
        elif refused is not None:
            limiter._accepted(requests)  # noqa: SLF001 - as above


class AccountLimiter:
    """Lets calls through at the pace an account allows.

    `requests_per_minute` and `tokens_per_minute` are told, or read from a server's quota headers, or learned: a refusal
    halves the concurrency, sets or lowers a pace, and holds everybody back for as long as the server asks; calls that
    go well let both grow back slowly. `max_concurrency` bounds the concurrency (the workers of all targets).
    """

    def __init__(
        self,
        *,
        now: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrency: float = math.inf,
    ) -> None:
        self._now = now
        self._sleep = sleep
        self._most_at_once = max_concurrency
        self._at_once = max_concurrency
        self._requests = None if requests_per_minute is None else Pace(requests_per_minute, filled_at=now())
        self._tokens = None if tokens_per_minute is None else Pace(tokens_per_minute, filled_at=now())
        self._told = requests_per_minute
        self._learned: Pace | None = None
        self._in_flight = 0
        self._held_until = -math.inf
        self._adjusted_at = -math.inf
        self._counted_from = now()
        self._refusals_in_a_row = 0
        self._accepted_count = 0
        # Whoever holds the turn decides when the next call goes; the others wait in order of arrival.
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._released = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """How many calls are under way."""
        return self._in_flight

    def add_target(self, *, requests_per_minute: float | None, tokens_per_minute: float | None, workers: int) -> None:
        """Take in another target of the same account: the lower pace holds, its workers add to the concurrency."""
        if requests_per_minute is not None and (self._told is None or requests_per_minute < self._told):
            self._told = requests_per_minute
            self._requests = Pace(requests_per_minute, filled_at=self._now())
        if tokens_per_minute is not None and (self._tokens is None or tokens_per_minute < self._tokens.per_minute):
            self._tokens = Pace(tokens_per_minute, filled_at=self._now())
        if math.isinf(self._most_at_once):
            self._most_at_once = self._at_once = 0
        self._most_at_once += workers
        self._at_once += workers

    def acquire_now(self, tokens: float = 0.0) -> Permit | None:
        """Return the right to make one call when it may go at once and nobody came before; else None."""
        return None if self._waiting or self._wait_s(tokens) > 0 else self._permit(tokens)

    async def acquire(self, tokens: float = 0.0) -> Permit:
        """Wait for the right to make one call that is expected to use so many tokens."""
        self._waiting += 1
        try:
            async with self._turn:
                while (wait_s := self._wait_s(tokens)) > 0:
                    if math.isinf(wait_s):
                        self._released.clear()
                        await self._released.wait()
                    else:
                        await self._sleep(wait_s)
                return self._permit(tokens)
        finally:
            self._waiting -= 1

    def _permit(self, tokens: float) -> Permit:
        now = self._now()
        for pace, amount in self._paces(tokens):
            pace.take(now, amount)
        self._in_flight += 1
        return Permit(self, tokens, now)

    def _paces(self, tokens: float) -> list[tuple[Pace, float]]:
        found = [(self._requests, 1.0), (self._learned, 1.0), (self._tokens, tokens)]
        return [(pace, amount) for pace, amount in found if pace is not None]

    def _wait_s(self, tokens: float) -> float:
        """Return how long the next call must wait; infinity means until one of those under way ends."""
        if self._in_flight >= max(1, int(self._at_once) if math.isfinite(self._at_once) else self._in_flight + 1):
            return math.inf
        now = self._now()
        waits = [pace.wait_s(now, amount) for pace, amount in self._paces(tokens)]
        return max([self._held_until - now, *waits, 0.0])

    def _finish(self, expected: float, used: float | None, more_requests: int, quota: Quota | None) -> None:
        self._in_flight -= 1
        self._released.set()
        for pace in (self._requests, self._learned):
            if pace is not None and more_requests > 0:
                pace.take(self._now(), more_requests)
        if self._tokens is not None and used is not None:
            self._tokens.take(self._now(), used - expected)
        if quota is not None:
            self._read(quota)

    def _read(self, quota: Quota) -> None:
        """Keep the pace that a server's quota names, half of it while others seem to use the same quota."""
        limit, remaining = quota.limit_requests, quota.remaining_requests
        if limit:
            scarce = remaining is not None and remaining - self._in_flight < limit * SCARCE
            self._set_requests(min(limit / 2 if scarce else limit, self._told or math.inf))
        if quota.limit_tokens:
            if self._tokens is None:
                self._tokens = Pace(quota.limit_tokens, filled_at=self._now())
            self._tokens.per_minute = min(self._tokens.per_minute, quota.limit_tokens)

    def _set_requests(self, per_minute: float) -> None:
        if self._requests is None:
            self._requests = Pace(per_minute, filled_at=self._now())
        else:
            self._requests.wait_s(self._now(), 0)  # fill at the old pace up to this moment
            self._requests.per_minute = per_minute

    def _accepted(self, requests: int) -> None:
        self._refusals_in_a_row = 0
        self._accepted_count += requests
        if math.isfinite(self._at_once) and self._at_once < self._most_at_once:
            # One more at once after as many good calls as are under way: additive, as networks do it.
            self._at_once = min(self._most_at_once, self._at_once + 1 / max(1.0, self._at_once))
        if self._learned is not None and self._accepted_count // 20 > (self._accepted_count - requests) // 20:
            self._learned.per_minute *= FASTER

    def _refused(self, sent_at: float, retry_after_s: float | None) -> None:
        """Slow down, once for all calls that were under way together, and hold everybody back."""
        now = self._now()
        if sent_at <= self._adjusted_at:
            return
        self._adjusted_at = now
        self._refusals_in_a_row += 1
        if math.isinf(self._at_once):
            self._at_once = self._in_flight + 1.0
        self._at_once = max(1.0, self._at_once / 2)
        pause_s = min(LONGEST_PAUSE_S, PAUSE_S * 2.0 ** (self._refusals_in_a_row - 1))
        self._held_until = max(self._held_until, now + (pause_s if retry_after_s is None else retry_after_s))
        self._learn(now, SLOWEST_PER_MINUTE if retry_after_s is None else SLOWEST_WITH_RETRY_AFTER_PER_MINUTE)

    def _learn(self, now: float, least: float) -> None:
        """Set the pace to what was accepted since the last refusal, or since the beginning, at `least` a minute."""
        elapsed_s = max(PAUSE_S, now - self._counted_from)
        # Calls still under way may have been accepted: to hope for too much costs a refusal, for too little the run.
        measured = max(least, (self._accepted_count + self._in_flight) / elapsed_s * MINUTE_S)
        self._counted_from, self._accepted_count = now, 0
        if self._learned is None:
            self._learned = Pace(measured, level=0.0, filled_at=now)
        else:
            self._learned.wait_s(now, 0)  # fill at the old pace up to this moment
            self._learned.level = min(self._learned.level, 0.0)
            pace = self._learned.per_minute
            self._learned.per_minute = max(least, min(pace * SLOWER, max(measured, pace * SLOWEST)))
