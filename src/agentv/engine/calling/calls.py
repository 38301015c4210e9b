"""One call of a provider: its attempts, its estimated tokens, and its deadline."""

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
    """One call with retries: the function for one attempt, and the estimated tokens.

    `attempt` takes the number of the attempt, from 0, and its deadline in seconds. `total_s` is for all attempts
    together. `on_retry` receives a failed attempt and the pause in seconds before the next one; `before_repeat` is
    awaited before each attempt but the first.
    """

    attempt: Callable[[int, float], Awaitable[R]]
    prompt_tokens: float
    reply_tokens: float = 0.0
    model: str | None = None
    total_s: float | None = None
    on_retry: Callable[[CallRecord, float], None] | None = None
    before_repeat: Callable[[], Awaitable[None]] | None = None

    @property
    def tokens(self) -> float:
        """The estimated tokens of prompt and reply."""
        return self.prompt_tokens + self.reply_tokens

    @property
    def usage(self) -> Usage:
        """The estimated usage of the call."""
        return Usage(input=round(self.prompt_tokens), output=round(self.reply_tokens))


def prompt_tokens(request: ProviderRequest) -> float:
    """Return the estimated number of tokens in the prompt of a request."""
    chat = sum(len(turn.content) for turn in request.chat_prompt or ()) or len(request.question)
    return (chat + len(request.system_prompt or "")) / CHARACTERS_PER_TOKEN


def max_reply_tokens(request: ProviderRequest, target: ResolvedTarget) -> int | None:
    """Return the limit on the tokens of a reply, or None if neither the request nor the target sets one."""
    return request.max_output_tokens or getattr(target.settings, "max_output_tokens", None)


async def within(call: Callable[..., Any], argument: object, timeout_s: float) -> Any:
    """Call a provider, and cancel the call if it overruns its deadline by more than `OVERTIME_S`."""
    try:
        return await call_user_code(call, argument, timeout_s=timeout_s + OVERTIME_S, inline=True)
    except DeadlineError:
        failure = Failure("deadline", f"no answer within {timeout_s:g} s", retryable=True)
        raise ProviderError(failure) from None
