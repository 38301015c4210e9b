"""Turns at an account: every try waits for its own, and tells afterwards how it went."""

import asyncio
import math
from collections.abc import Awaitable

from agentv.execution.foreign import off_the_clock
from agentv.execution.limits import AccountLimiter, Permit
from agentv.execution.retry import delay_asked_s, usage_before
from agentv.pipeline.calls import Call, R
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

REFUSED_STATUS = 429
"""What says that the account is asked too fast; an overloaded server (503, 529) is waited for by the retries alone."""


class Turns:
    """The tries of one target, each in its turn at the pace of its account; without a limiter all may go at once."""

    def __init__(self, limiter: AccountLimiter | None, target: ResolvedTarget, *, counts_attempts: bool) -> None:
        self.limiter = limiter
        self._policy = target.retry
        self._try_s = target.try_timeout_s
        self._counts_attempts = counts_attempts

    def one_try(self, call: "Call[R]", first: Permit | None, number: int, ends_at: float) -> Awaitable[R]:
        """Make the try of this number, from 0, before all are to be over; the `first` has its permit already."""
        return self._again(call, number, ends_at) if number else self._permitted(call, first, 0, ends_at)

    async def _again(self, call: "Call[R]", number: int, ends_at: float) -> R:
        if call.before_repeat is not None:
            await call.before_repeat()
        return await self._permitted(call, await self.take(call.tokens, until=ends_at), number, ends_at)

    def _permitted(self, call: "Call[R]", permit: Permit | None, number: int, ends_at: float) -> Awaitable[R]:
        timeout_s = self._try_s
        if ends_at != math.inf:
            timeout_s = max(0.0, min(timeout_s, ends_at - asyncio.get_running_loop().time()))
        answered = call.one_try(number, timeout_s)
        return answered if permit is None else self._used(permit, answered)

    async def take(self, tokens: float, *, until: float = math.inf) -> Permit | None:
        """Wait for a turn, at most until then; the deadlines of those who wait do not run. Raises ProviderError.

        `tokens` is what the try will probably use.
        """
        if self.limiter is None:
            return None
        permit = self.limiter.acquire_now(tokens)
        if permit is not None:
            return permit
        try:
            with off_the_clock():
                async with asyncio.timeout_at(None if math.isinf(until) else until):
                    return await self.limiter.acquire(tokens)
        except TimeoutError:
            failure = Failure("deadline", "no turn at the account came in the time for all tries")
            raise ProviderError(failure) from None

    async def _used(self, permit: Permit, one_try: Awaitable[R]) -> R:
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


def _tokens(usage: Usage | None) -> int | None:
    return None if usage is None else usage.total
