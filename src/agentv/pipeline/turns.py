"""Turns at an account: every try waits for its own, and tells afterwards how it went."""

import asyncio
import math
from collections.abc import Awaitable
from typing import TypeVar

from agentv.execution.foreign import off_the_clock
from agentv.execution.limits import AccountLimiter, Permit
from agentv.execution.retry import delay_asked_s, usage_before
from agentv.types.embeddings import EmbeddingResponse
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.provider import ProviderResponse
from agentv.types.targets import RetryPolicy
from agentv.types.usage import Usage

REFUSED_STATUS = 429
"""What says that the account is asked too fast; an overloaded server (503, 529) is waited for by the retries alone."""

R = TypeVar("R", ProviderResponse, EmbeddingResponse)


class Turns:
    """The turns of one target. Without a limiter everybody may go at once."""

    def __init__(self, limiter: AccountLimiter | None, policy: RetryPolicy, *, counts_attempts: bool) -> None:
        self._limiter = limiter
        self._policy = policy
        self._counts_attempts = counts_attempts

    async def take(self, tokens: float, *, until: float = math.inf) -> Permit | None:
        """Wait for a turn, at most until then; the deadlines of those who wait do not run. Raises ProviderError.

        `tokens` is what the try will probably use.
        """
        if self._limiter is None:
            return None
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
        except BaseException as error:
            self._give_back(permit, error)
            raise
        usage = response.usage
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
