"""`mock`: canned answers without any call, with optional delays and failures."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from typing import Annotated, cast

from msgspec import Meta, Struct

from agentv.messages.shapes.reading import read_messages
from agentv.types.failures import FAILURE_KINDS, Failure, FailureKind
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.protocols import ProviderTools
from agentv.types.provider import ProviderError, ProviderRequest, ProviderResponse, last_answer
from agentv.types.targets import ResolvedTarget

_RETRYABLE: tuple[FailureKind, ...] = ("rate_limited", "server_error", "transport")


class MockSettings(Struct, frozen=True):
    """The answers, delays and failures of the mock."""

    response: Annotated[
        str | Mapping[str, str],
        Meta(
            description="Answer, or a map from case id to answer; `ID/turn-2` is the answer to a conversation's turn."
        ),
    ] = ""
    output_messages: Annotated[
        Sequence[JsonObject] | None,
        Meta(description="Messages to return; without `response`, the last assistant message is the answer."),
    ] = None
    delay_ms: Annotated[float, Meta(description="Delay before each answer.")] = 0
    delay_min_ms: Annotated[float | None, Meta(description="Lower bound of a random delay.")] = None
    delay_max_ms: Annotated[float | None, Meta(description="Upper bound of a random delay.")] = None
    fail_every: Annotated[int | None, Meta(description="Let every n-th call fail (1: all calls).")] = None
    error: Annotated[
        str | None,
        Meta(description="Error of failing calls: a failure kind or any message. Without `fail_every`, all fail."),
    ] = None

    def __post_init__(self) -> None:
        """Reject invalid delays and counts."""
        if min(self.delay_ms, self.delay_min_ms or 0, self.delay_max_ms or 0) < 0:
            raise ValueError("delay_ms, delay_min_ms and delay_max_ms must not be negative")
        if (self.delay_max_ms or self.delay_min_ms or 0) < (self.delay_min_ms or 0):
            raise ValueError("delay_max_ms must not be less than delay_min_ms")
        if self.fail_every is not None and self.fail_every < 1:
            raise ValueError("fail_every must be at least 1")
        self.messages()

    def messages(self) -> tuple[Message, ...] | None:
        """Return the configured messages. Raises MessageError for one that is not understood."""
        return None if self.output_messages is None else read_messages(self.output_messages, "output_messages")


class MockProvider:
    """Answers from its settings. Random delays depend only on the case, the trial and the attempt."""

    kind = "mock"

    def __init__(self, target: ResolvedTarget, tools: ProviderTools) -> None:  # noqa: ARG002 - the factory's signature
        self._settings = settings = cast(MockSettings, target.settings)
        self._messages = settings.messages()
        self._failure = _failure(settings.error)
        self._calls = 0

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Return the canned answer, or fail as configured."""
        self._calls += 1
        delay_ms = self._delay_ms(request)
        if delay_ms:
            await _wait(delay_ms / 1000, request.timeout_s)
        if self._fails():
            raise ProviderError(self._failure)
        return ProviderResponse(self._text(request), output_messages=self._messages)

    def _fails(self) -> bool:
        if self._settings.fail_every is None:
            return self._settings.error is not None
        return self._calls % self._settings.fail_every == 0

    def _text(self, request: ProviderRequest) -> str:
        response, case_id = self._settings.response, request.eval_case_id
        if isinstance(response, str):
            return response or last_answer(self._messages or ()) or ""
        turn = f"{case_id}/turn-{request.turn}"
        if turn in response:
            return response[turn]
        if case_id not in response:
            raise ProviderError(Failure("target_missing", f"the mock has no response for case {case_id!r}"))
        return response[case_id]

    def _delay_ms(self, request: ProviderRequest) -> float:
        settings = self._settings
        if settings.delay_min_ms is None and settings.delay_max_ms is None:
            return settings.delay_ms
        low = settings.delay_min_ms or 0.0
        high = low if settings.delay_max_ms is None else settings.delay_max_ms
        seed = f"{request.eval_case_id}/{request.trial}/{request.attempt}"
        return random.Random(seed).uniform(low, high)  # noqa: S311 - a delay, not a secret


async def _wait(delay_s: float, timeout_s: float | None) -> None:
    if timeout_s is None or delay_s <= timeout_s:
        await asyncio.sleep(delay_s)
    else:
        await asyncio.sleep(timeout_s)
        raise ProviderError(Failure("target_timeout", f"no answer within {timeout_s:g} s", retryable=True))


def _failure(error: str | None) -> Failure:
    if error in FAILURE_KINDS:
        kind = cast(FailureKind, error)
        return Failure(kind, f"the mock fails with {error}, as configured", retryable=kind in _RETRYABLE)
    return Failure("server_error", error or "the mock fails, as configured")
