"""The vendors' half-price batch APIs. A batch's ticket is saved before the wait, so that no batch is paid twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate
from typing import TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.budget import BudgetAccount
from agentv.engine.calling.calls import max_reply_tokens, prompt_tokens
from agentv.engine.calling.resilience import BATCH_PRICE_FACTOR, ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.calling.target_answer_cache import TargetAnswerCache
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.execution.retry import is_retryable
from agentv.scoring.keys.request_key import repeated_key
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import BatchApiProvider, BatchTicket, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.records.answer import ResultKey
from agentv.types.usage import Usage


class _CacheKeys(Struct, frozen=True):
    """The cache keys of a request."""

    request: str
    """The same for all equal requests of a run."""
    repeated: str
    """Different for each of several equal requests of a run."""


class BatchAnswerCache(Struct):
    """The cache of answers as one batch uses it; requests are known by their names in the batch.

    Without a cache nothing is found or saved.
    """

    answer_cache: TargetAnswerCache | None
    _missing: dict[str, "_CacheKeys"] = field(default_factory=dict)

    async def find(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderResponse]:
        """Return the answers that are in the cache, by name."""
        found: dict[str, ProviderResponse] = {}
        if self.answer_cache is None:
            return found
        for name, request in requests.items():
            key = await self.answer_cache.key_of(request)
            if key is None:
                continue
            repeated = repeated_key(key, self.answer_cache.run_cache.count_request(key))
            cached = await self.answer_cache.find(repeated)
            if cached is not None:
                found[name] = cached
            else:
                self._missing[name] = _CacheKeys(key, repeated)
        return found

    async def save(self, answers: Mapping[str, ProviderResponse | Failure], sent_at: datetime) -> None:
        """Save the answers to the requests that were sent at `sent_at`."""
        for name, answer in answers.items():
            if self.answer_cache is not None and name in self._missing and isinstance(answer, ProviderResponse):
                await self.answer_cache.save(self._missing.pop(name).repeated, answer, sent_at)

    def close(self) -> None:
        """Release the keys of requests that got no answer: a single call may follow and save its answer under them."""
        for keys in self._missing.values():
            if self.answer_cache is not None:
                self.answer_cache.run_cache.uncount_request(keys.request)


class Reservation(Struct):
    """The cost of one batch, in dollars: the reserved amount until the batch is settled."""

    usd: float
    account: BudgetAccount | None

    def settle(self, answers: Mapping[str, ProviderResponse | Failure]) -> None:
        """Replace the reserved amount by the cost of the answers; requests without an answer cost nothing."""
        costs = [answer.cost_usd or 0.0 for answer in answers.values() if isinstance(answer, ProviderResponse)]
        self.usd = sum(costs)
        if self.account is not None and costs:
            self.account.record_cost(max(costs))


class BatchAccount(Struct, frozen=True):
    """Reserves the budget for the batches of one target. Without a budget every batch fits."""

    resilient: ResilientProvider

    async def fitting_requests(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderRequest]:
        """Return the first requests, as many as the budget has room for.

        While other calls are in flight, wait until they are settled. Raises ProviderError of kind `budget`, and stops
        the run, if not even one request fits.
        """
        account = self.resilient.account
        if account is None:
            return dict(requests)
        while True:
            budget = account.budget
            sums_usd = list(accumulate(self._max_cost_usd(account, request) for request in requests.values()))
            wait_s = None if budget.fits(sums_usd[-1]) else await budget.lease(sums_usd[0], sums_usd[-1])
            fitting = sum(map(budget.fits, sums_usd))
            if fitting == len(sums_usd) or (fitting and not budget.in_flight):
                return dict(list(requests.items())[:fitting])
            if wait_s is None and not budget.in_flight:
                raise budget.refuse(account.target, sums_usd[0])
            await budget.wait_for_settlement(wait_s)

    @contextmanager
    def paying(self, requests: Mapping[str, ProviderRequest]) -> Iterator[Reservation]:
        """Reserve budget for a batch while it is in flight; an unsettled batch costs the reserved amount."""
        account = self.resilient.account
        if account is None:
            yield Reservation(0.0, None)
            return
        reserved = sum(self._max_cost_usd(account, request) for request in requests.values())
        reservation = Reservation(reserved, account)
        account.budget.reserve(reserved)
        try:
            yield reservation
        finally:
            account.budget.settle(reserved, reservation.usd)

    def _max_cost_usd(self, account: BudgetAccount, request: ProviderRequest) -> float:
        """Return the cost of a request with the longest reply; at least that of the most expensive call so far."""
        usage = Usage(input=round(prompt_tokens(request)), output=max_reply_tokens(request, self.resilient.target) or 0)
        single_call_usd = account.cost_of(usage) or 0.0
        return max(single_call_usd * BATCH_PRICE_FACTOR, account.max_call_cost_usd)


NoteEvent: TypeAlias = Callable[[str, Mapping[str, JsonValue]], None]
SaveAnswers: TypeAlias = Callable[[Mapping[ResultKey, ProviderResponse | Failure]], None]

FIRST_PAUSE_S = 1.0
MAX_PAUSE_S = 60.0
"""The longest pause between two polls of a batch, or between two attempts of a call."""

ATTEMPTS = 10
"""Attempts of one call of the batch API; many, because the batch may be paid for already."""

LOST_BATCH_KIND = "bad_request"
"""The failure kind of a batch that the vendor cancelled or does not know. Any other failure (a revoked key, an
unreadable response) says nothing about the batch, which is paid for and may be fetched later."""

NOT_ACCEPTED_STATUSES = (429, 503)
"""HTTP statuses after which a batch is submitted again: it was certainly not accepted, so it is not paid twice."""

MAX_BATCH_SIZE = 10_000
"""Requests in one batch by default. The vendors accept more, but a lost batch loses all of its requests."""

T = TypeVar("T")


class BatchAnswers(Struct, frozen=True):
    """The answers of a batch, by answer key."""

    ticket: BatchTicket
    answers: Mapping[str, ProviderResponse | Failure]
    is_open: bool = False
    """True if a later run has to fetch the batch."""


class BatchApi(Struct, frozen=True):
    """Submits batches and waits for them."""

    provider: BatchApiProvider
    resilient: ResilientProvider
    runtime: Runtime
    note: NoteEvent
    """Writes an event of the run."""
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def call(self, cases: Sequence[PreparedCase], save: SaveAnswers) -> None:
        """Pass the answer or failure of each case to `save`; an open batch of an earlier run is fetched first.

        A batch that cannot be reached any more is not paid twice: it stays open for the next run, and its cases fail.
        Raises ProviderError if the vendor rejects or cancels the batch.
        """
        by_key: dict[str, list[PreparedCase]] = {}
        for prepared in cases:  # two suites may have the same case
            by_key.setdefault(prepared.answer_key, []).append(prepared)
        requests = {key: each[0].request for key, each in by_key.items()}
        answer_cache, sent_at = BatchAnswerCache(self.resilient.answer_cache), self.runtime.clock()

        def save_all(answers: Mapping[str, ProviderResponse | Failure]) -> None:
            for key, answer in answers.items():
                first, *others = (prepared.task.slot for prepared in by_key[key])
                save({first: answer, **dict.fromkeys(others, _without_cost(answer))})

        try:
            cached = await answer_cache.find(requests)
            save_all(cached)
            remaining = {key: request for key, request in requests.items() if key not in cached}
            async for answers in self._answers_of_batches(remaining, frozenset(requests)):
                save_all(answers)
                await answer_cache.save(answers, sent_at)
        finally:
            answer_cache.close()

    async def _answers_of_batches(
        self, remaining: Mapping[str, ProviderRequest], keys: frozenset[str]
    ) -> AsyncIterator[Mapping[str, ProviderResponse | Failure]]:
        """Yield the answers of one batch after another, until no request remains. `keys` are those of all requests."""
        while remaining:
            batch = await self._resume_open_batch(remaining, keys) or await self._submit_batch(remaining)
            yield batch.answers
            if not batch.is_open:
                self.note("batch_fetched", {"id": batch.ticket.id})
            in_batch = frozenset(batch.ticket.keys)
            remaining = {key: request for key, request in remaining.items() if key not in in_batch}

    async def _resume_open_batch(
        self, remaining: Mapping[str, ProviderRequest], keys: frozenset[str]
    ) -> BatchAnswers | None:
        """Return the answers of a batch submitted by an earlier run, or by this run before it was resumed.

        None if there is no such batch, or if it is lost. `keys` also has the keys of requests that are answered already
        (from the cache, or by another batch): an open batch may contain them, too.
        """
        ticket = self.runtime.find_open_batch(self.resilient.target.name, frozenset(remaining), keys)
        if ticket is None:
            return None
        self._report(f"resuming batch {ticket.id}, submitted by an earlier run")
        requests = {key: remaining[key] for key in ticket.keys if key in remaining}
        try:
            with BatchAccount(self.resilient).paying(requests) as reservation:
                return await self._fetch_answers(ticket, requests, reservation)
        except ProviderError as error:
            self._report(f"batch {ticket.id} is lost ({error.failure.message}); submitting a new one")
            return None

    async def _submit_batch(self, remaining: Mapping[str, ProviderRequest]) -> BatchAnswers:
        """Return the answers of a new batch of as many requests as the budget has room for."""
        account = BatchAccount(self.resilient)
        requests = await account.fitting_requests(remaining)
        with account.paying(requests) as reservation:
            try:
                ticket = await self._with_retries(
                    lambda: self.provider.submit_batch(requests), may_repeat=_was_not_accepted
                )
            except ProviderError as error:
                if error.failure.http_status is not None:  # with no response at all, it may have been accepted
                    reservation.settle({})
                raise
            return await self._fetch_answers(ticket, requests, reservation)

    async def _fetch_answers(
        self, ticket: BatchTicket, requests: Mapping[str, ProviderRequest], reservation: Reservation
    ) -> BatchAnswers:
        """Wait for a batch and fetch it. The event `batch_submitted` lets a later run resume it."""
        self.note("batch_submitted", {"id": ticket.id, "target": self.resilient.target.name, "keys": list(ticket.keys)})
        try:
            await self._wait(ticket)
            found = await self._with_retries(lambda: self.provider.fetch_batch(ticket))
        except ProviderError as error:
            if error.failure.kind == LOST_BATCH_KIND:
                reservation.settle({})
                self.note("batch_failed", {"id": ticket.id})
                raise
            message = f"batch {ticket.id} cannot be reached: {error.failure.message}; repeat the run to resume it"
            failure = replace(error.failure, message=message, http_status=None, retryable=False)
            return BatchAnswers(ticket, dict.fromkeys(requests, failure), is_open=True)
        priced = {key: self.resilient.priced(found[key], in_batch=True) for key in requests if key in found}
        reservation.settle(priced)
        return BatchAnswers(ticket, priced)

    async def _wait(self, ticket: BatchTicket) -> None:
        """Poll at growing intervals until the batch has ended."""
        pause_s, reported = FIRST_PAUSE_S, ""
        while True:
            state = await self._with_retries(lambda: self.provider.poll_batch(ticket))
            if state.is_over:
                return
            if state.status != reported:
                self._report(f"batch {ticket.id}: {state.status}")
                reported = state.status
            await self.sleep(pause_s)
            pause_s = min(pause_s * 2, MAX_PAUSE_S)

    async def _with_retries(
        self, call: Callable[[], Awaitable[T]], *, may_repeat: Callable[[Failure], bool] = lambda _failure: True
    ) -> T:
        """Call up to `ATTEMPTS` times while failures are retryable and `may_repeat`. Raises the last ProviderError."""
        for number in range(ATTEMPTS - 1):
            try:
                return await call()
            except ProviderError as error:
                if not self._is_retryable(error.failure) or not may_repeat(error.failure):
                    raise
            await self.sleep(min(FIRST_PAUSE_S * 2**number, MAX_PAUSE_S))
        return await call()

    def _is_retryable(self, failure: Failure) -> bool:
        return is_retryable(failure, self.resilient.target.retry)

    def _report(self, message: str) -> None:
        """Show the user a message about the target."""
        self.runtime.note(f"target {self.resilient.target.name!r}: {message}")


def _without_cost(answer: ProviderResponse | Failure) -> ProviderResponse | Failure:
    """Return an answer without usage and cost, for other rows with the same request."""
    return answer if isinstance(answer, Failure) else replace(answer, usage=None, cost_usd=0.0)


def _was_not_accepted(failure: Failure) -> bool:
    return failure.http_status in NOT_ACCEPTED_STATUSES
