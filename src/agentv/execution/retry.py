"""The retry policy of all calls: how often, with which pauses, and a record of every attempt."""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from msgspec.structs import replace

from agentv.execution.cancelled_calls import attach_call, attached_partial
from agentv.types.failures import Failure
from agentv.types.protocols import Clock
from agentv.types.provider import CallRecord, ProviderError, ProviderResponse
from agentv.types.stored import to_ms
from agentv.types.targets import RetryPolicy
from agentv.types.usage import Usage

JITTER = 0.25
"""A pause is drawn from 75 % to 125 % of the backoff, so that workers do not retry in step."""

OVERTIME_S = 5.0
"""Seconds past the total deadline in which an attempt may clean up, for instance kill its process."""


class Recordable(Protocol):
    """The attributes of a call's result that its record needs."""

    @property
    def usage(self) -> Usage | None:
        """The tokens that the call used."""

    @property
    def request_id(self) -> str | None:
        """The id that the server gave the request."""


R = TypeVar("R", bound=Recordable)


def is_retryable(failure: Failure, policy: RetryPolicy) -> bool:
    """Return True if a retry may help: the policy decides on HTTP statuses and time-outs, the failure on the rest."""
    if failure.http_status is not None:
        return failure.http_status in policy.status_codes
    return failure.retryable and (failure.kind != "target_timeout" or policy.retry_timeouts)


def requested_delay_s(failure: Failure, policy: RetryPolicy) -> float | None:
    """Return the delay that the server requested, at most the policy's maximum; None if it requested none."""
    if failure.retry_after_s is None:
        return None
    return min(max(failure.retry_after_s, 0.0), policy.max_delay_s)


def delay_s(failure: Failure, policy: RetryPolicy, *, retry: int, rng: random.Random) -> float:
    """Return the pause before retry number `retry` (from 0): as the server requested, else backoff with jitter."""
    requested_s = requested_delay_s(failure, policy)
    if requested_s is not None:
        return requested_s
    try:
        backoff = policy.initial_delay_s * policy.backoff_factor**retry
    except OverflowError:
        backoff = policy.max_delay_s
    return min(backoff * rng.uniform(1 - JITTER, 1 + JITTER), policy.max_delay_s)


def partial_or_usage(error: ProviderError) -> ProviderResponse | None:
    """Return the partial answer of a failed attempt, else a response with its usage alone; None without either."""
    if error.partial is not None:
        return error.partial
    usage = usage_in_details(error.failure)
    return None if usage is None else ProviderResponse("", usage=usage)


async def retry_call(
    call: Callable[[int, float], Awaitable[R]],
    policy: RetryPolicy,
    *,
    rng: random.Random,
    clock: Clock,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_retry: Callable[[CallRecord, float], None] | None = None,
    deadline_s: float | None = None,
    partial_of: Callable[[ProviderError], ProviderResponse | None] = partial_or_usage,
) -> tuple[R, tuple[CallRecord, ...]]:
    """Repeat a call until it succeeds, and return its result with a record of every attempt.

    `call` gets the number of the attempt, from 0, and the time by the loop's clock when all attempts must have ended;
    it must itself end the attempt by then. `deadline_s` covers all attempts and pauses together: no pause goes beyond
    it, and an attempt that has not ended OVERTIME_S after the deadline is cancelled. `on_retry` gets the record of the
    failed attempt and the pause in seconds. `partial_of` returns the partial answer, usage and cost of a failed
    attempt. Raises the last ProviderError with `calls`, and with the `partial` of the last attempt that has one. If an
    attempt is cancelled, `attach_call` attaches both to its CancelledError, unless no attempt gave a partial answer or
    used tokens; a cancellation during a pause carries neither.
    """
    ends_at = math.inf if deadline_s is None else asyncio.get_running_loop().time() + deadline_s
    records: tuple[CallRecord, ...] = ()
    partial: ProviderResponse | None = None
    wait_s = 0.0
    while True:
        started_at = clock()
        try:
            attempt = call(len(records), ends_at)
            if deadline_s is not None:
                attempt = _with_deadline(attempt, ends_at, deadline_s, attempts=len(records) + 1)
            result = await attempt
        except ProviderError as error:
            failure, response = error.failure, partial_of(error)
            partial = response if error.partial is not None else partial
        except asyncio.CancelledError as error:
            cancelled = ProviderError(Failure("cancelled", "cancelled"), partial=attached_partial(error))
            response = partial_of(cancelled)
            if response is not None:
                records += (
                    _failed(cancelled.failure, response, started_at=started_at, ended_at=clock(), wait_s=wait_s),
                )
            attach_call(error, response or partial, calls=records)
            raise
        else:
            return result, (*records, _succeeded(result, started_at, clock(), wait_s))
        described = _with_requested_delay(failure, policy)
        records += (_failed(described, response, started_at=started_at, ended_at=clock(), wait_s=wait_s),)
        wait_s = delay_s(failure, policy, retry=len(records) - 1, rng=rng)
        is_last = len(records) > policy.max_retries or asyncio.get_running_loop().time() + wait_s >= ends_at
        if is_last or not is_retryable(failure, policy):
            raise ProviderError(failure, calls=records, partial=partial)
        if on_retry is not None:
            on_retry(records[-1], wait_s)
        await sleep(wait_s)


async def _with_deadline(attempt: Awaitable[R], ends_at: float, deadline_s: float, *, attempts: int) -> R:
    """Return the result of an attempt; cancel it OVERTIME_S after the deadline of all attempts."""
    guard = asyncio.timeout_at(ends_at + OVERTIME_S)
    try:
        async with guard:
            return await attempt
    except TimeoutError as error:
        if not guard.expired():
            raise
        failure = Failure("deadline", f"no answer within {deadline_s:g} s (attempts: {attempts})")
        raise ProviderError(failure, partial=attached_partial(error)) from None


def _with_requested_delay(failure: Failure, policy: RetryPolicy) -> Failure:
    """Return a failure whose message names the requested delay, if it is longer than the policy allows."""
    requested_s = failure.retry_after_s
    if requested_s is None or requested_s <= policy.max_delay_s:
        return failure
    limit = f"agentv waits at most {policy.max_delay_s:,g} s (retry_max_delay_ms)"
    return replace(failure, message=f"{failure.message}; the server requests a delay of {requested_s:,.0f} s, {limit}")


def waited_s(result: object) -> float:
    """Return the seconds after an answer that were spent waiting for its spans."""
    return result.spans.waited_s if isinstance(result, ProviderResponse) and result.spans is not None else 0.0


def answered_at(result: object, started_at: datetime, returned_at: datetime) -> datetime:
    """Return the time of an answer, without the wait for its spans."""
    waited = waited_s(result)
    return max(started_at, returned_at - timedelta(seconds=waited)) if waited else returned_at


def _failed(
    failure: Failure, response: ProviderResponse | None, *, started_at: datetime, ended_at: datetime, wait_s: float
) -> CallRecord:
    request_id = (failure.details or {}).get("request_id")
    return CallRecord(
        kind=failure.kind,
        started_at=started_at,
        wait_ms=to_ms(wait_s),
        duration_ms=to_ms((ended_at - started_at).total_seconds()),
        status=failure.http_status,
        request_id=request_id if isinstance(request_id, str) else None,
        error=failure.message,
        usage=None if response is None else response.usage,
        cost_usd=None if response is None else response.cost_usd,
        estimated=response is not None and response.estimated,
    )


def usage_in_details(failure: Failure) -> Usage | None:
    """Return `details.usage` of a failed attempt: the usage of the turns that succeeded before the failed one."""
    usage = (failure.details or {}).get("usage")
    if not isinstance(usage, Mapping):
        return None
    counts = {name: usage.get(name) for name in Usage.__struct_fields__}
    known = {name: count for name, count in counts.items() if isinstance(count, int)}
    return Usage(**known) if known else None


def _succeeded(result: Recordable, started_at: datetime, ended_at: datetime, wait_s: float) -> CallRecord:
    ended_at = answered_at(result, started_at, ended_at)
    return CallRecord(
        kind="ok",
        started_at=started_at,
        wait_ms=to_ms(wait_s) if wait_s else 0.0,
        duration_ms=to_ms((ended_at - started_at).total_seconds()),
        request_id=result.request_id,
        usage=result.usage,
    )
