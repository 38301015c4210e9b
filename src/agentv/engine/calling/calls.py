"""One call of a provider: its attempts, its estimated tokens, and its deadline."""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Generic, TypeVar

from msgspec import Struct

from agentv.execution.cancelled_calls import attached_partial
from agentv.execution.retry import OVERTIME_S
from agentv.execution.user_code import DeadlineError, call_own_code, call_user_code, is_own_code
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import compact_json, content_text
from agentv.types.provider import CallRecord, EmbeddingResponse, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import Usage

CHARACTERS_PER_TOKEN = 4.0

R = TypeVar("R", ProviderResponse, EmbeddingResponse)


class Call(Struct, Generic[R], frozen=True, gc=False):
    """One call with retries."""

    attempt: Callable[[int, float], Awaitable[R]]
    """Makes one attempt, with its number, from 0, and its deadline in seconds."""
    prompt_tokens: float
    """The estimated tokens of the prompt of an attempt."""
    reply_tokens: float = 0.0
    """The estimated tokens of the reply to an attempt."""
    request: ProviderRequest | None = None
    """None for embeddings."""
    total_s: float | None = None
    """The limit on the time of all attempts together."""
    on_retry: Callable[[CallRecord, float], None] | None = None
    """Receives a failed attempt and the pause in seconds before the next one."""
    before_repeat: Callable[[], Awaitable[None]] | None = None
    """Awaited before each attempt but the first."""

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
    characters = sum(len(turn.content) for turn in request.chat_prompt or ()) or len(request.question)
    return (characters + len(request.system_prompt or "")) / CHARACTERS_PER_TOKEN


def max_reply_tokens(request: ProviderRequest, target: ResolvedTarget) -> int | None:
    """Return the limit on the tokens of a reply, or None if neither the request nor the target sets one."""
    return request.max_output_tokens or getattr(target.settings, "max_output_tokens", None)


def estimated_usage(request: ProviderRequest, response: ProviderResponse) -> Usage:
    """Return the tokens of an attempt, estimated from its texts at 4 characters a token.

    Input is the prompt and the outputs of tools; output is the texts of the target, its reasoning and its tool calls.
    """
    messages = response.output_messages or ()
    tool_calls = [call for message in messages for call in message.tool_calls]
    characters = sum(len(content_text(message.content)) for message in messages) or len(response.text)
    characters += len(response.reasoning or "") + sum(len(call.tool) + _length(call.input) for call in tool_calls)
    tool_outputs = sum(_length(call.output) for call in tool_calls)
    input_tokens = round(prompt_tokens(request) + tool_outputs / CHARACTERS_PER_TOKEN)
    output_tokens = round(characters / CHARACTERS_PER_TOKEN)
    return Usage(input=input_tokens, output=output_tokens, total=input_tokens + output_tokens)


def _length(value: JsonValue) -> int:
    """Return the number of characters of a text, or of another value as JSON."""
    return 0 if value is None else len(value if isinstance(value, str) else compact_json(value))


def cost_of_calls(calls: Iterable[CallRecord]) -> float | None:
    """Return the total cost of failed attempts. Attempts without usage and without a cost are ignored.

    None if no attempt has a known cost, or if an attempt with usage has none.
    """
    costs = [call.cost_usd for call in calls if call.usage is not None or call.cost_usd is not None]
    known = [cost for cost in costs if cost is not None]
    return math.fsum(known) if known and len(known) == len(costs) else None


async def call_with_deadline(
    call: Callable[..., Any],
    argument: object,
    timeout_s: float,
    *,
    kind: type[object] | None = None,
    retryable: bool = True,
) -> Any:
    """Call a provider, and cancel the call if it overruns its deadline by more than `OVERTIME_S`.

    `kind` is the type that the provider must return. `retryable` is True if a cancelled call may be repeated.
    """
    try:
        if is_own_code(call):
            returned = await call_own_code(call, argument, timeout_s=timeout_s + OVERTIME_S)
        else:
            returned = await call_user_code(call, argument, timeout_s=timeout_s + OVERTIME_S, inline=True)
    except DeadlineError as error:
        failure = Failure("deadline", f"no answer within {timeout_s:g} s", retryable=retryable)
        raise ProviderError(failure, partial=attached_partial(error)) from None
    if kind is not None and not isinstance(returned, kind):
        what = f"the provider returned a value of type {type(returned).__name__}; it must return a {kind.__name__}"
        raise ProviderError(Failure("unexpected_shape", what))
    return returned
