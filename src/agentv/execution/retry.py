"""One retry policy for everything that is called: how often, how long between, and what is remembered of each try."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

from agentv.types.dataclass import dataclass
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import Clock
from agentv.types.provider import CallRecord
from agentv.types.targets import RetryPolicy
from agentv.types.usage import Usage

JITTER = 0.25
"""A pause is drawn from 75 % to 125 % of what the backoff says, so that workers do not come back in step."""

OVERTIME_S = 5.0
"""How long past the total deadline a try may still be ending by itself (killing its process, for instance)."""


class Reply(Protocol):
    """What a call brings, as far as its record needs it."""

    @property
    def usage(self) -> Usage | None:
        """What it used."""

    @property
    def request_id(self) -> str | None:
        """How the other side calls it."""


R = TypeVar("R", bound=Reply)


def is_retryable(failure: Failure, policy: RetryPolicy) -> bool:
    """Whether another try may help: the policy decides about an HTTP status, the failure itself about the rest."""
    if failure.http_status is not None:
        return failure.http_status in policy.status_codes
    return failure.retryable


def delay_asked_s(failure: Failure, policy: RetryPolicy) -> float | None:
    """Return how long the server asks to be left alone, at most what the policy grants; None when it does not ask."""
    if failure.retry_after_s is None:
        return None
    return min(max(failure.retry_after_s, 0.0), policy.max_delay_s)


def delay_s(failure: Failure, policy: RetryPolicy, *, retry: int, rng: random.Random) -> float:
    """Return the pause before the `retry`-th repeat (from 0): what the server asks for, else backoff with jitter."""
    asked_s = delay_asked_s(failure, policy)
    if asked_s is not None:
        return asked_s
    try:
        backoff = policy.initial_delay_s * policy.backoff_factor**retry
    except OverflowError:
        backoff = policy.max_delay_s
    return min(backoff * rng.uniform(1 - JITTER, 1 + JITTER), policy.max_delay_s)


def retry_call(
    call: Callable[[int], Awaitable[R]],
    policy: RetryPolicy,
    *,
    rng: random.Random,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_retry: Callable[[CallRecord, float], None] | None = None,
    deadline_s: float | None = None,
) -> Coroutine[Any, Any, tuple[R, tuple[CallRecord, ...]]]:
    """Call until it answers, and return the answer with a record of every try.

    `call` gets the number of the try, from 0, and keeps its own deadline. `deadline_s` is for all tries and pauses
    together: no pause goes beyond it, and a try that has not ended soon after it is cancelled. `on_retry` gets the
    failed try and the pause in seconds. Raises the last ProviderError with `calls` set.
    """
    tries = _Tries(call, policy, rng, clock, sleep, on_retry, clock())
    return tries.until_answered() if deadline_s is None else tries.within(deadline_s)


@dataclass(slots=True)
class _Tries(Generic[R]):
    """The tries of one call: `started_at` is when the present one began, after a pause of `wait_s`."""

    call: Callable[[int], Awaitable[R]]
    policy: RetryPolicy
    rng: random.Random
    clock: Clock
    sleep: Callable[[float], Awaitable[None]]
    on_retry: Callable[[CallRecord, float], None] | None
    started_at: datetime
    ends_at: float = math.inf
    wait_s: float = 0.0
    records: tuple[CallRecord, ...] = ()

    async def within(self, deadline_s: float) -> tuple[R, tuple[CallRecord, ...]]:
        """Return the first answer that comes in so many seconds, with all tries."""
        self.ends_at = asyncio.get_running_loop().time() + deadline_s
        guard = asyncio.timeout_at(self.ends_at + OVERTIME_S)
        try:
            async with guard:
                return await self.until_answered()
        except TimeoutError:
            if not guard.expired():
                raise
            failure = Failure("deadline", f"no answer within {deadline_s:g} s (tries: {len(self.records) + 1})")
            self.note_failed(failure)
            raise ProviderError(failure, calls=self.records) from None

    async def until_answered(self) -> tuple[R, tuple[CallRecord, ...]]:
        """Return the first answer, with all tries; raises the last ProviderError when there is none to be had."""
        while True:
            try:
                reply = await self.call(len(self.records))
            except ProviderError as error:
                failure = error.failure
            else:
                return reply, (*self.records, _answered(reply, self.started_at, self.clock(), self.wait_s))
            await self._pause_after(failure)

    async def _pause_after(self, failure: Failure) -> None:
        """Wait as long as the policy says; raises ProviderError when it allows no other try."""
        self.note_failed(failure)
        wait_s = delay_s(failure, self.policy, retry=len(self.records) - 1, rng=self.rng)
        now = asyncio.get_running_loop().time()
        is_last = len(self.records) > self.policy.max_retries or now + wait_s >= self.ends_at
        if is_last or not is_retryable(failure, self.policy):
            raise ProviderError(failure, calls=self.records)
        if self.on_retry is not None:
            self.on_retry(self.records[-1], wait_s)
        self.wait_s = wait_s
        await self.sleep(wait_s)
        self.started_at = self.clock()

    def note_failed(self, failure: Failure) -> None:
        """Keep a record of the present try, which failed."""
        self.records += (_failed(failure, self.started_at, self.clock(), self.wait_s),)


def _failed(failure: Failure, started_at: datetime, ended_at: datetime, wait_s: float) -> CallRecord:
    request_id = (failure.details or {}).get("request_id")
    return CallRecord(
        kind=failure.kind,
        started_at=started_at,
        wait_ms=wait_s * 1000,
        duration_ms=_ms(ended_at - started_at),
        status=failure.http_status,
        request_id=request_id if isinstance(request_id, str) else None,
        error=failure.message,
        usage=usage_before(failure),
    )


def usage_before(failure: Failure) -> Usage | None:
    """Return what a try had used when it failed, from `details.usage`: the turns of a dialogue before the last one."""
    told = (failure.details or {}).get("usage")
    if not isinstance(told, Mapping):
        return None
    counts = {name: told.get(name) for name in Usage.__dataclass_fields__}
    known = {name: count for name, count in counts.items() if isinstance(count, int)}
    return Usage(**known) if known else None


def _answered(reply: Reply, started_at: datetime, ended_at: datetime, wait_s: float) -> CallRecord:
    return CallRecord(
        kind="ok",
        started_at=started_at,
        wait_ms=wait_s * 1000,
        duration_ms=_ms(ended_at - started_at),
        request_id=reply.request_id,
        usage=reply.usage,
    )


def _ms(span: timedelta) -> float:
    return span.total_seconds() * 1000
