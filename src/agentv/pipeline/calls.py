"""One call of a provider: what it is, what it probably uses, and the deadline that it is held to."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from agentv.execution.foreign import DeadlineError, call_foreign
from agentv.execution.retry import OVERTIME_S
from agentv.types.dataclass import dataclass
from agentv.types.embeddings import EmbeddingResponse
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage

R = TypeVar("R", ProviderResponse, EmbeddingResponse)


@dataclass(slots=True)
class Call(Generic[R]):
    """What is called dependably: one try, by its number and its deadline in seconds, and what it probably uses."""

    one_try: Callable[[int, float], Awaitable[R]]
    asked_tokens: float
    reply_tokens: float = 0.0
    model: str | None = None
    before_repeat: Callable[[], Awaitable[None]] | None = None

    @property
    def tokens(self) -> float:
        """All of them."""
        return self.asked_tokens + self.reply_tokens

    @property
    def usage(self) -> Usage:
        """What the call probably uses."""
        return Usage(input=round(self.asked_tokens), output=round(self.reply_tokens))


async def within(call: Callable[..., Any], argument: object, timeout_s: float) -> Any:
    """Call a provider, which keeps the deadline itself as a rule; one that does not is cut off soon after."""
    try:
        return await call_foreign(call, argument, timeout_s=timeout_s + OVERTIME_S, inline=True)
    except DeadlineError:
        failure = Failure("deadline", f"no answer within {timeout_s:g} s", retryable=True)
        raise ProviderError(failure) from None
