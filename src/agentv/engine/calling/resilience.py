"""A provider with retries, deadlines, rate limits, cache and budget, as targets and judges are called."""

import asyncio
import inspect
import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.engine.calling.budget import Budget, BudgetAccount, refusal
from agentv.engine.calling.calls import (
    CHARACTERS_PER_TOKEN,
    Call,
    R,
    call_with_deadline,
    cost_of_calls,
    estimated_usage,
    max_reply_tokens,
    prompt_tokens,
)
from agentv.engine.planning.prices import price_of
from agentv.execution.auto_workers import WorkerTuner
from agentv.execution.limits import AccountLimiter, Permit
from agentv.execution.retry import partial_or_usage, requested_delay_s, retry_call, waited_s
from agentv.execution.user_code import check_stray_cancel, off_the_clock
from agentv.scoring.text.vectors import vectors_problem
from agentv.types.errors import QuotaError, TargetError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock
from agentv.types.provider import (
    STRUCTURED_OUTPUT_NOTE,
    BatchProvider,
    CallRecord,
    ClosingProvider,
    EmbeddingProvider,
    EmbeddingRequest,
    EmbeddingResponse,
    Provider,
    ProviderError,
    ProviderRequest,
    ProviderResponse,
)
from agentv.types.targets import ResolvedTarget
from agentv.types.usage import AMOUNT_NOTES, Price, Usage, total_usage

if TYPE_CHECKING:
    from agentv.engine.calling.target_answer_cache import TargetAnswerCache


RATE_LIMITED_STATUS = 429
"""The HTTP status that lowers the account's rate. If a server is overloaded (503, 529), calls are only retried."""


class PacedAttempts:
    """The attempts to call one target. With a limiter, each attempt waits for a permit of the target's account."""

    def __init__(self, limiter: AccountLimiter | None, target: ResolvedTarget, *, counts_attempts: bool) -> None:
        self.limiter = limiter
        self._policy = target.retry
        self._attempt_s = target.try_timeout_s
        self._counts_attempts = counts_attempts
        self.tuner: WorkerTuner | None = None
        """Sees the time of each attempt if the number of workers follows it."""

    def attempt(self, call: "Call[R]", first: Permit | None, number: int, ends_at: float) -> Awaitable[R]:
        """Make attempt `number`. Attempt 0 uses the permit `first`; `ends_at` is the deadline of all, in loop time."""
        return self._repeat(call, number, ends_at) if number else self._with_permit(call, first, 0, ends_at)

    async def _repeat(self, call: "Call[R]", number: int, ends_at: float) -> R:
        if call.before_repeat is not None:
            await call.before_repeat()
        return await self._with_permit(call, await self.acquire(call.tokens, until=ends_at), number, ends_at)

    def _with_permit(self, call: "Call[R]", permit: Permit | None, number: int, ends_at: float) -> Awaitable[R]:
        timeout_s = self._attempt_s
        if ends_at != math.inf:
            left_s = round(ends_at - asyncio.get_running_loop().time(), 3)  # in messages: no answer within 0.3 s
            timeout_s = max(0.0, min(timeout_s, left_s))
        response = call.attempt(number, timeout_s)
        if self.tuner is not None:
            response = self._timed(self.tuner, response)
        return response if permit is None else self._reporting_usage(permit, response)

    async def _timed(self, tuner: WorkerTuner, attempt: Awaitable[R]) -> R:
        """Return the response of an attempt, and report its time, or that it was refused, to the tuner."""
        now, sent_at = asyncio.get_running_loop().time, tuner.policy.changes
        began = now()
        try:
            response = await attempt
        except ProviderError as error:
            if error.failure.kind == "rate_limited":
                tuner.refused(sent_at=sent_at)
            raise
        tuner.answered(now() - began - waited_s(response), sent_at=sent_at)
        return response

    async def acquire(self, tokens: float, *, until: float = math.inf) -> Permit | None:
        """Wait for a permit of the account, at most until the loop time `until`.

        The deadlines of enclosing calls are extended by the wait.

        `tokens` is the estimate for the attempt. Raises ProviderError of kind `deadline`, or `budget` when the shared
        quota does not answer.
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
        except QuotaError as error:
            raise refusal(str(error)) from None
        except TimeoutError:
            failure = Failure("deadline", "the rate limit of the account allowed no call before the deadline")
            raise ProviderError(failure) from None

    async def _reporting_usage(self, permit: Permit, attempt: Awaitable[R]) -> R:
        """Return the response of an attempt, and report its usage or failure to the account's limiter."""
        try:
            response = await attempt
            usage = response.usage
        except BaseException as error:
            self._release(permit, error)
            raise
        permit.done(used_tokens=_tokens(usage), requests=self._requests(usage), quota=response.quota)
        return response

    def _release(self, permit: Permit, error: BaseException) -> None:
        """Release the permit of a failed attempt; only a rejection by the rate limit lowers the rate."""
        if not isinstance(error, ProviderError):
            permit.done(refused=None)
            return
        failure, partial_response = error.failure, partial_or_usage(error)
        is_refused = failure.http_status == RATE_LIMITED_STATUS
        usage = None if partial_response is None else partial_response.usage
        permit.done(
            used_tokens=_tokens(usage),
            requests=self._requests(usage),
            refused=is_refused or None,
            retry_after_s=requested_delay_s(failure, self._policy) if is_refused else None,
        )

    def _requests(self, usage: Usage | None) -> int:
        """Return the number of requests that one attempt made to the account; 1 for programs and functions."""
        return 1 if usage is None or self._counts_attempts else max(1, usage.requests)


def _tokens(usage: Usage | None) -> int | None:
    return None if usage is None else usage.total


MAX_TRANSPORT_FAILURES = 20
"""Transport failures in a row after which a target is stopped."""

BATCH_PRICE_FACTOR = 0.5
"""The price of a request in a vendor's batch, as a fraction of the price of a single call."""

EXPECTED_REPLY_TOKENS = 300.0
"""The first estimate of the tokens in a reply; corrected after each reply."""


def _with_failed_attempts(response: R, failed: Sequence[CallRecord]) -> R:
    """Return a response whose usage and cost include those of the failed attempts before it."""
    usage = total_usage(call.usage for call in failed)
    cost_usd = cost_of_calls(failed)
    if usage is None and cost_usd is None:
        return response
    total_usd = None if cost_usd is None or response.cost_usd is None else cost_usd + response.cost_usd
    response = replace(response, usage=total_usage((usage, response.usage)), cost_usd=total_usd)
    if any(call.estimated for call in failed) and isinstance(response, ProviderResponse):
        return replace(response, estimated=True)
    return response


_NOTES_ON_JUDGES = (*AMOUNT_NOTES, STRUCTURED_OUTPUT_NOTE)


class ResilientProvider:
    """A provider whose calls are retried, limited, cached and paid from the budget.

    `counts_attempts` is True for programs and functions, False for model APIs and web services. If it is True, each
    attempt has its number in `request.attempt`; if it is False, the attempts are in `calls` only. An `auth` failure, or
    20 transport failures in a row, stops the target: later calls fail at once with the same kind. `limiter` has the
    rate limits of the account, `answer_cache` the cached answers, `budget` the money of the run; with `needs_costs`,
    it can be kept only by the costs that the target reports. `is_code` is copied from the provider's Spec.
    """

    def __init__(
        self,
        provider: Provider,
        target: ResolvedTarget,
        *,
        counts_attempts: bool,
        clock: Clock,
        rng: random.Random,
        prices: Mapping[str, JsonObject],
        limiter: AccountLimiter | None = None,
        answer_cache: "TargetAnswerCache | None" = None,
        budget: Budget | None = None,
        needs_costs: bool = False,
        is_code: bool = False,
        note: Callable[[str], None] = lambda _message: None,
    ) -> None:
        self.provider = provider
        self.target = target
        self.counts_attempts = counts_attempts
        self.is_code = is_code
        self._note = note
        self._clock = clock
        self._rng = rng
        self._prices = prices
        self._price_by_model: dict[str | None, Price | None] = {}
        self._attempts = PacedAttempts(limiter, target, counts_attempts=counts_attempts)
        self.answer_cache = answer_cache
        self.account = (
            None if budget is None else BudgetAccount(budget, target.name, self.cost_of, needs_costs=needs_costs)
        )
        self._reply_tokens = EXPECTED_REPLY_TOKENS
        # Token estimates serve the limiter and the budget only.
        self._estimates_tokens = limiter is not None or budget is not None
        keeps_deadlines = getattr(provider, "keeps_deadlines", False)
        self._keeps_deadlines: bool = keeps_deadlines and inspect.iscoroutinefunction(provider.invoke)
        self._transport_failures = 0
        self._stopped: ProviderError | None = None

    @property
    def kind(self) -> str:
        """The canonical provider name."""
        return self.provider.kind

    def tune(self, tuner: WorkerTuner) -> None:
        """Report the time of each later attempt to `tuner`."""
        self._attempts.tuner = tuner

    async def invoke(self, request: ProviderRequest) -> ProviderResponse:
        """Send a judge's request, retried as the policy allows. Raises ProviderError with all attempts in `calls`."""
        if self.answer_cache is None:
            response = await self._call(request)
        else:
            response = await self.answer_cache.recall(request, partial(self._call, request), is_judge=True)
        self._report_notes(response)
        return response

    def _report_notes(self, response: ProviderResponse | EmbeddingResponse) -> None:
        """Report the notes on a judge or an embedding model that people should see once per run."""
        for note in response.notes:
            if note in _NOTES_ON_JUDGES:
                self._note(f"target {self.target.name!r}: {note}")

    def invoke_within(
        self,
        request: ProviderRequest,
        *,
        total_s: float | None,
        on_retry: Callable[[CallRecord, float], None] | None = None,
        before_repeat: Callable[[], Awaitable[None]] | None = None,
    ) -> Awaitable[ProviderResponse]:
        """Send the request of a case. `total_s` limits all attempts together; see `Call` for the other arguments."""
        if self.answer_cache is None:
            return self._call(request, total_s=total_s, on_retry=on_retry, before_repeat=before_repeat)
        call = partial(self._call, request, total_s=total_s, on_retry=on_retry, before_repeat=before_repeat)
        return self.answer_cache.recall(request, call, is_judge=False)

    def _call(
        self,
        request: ProviderRequest,
        *,
        total_s: float | None = None,
        on_retry: Callable[[CallRecord, float], None] | None = None,
        before_repeat: Callable[[], Awaitable[None]] | None = None,
    ) -> Awaitable[ProviderResponse]:
        prompt = reply = 0.0
        if self._estimates_tokens:
            prompt = prompt_tokens(request)
            reply = min(self._reply_tokens, max_reply_tokens(request, self.target) or math.inf)
        return self._within_budget(
            Call(
                attempt=partial(self._attempt, request),
                prompt_tokens=prompt,
                reply_tokens=reply,
                request=request,
                total_s=total_s,
                on_retry=on_retry,
                before_repeat=before_repeat,
            )
        )

    def _attempt(self, request: ProviderRequest, number: int, timeout_s: float) -> Awaitable[ProviderResponse]:
        attempt = number if self.counts_attempts else request.attempt
        if timeout_s != request.timeout_s or attempt != request.attempt:
            request = replace(request, attempt=attempt, timeout_s=timeout_s)
        invoke = self.provider.invoke
        # A provider that enforces its deadline itself needs no second timer.
        if self._keeps_deadlines:
            return invoke(request)
        may_repeat = self.target.retry.retry_timeouts or not self.counts_attempts
        return call_with_deadline(invoke, request, timeout_s, kind=ProviderResponse, retryable=may_repeat)

    async def embed(self, texts: tuple[str, ...], *, on_sent: Callable[[], None]) -> EmbeddingResponse:
        """Return the vectors of texts, retried as the policy allows.

        `on_sent` is called when the account's rate limit has let an attempt through. Raises ProviderError.
        """
        provider = self.provider
        if not isinstance(provider, EmbeddingProvider):
            raise TargetError(f"target {self.target.name!r} ({self.target.provider}) cannot make embeddings")

        async def attempt(_number: int, timeout_s: float) -> EmbeddingResponse:
            on_sent()
            request = EmbeddingRequest(texts, timeout_s)
            response: EmbeddingResponse = await call_with_deadline(
                provider.embed, request, timeout_s, kind=EmbeddingResponse
            )
            if problem := vectors_problem(response.vectors, texts=len(texts)):
                raise ProviderError(Failure("unexpected_shape", f"the response has {problem}"))
            return response

        tokens = sum(map(len, texts)) / CHARACTERS_PER_TOKEN
        response = await self._within_budget(Call(attempt, tokens))
        self._report_notes(response)
        return response

    def _within_budget(self, call: "Call[R]") -> Awaitable[R]:
        """Make one call, retried as the policy allows, within the budget if there is one."""
        if self._stopped is not None:
            raise self._refused(self._stopped)
        if self.account is None:
            return self._with_retries(call)
        model = None if call.request is None else call.request.model
        return self.account.pay(partial(self._with_retries, call), estimate_usd=self.cost_of(call.usage, model) or 0.0)

    async def _with_retries(self, call: "Call[R]") -> R:
        """Make one call, each attempt within the rate limits of the account."""
        attempts = self._attempts
        # The deadline for all attempts starts with the first permit: the wait for it is not the target's time.
        first = None if attempts.limiter is None else await attempts.acquire(call.tokens)
        try:
            response, calls = await retry_call(
                partial(attempts.attempt, call, first),
                self.target.retry,
                rng=self._rng,
                clock=self._clock,
                on_retry=call.on_retry,
                deadline_s=call.total_s,
                partial_of=partial(self._incomplete_response, call.request),
            )
        except ProviderError as error:
            self._count_failure(error)
            raise
        except asyncio.CancelledError as error:
            check_stray_cancel(error)
            raise
        self._transport_failures = 0
        response = replace(response, calls=calls, cost_usd=self._cost_usd(response))
        if len(calls) > 1:
            response = _with_failed_attempts(response, calls[:-1])
        if call.reply_tokens and response.usage is not None:
            self._reply_tokens += (response.usage.output - self._reply_tokens) / 10
        return response

    def _incomplete_response(self, request: ProviderRequest | None, error: ProviderError) -> ProviderResponse | None:
        """Return the incomplete response of a failed attempt, with its cost if a price is known.

        Usage that the vendor did not report is estimated from the texts, and marked as estimated.
        """
        response = partial_or_usage(error)
        if response is None or response.cost_usd is not None:
            return response
        model = response.model or (None if request is None else request.model)
        usage = response.usage
        is_estimated = usage is None and request is not None
        if usage is None and request is not None:
            usage = estimated_usage(request, response)
        cost_usd = None if usage is None else self.cost_of(usage, model)
        if cost_usd is None:
            return response
        return replace(response, usage=usage, cost_usd=cost_usd, estimated=response.estimated or is_estimated)

    async def invoke_batch_within(
        self, provider: BatchProvider, requests: Sequence[ProviderRequest], *, total_s: float | None
    ) -> Mapping[str, ProviderResponse | Failure]:
        """Send all requests in one call, without retries: a case without an answer may be called on its own later."""
        if self._stopped is not None:
            raise self._refused(self._stopped)
        # A provider that works on a few requests at a time needs the timeout once for each round of them.
        rounds = math.ceil(len(requests) / getattr(provider, "max_workers", len(requests)))
        call_s = self.target.try_timeout_s * rounds
        timeout_s = min(call_s, math.inf if total_s is None else total_s)
        timed = tuple(replace(request, timeout_s=timeout_s) for request in requests)
        try:
            answers: Mapping[str, ProviderResponse | Failure] = await call_with_deadline(
                provider.invoke_batch, timed, timeout_s
            )
        except ProviderError as error:
            priced = {name: replace(part, cost_usd=self._cost_usd(part)) for name, part in error.partials.items()}
            raise ProviderError(error.failure, partials=priced) from None
        return {case_id: self.priced(answer) for case_id, answer in answers.items()}

    def priced(self, answer: ProviderResponse | Failure, *, in_batch: bool = False) -> ProviderResponse | Failure:
        """Return an answer with its cost; in a vendor's batch, half of that of a single call."""
        if isinstance(answer, Failure):
            return answer
        cost_usd = self._cost_usd(answer)
        if in_batch and cost_usd is not None:
            cost_usd *= BATCH_PRICE_FACTOR
        return replace(answer, cost_usd=cost_usd)

    def _refused(self, stopped: ProviderError) -> ProviderError:
        """Return the failure of a call that is not made because the failure `stopped` stopped the target."""
        message = f"not called: target {self.target.name!r} was stopped after: {stopped.failure.message}"
        return ProviderError(replace(stopped.failure, message=message, retryable=False))

    def _count_failure(self, error: ProviderError) -> None:
        kind = error.failure.kind
        self._transport_failures = self._transport_failures + 1 if kind == "transport" else 0
        if kind == "auth" or self._transport_failures >= MAX_TRANSPORT_FAILURES:
            self._stopped = error

    def _cost_usd(self, response: ProviderResponse | EmbeddingResponse) -> float | None:
        if response.cost_usd is not None or response.usage is None:
            return response.cost_usd
        return self.cost_of(response.usage, response.model)

    def cost_of(self, usage: Usage, model: str | None = None) -> float | None:
        """Return the cost of tokens in dollars, or None if no price is known."""
        if model not in self._price_by_model:
            # A server may report another name for its model, or none: then the configured name has the price.
            configured = getattr(self.target.settings, "model", None)
            found = (price_of(self.target, name, self._prices) for name in (model, configured))
            self._price_by_model[model] = next((price for price in found if price is not None), None)
        price = self._price_by_model[model]
        return None if price is None else price.cost_usd(usage)

    async def aclose(self) -> None:
        """Close the provider's connections."""
        if isinstance(self.provider, ClosingProvider):
            await self.provider.aclose()
