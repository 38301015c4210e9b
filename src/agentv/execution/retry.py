"""One retry policy for everything that is called: how often, how long between, and what is remembered of each try."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.protocols import Clock
from agentv.types.provider import CallRecord
from agentv.types.records.fields import milliseconds
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


def requested_delay_s(failure: Failure, policy: RetryPolicy) -> float | None:
    """Return how long the server asks to be left alone, at most what the policy grants; None when it does not ask."""
    if failure.retry_after_s is None:
        return None
    return min(max(failure.retry_after_s, 0.0), policy.max_delay_s)


def delay_s(failure: Failure, policy: RetryPolicy, *, retry: int, rng: random.Random) -> float:
    """Return the pause before the `retry`-th repeat (from 0): what the server asks for, else backoff with jitter."""
    asked_s = requested_delay_s(failure, policy)
    if asked_s is not None:
        return asked_s
    try:
        backoff = policy.initial_delay_s * policy.backoff_factor**retry
    except OverflowError:
        backoff = policy.max_delay_s
    return min(backoff * rng.uniform(1 - JITTER, 1 + JITTER), policy.max_delay_s)


async def retry_call(
    call: Callable[[int, float], Awaitable[R]],
    policy: RetryPolicy,
    *,
    rng: random.Random,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_retry: Callable[[CallRecord, float], None] | None = None,
    deadline_s: float | None = None,
) -> tuple[R, tuple[CallRecord, ...]]:
    """Call until it answers, and return the answer with a record of every try.

    `call` gets the number of the try, from 0, and when all tries are to be over by the loop's clock; it keeps its own
    deadline. `deadline_s` is for all tries and pauses together: no pause goes beyond it, and a try that has not ended
    soon after it is cancelled. `on_retry` gets the failed try and the pause in seconds. Raises the last ProviderError
    with `calls` set.
    """
    ends_at = math.inf if deadline_s is None else asyncio.get_running_loop().time() + deadline_s
    records: tuple[CallRecord, ...] = ()
    wait_s = 0.0
    while True:
        started_at = clock()
        try:
            one_try = call(len(records), ends_at)
            reply = await (one_try if deadline_s is None else _cut_off(one_try, ends_at, deadline_s, len(records) + 1))
        except ProviderError as error:
            failure = error.failure
        else:
            return reply, (*records, _answered(reply, started_at, clock(), wait_s))
        records += (_failed(failure, started_at, clock(), wait_s),)
        wait_s = delay_s(failure, policy, retry=len(records) - 1, rng=rng)
        is_last = len(records) > policy.max_retries or asyncio.get_running_loop().time() + wait_s >= ends_at
        if is_last or not is_retryable(failure, policy):
            raise ProviderError(failure, calls=records)
        if on_retry is not None:
            on_retry(records[-1], wait_s)
        await sleep(wait_s)


async def _cut_off(one_try: Awaitable[R], ends_at: float, deadline_s: float, tries: int) -> R:
    """Return what a try brings, which is given up soon after the end of the time for all of them."""
    guard = asyncio.timeout_at(ends_at + OVERTIME_S)
    try:
        async with guard:
            return await one_try
    except TimeoutError:
        if not guard.expired():
            raise
        raise ProviderError(Failure("deadline", f"no answer within {deadline_s:g} s (tries: {tries})")) from None


def _failed(failure: Failure, started_at: datetime, ended_at: datetime, wait_s: float) -> CallRecord:
    request_id = (failure.details or {}).get("request_id")
    return CallRecord(
        kind=failure.kind,
        started_at=started_at,
        wait_ms=milliseconds(wait_s * 1000),
        duration_ms=milliseconds((ended_at - started_at).total_seconds() * 1000),
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
    counts = {name: told.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if isinstance(count, int)}
    return Usage(**known) if known else None


def _answered(reply: Reply, started_at: datetime, ended_at: datetime, wait_s: float) -> CallRecord:
    return CallRecord(
        kind="ok",
        started_at=started_at,
        wait_ms=milliseconds(wait_s * 1000),
        duration_ms=milliseconds((ended_at - started_at).total_seconds() * 1000),
        request_id=reply.request_id,
        usage=reply.usage,
    )
