"""Turns at an account: every try waits for its own, and tells afterwards how it went."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic

from agentv.execution.foreign import off_the_clock
from agentv.execution.limits import AccountLimiter, Permit
from agentv.execution.retry import delay_asked_s, usage_before
from agentv.pipeline.calls import Call, R
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.targets import RetryPolicy
from agentv.types.usage import Usage

REFUSED_STATUS = 429
"""What says that the account is asked too fast; an overloaded server (503, 529) is waited for by the retries alone."""


class Turns:
    """The turns of one target, at the pace of its account."""

    def __init__(self, limiter: AccountLimiter, policy: RetryPolicy, *, counts_attempts: bool) -> None:
        self._limiter = limiter
        self._policy = policy
        self._counts_attempts = counts_attempts

    async def take(self, tokens: float, *, until: float = math.inf) -> Permit:
        """Wait for a turn, at most until then; the deadlines of those who wait do not run. Raises ProviderError.

        `tokens` is what the try will probably use.
        """
        permit = self._limiter.acquire_now(tokens)
        if permit is not None:
            return permit
        try:
            with off_the_clock():
                async with asyncio.timeout_at(None if math.isinf(until) else until):
                    return await self._limiter.acquire(tokens)
        except TimeoutError:
            failure = Failure("deadline", "no turn at the account came in the time for all tries")
            raise ProviderError(failure) from None

    async def used(self, permit: Permit, one_try: Awaitable[R]) -> R:
        """Return what a try brings, and tell the account how it went."""
        try:
            response = await one_try
            usage = response.usage
        except BaseException as error:
            self._give_back(permit, error)
            raise
        permit.done(used_tokens=_tokens(usage), requests=self._requests(usage), quota=response.quota)
        return response

    def _give_back(self, permit: Permit, error: BaseException) -> None:
        """End a try that brought nothing: only a refusal says something about the pace."""
        if not isinstance(error, ProviderError):
            permit.done(refused=None)
            return
        failure = error.failure
        is_refused = failure.http_status == REFUSED_STATUS
        before = usage_before(failure)
        permit.done(
            used_tokens=_tokens(before),
            requests=self._requests(before),
            refused=is_refused or None,
            retry_after_s=delay_asked_s(failure, self._policy) if is_refused else None,
        )

    def _requests(self, usage: Usage | None) -> int:
        """Return how many requests of the account one call made: an agent's own are not the account's."""
        return 1 if usage is None or self._counts_attempts else max(1, usage.requests)


class TriesInTurn(Generic[R]):
    """The tries of one call, each in its turn; the `first` one has its permit already. Without `turns` all may go.

    A try may take `attempt_s` seconds, and all of them may last until `ends_at` of the clock `now`.
    """

    __slots__ = ("_attempt_s", "_call", "_ends_at", "_first", "_now", "_turns")

    def __init__(
        self,
        call: Call[R],
        turns: Turns | None,
        first: Permit | None,
        *,
        attempt_s: float,
        ends_at: float,
        now: Callable[[], float],
    ) -> None:
        self._call: Call[R] = call
        self._turns = turns
        self._first = first
        self._attempt_s = attempt_s
        self._ends_at = ends_at
        self._now = now

    def one(self, number: int) -> Awaitable[R]:
        """Make the try of this number, from 0."""
        return self._again(number) if number else self._permitted(0, self._first)

    async def _again(self, number: int) -> R:
        if self._call.before_repeat is not None:
            await self._call.before_repeat()
        turns = self._turns
        permit = None if turns is None else await turns.take(self._call.tokens, until=self._ends_at)
        return await self._permitted(number, permit)

    def _permitted(self, number: int, permit: Permit | None) -> Awaitable[R]:
        timeout_s = self._attempt_s
        if self._ends_at != math.inf:
            timeout_s = max(0.0, min(timeout_s, self._ends_at - self._now()))
        answered = self._call.one_try(number, timeout_s)
        return answered if permit is None or self._turns is None else self._turns.used(permit, answered)


def _tokens(usage: Usage | None) -> int | None:
    return None if usage is None else usage.total
