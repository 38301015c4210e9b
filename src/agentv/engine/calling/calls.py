"""One call of a provider: what it is, what it probably uses, and the deadline that it is held to."""

from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from agentv.execution.retry import OVERTIME_S
from agentv.execution.user_code import DeadlineError, call_user_code
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.provider import CallRecord, EmbeddingResponse, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

CHARACTERS_PER_TOKEN = 4.0

R = TypeVar("R", ProviderResponse, EmbeddingResponse)


class Call(Struct, Generic[R], frozen=True):
    """What is called dependably: one try, by its number and its deadline in seconds, and what it probably uses.

    `total_s` is for all tries together. `on_retry` gets a failed try and the pause in seconds before the next one, and
    `before_repeat` makes all ready for that.
    """

    one_try: Callable[[int, float], Awaitable[R]]
    prompt_tokens: float
    reply_tokens: float = 0.0
    model: str | None = None
    total_s: float | None = None
    on_retry: Callable[[CallRecord, float], None] | None = None
    before_repeat: Callable[[], Awaitable[None]] | None = None

    @property
    def tokens(self) -> float:
        """All of them."""
        return self.prompt_tokens + self.reply_tokens

    @property
    def usage(self) -> Usage:
        """What the call probably uses."""
        return Usage(input=round(self.prompt_tokens), output=round(self.reply_tokens))


def prompt_tokens(request: ProviderRequest) -> float:
    """Return how many tokens a request's prompt probably has."""
    chat = sum(len(turn.content) for turn in request.chat_prompt or ()) or len(request.question)
    return (chat + len(request.system_prompt or "")) / CHARACTERS_PER_TOKEN


def max_reply_tokens(request: ProviderRequest, target: ResolvedTarget) -> int | None:
    """Return how many tokens a reply may have, None where nobody says it."""
    return request.max_output_tokens or getattr(target.settings, "max_output_tokens", None)


async def within(call: Callable[..., Any], argument: object, timeout_s: float) -> Any:
    """Call a provider, which keeps the deadline itself as a rule; one that does not is cut off soon after."""
    try:
        return await call_user_code(call, argument, timeout_s=timeout_s + OVERTIME_S, inline=True)
    except DeadlineError:
        failure = Failure("deadline", f"no answer within {timeout_s:g} s", retryable=True)
        raise ProviderError(failure) from None
