"""Half-price batches that take their time: the ticket is stored before the waiting, so that none is paid twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import accumulate
from typing import TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.engine.calling.answer_memory import AnswerMemory
from agentv.engine.calling.budget import BudgetAccount
from agentv.engine.calling.calls import asked_tokens, longest_reply
from agentv.engine.calling.resilience import BATCH_SHARE, ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.prepared_case import Question
from agentv.execution.retry import is_retryable
from agentv.execution.user_code import off_the_clock
from agentv.scoring.keys.request_key import repeated_key
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import BatchApiProvider, BatchTicket, ProviderRequest, ProviderResponse
from agentv.types.records.answer import ResultKey
from agentv.types.usage import Usage


class _Place(Struct, frozen=True):
    """Where an answer is kept: the key of its request, and that of this time it is asked in the run."""

    request: str
    key: str


class BatchMemory(Struct):
    """Finds and keeps the answers to one batch's questions, each under a name of the batch's own.

    Without a cache nothing is found or kept. A question that got no answer may be asked by itself afterwards; what
    comes of that is kept in the same place.
    """

    memory: AnswerMemory | None
    _sought: dict[str, "_Place"] = field(default_factory=dict)

    async def find(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderResponse]:
        """Return the answers that are kept, by name."""
        found: dict[str, ProviderResponse] = {}
        if self.memory is None:
            return found
        for name, request in requests.items():
            key = await self.memory.key_of(request)
            if key is None:
                continue
            repeated = repeated_key(key, self.memory.run.times(key))
            kept = await self.memory.find(repeated)
            if kept is not None:
                found[name] = kept
            else:
                self._sought[name] = _Place(key, repeated)
        return found

    async def keep(self, answers: Mapping[str, ProviderResponse | Failure], began: datetime) -> None:
        """Keep the answers that were asked for since `began`."""
        for name, answer in answers.items():
            if self.memory is not None and name in self._sought and isinstance(answer, ProviderResponse):
                await self.memory.keep(self._sought.pop(name).key, answer, began)

    def close(self) -> None:
        """Leave the places of those that were asked for in vain to whoever asks again."""
        for place in self._sought.values():
            if self.memory is not None:
                self.memory.run.take_back(place.request)


class Reservation(Struct):
    """What one batch costs, in dollars: all that is reserved for it until more is known."""

    usd: float
    account: BudgetAccount | None

    def settle(self, answers: Mapping[str, ProviderResponse | Failure]) -> None:
        """Take in what the batch brought: what it brought no answer to costs nothing."""
        costs = [answer.cost_usd or 0.0 for answer in answers.values() if isinstance(answer, ProviderResponse)]
        self.usd = sum(costs)
        if self.account is not None and costs:
            self.account.learn(max(costs))


class BatchAccount(Struct, frozen=True):
    """Pays for the batches of one target; without a budget there is room for all."""

    resilient: ResilientProvider

    async def room_for(self, requests: Mapping[str, ProviderRequest]) -> dict[str, ProviderRequest]:
        """Return as many of the requests as may be handed in now, from the first on.

        While other calls are under way, what they leave is waited for. Raises ProviderError of kind `budget`, and
        stops the run, when there is no room for a single one.
        """
        account = self.resilient.account
        if account is None:
            return dict(requests)
        while True:
            sums = list(accumulate(self._most_usd(account, request) for request in requests.values()))
            fitting = sum(map(account.budget.fits, sums))
            if fitting == len(sums) or (fitting and not account.budget.in_flight):
                return dict(list(requests.items())[:fitting])
            if not account.budget.in_flight:
                raise account.budget.refuse(account.target, sums[0])
            with off_the_clock():
                await account.budget.change()

    @contextmanager
    def paying(self, requests: Mapping[str, ProviderRequest]) -> Iterator[Reservation]:
        """Reserve for a batch as long as it is under way; an unsettled one costs what is reserved."""
        account = self.resilient.account
        if account is None:
            yield Reservation(0.0, None)
            return
        reserved = sum(self._most_usd(account, request) for request in requests.values())
        reservation = Reservation(reserved, account)
        account.budget.take(reserved)
        try:
            yield reservation
        finally:
            account.budget.settle(reserved, reservation.usd)

    def _most_usd(self, account: BudgetAccount, request: ProviderRequest) -> float:
        longest = longest_reply(request, self.resilient.target) or 0
        most_usd = account.cost_of(Usage(input=round(asked_tokens(request)), output=longest)) or 0.0
        return max(most_usd * BATCH_SHARE, account.dearest_usd)


NoteEvent: TypeAlias = Callable[[str, Mapping[str, JsonValue]], None]
Keep: TypeAlias = Callable[[Mapping[ResultKey, ProviderResponse | Failure]], None]

FIRST_LOOK_S = 1.0
LONGEST_WAIT_S = 60.0
TRIES = 10
"""How many times in a row a look at a batch may fail before it is given up: it is paid for already."""

GONE = "bad_request"
"""How it sounds when the vendor gave a batch up or does not know it. Anything else (a key that was withdrawn, a reply
that nobody can read) says nothing about a batch, which is paid for and may be fetched later."""

NOT_TAKEN = (429, 503)
"""Statuses after which nothing was taken: a batch that nobody confirmed may run all the same, and be paid twice."""

MOST_IN_BATCH = 10_000
"""Requests in one batch when nothing else is said; the vendors take more, but a lost batch loses all of them."""

T = TypeVar("T")


class Answers(Struct, frozen=True):
    """What a batch brought for the requests that were asked, by key. An open one may be fetched later."""

    ticket: BatchTicket
    found: Mapping[str, ProviderResponse | Failure]
    is_open: bool = False


class BatchApi(Struct, frozen=True):
    """Hands in batches and waits for them. `note` writes an event of the run."""

    provider: BatchApiProvider
    resilient: ResilientProvider
    runtime: Runtime
    note: NoteEvent
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def ask(self, questions: Sequence[Question], keep: Keep) -> None:
        """Hand to `keep` what became of each question, from the batch that an earlier run left if there is one.

        A batch that cannot be reached any more is not paid twice: it stays open for the next run, and its questions
        fail. Raises ProviderError when the vendor refuses the batch or gave it up.
        """
        asked: dict[str, list[Question]] = {}
        for question in questions:  # one question may stand in two suites
            asked.setdefault(question.answer_key, []).append(question)
        requests = {key: each[0].request for key, each in asked.items()}
        memory, began = BatchMemory(self.resilient.memory), self.runtime.clock()

        def keep_all(answers: Mapping[str, ProviderResponse | Failure]) -> None:
            for key, answer in answers.items():
                first, *others = (question.slot for question in asked[key])
                keep({first: answer, **dict.fromkeys(others, _for_free(answer))})

        try:
            known = await memory.find(requests)
            keep_all(known)
            left = {key: request for key, request in requests.items() if key not in known}
            async for answers in self._brought(left, frozenset(requests)):
                keep_all(answers)
                await memory.keep(answers, began)
        finally:
            memory.close()

    async def _brought(
        self, left: Mapping[str, ProviderRequest], keys: frozenset[str]
    ) -> AsyncIterator[Mapping[str, ProviderResponse | Failure]]:
        """Yield what one batch after another brings, until nothing is left; `left` are some or all of `keys`."""
        while left:
            answers = await self._taken_up(left, keys) or await self._handed_in(left)
            yield answers.found
            if not answers.is_open:
                self.note("batch_fetched", {"id": answers.ticket.id})
            taken = frozenset(answers.ticket.keys)
            left = {key: request for key, request in left.items() if key not in taken}

    async def _taken_up(self, left: Mapping[str, ProviderRequest], keys: frozenset[str]) -> Answers | None:
        """Return the answers of a batch that was handed in before; None when there is none, or none to be had.

        What is not `left` of the keys came from the cache, and may have been asked for by that batch, too.
        """
        ticket = self.runtime.find_open_batch(self.resilient.target.name, frozenset(left), keys)
        if ticket is None:
            return None
        self._tell(f"taking up batch {ticket.id}, which was handed in before")
        asked = {key: left[key] for key in ticket.keys if key in left}
        try:
            with BatchAccount(self.resilient).paying(asked) as reservation:
                return await self._answers(ticket, asked, reservation)
        except ProviderError as error:
            self._tell(f"batch {ticket.id} is lost ({error.failure.message}); handing in a new one")
            return None

    async def _handed_in(self, left: Mapping[str, ProviderRequest]) -> Answers:
        """Return the answers of a new batch of as much as the budget has room for."""
        account = BatchAccount(self.resilient)
        asked = await account.room_for(left)
        with account.paying(asked) as reservation:
            try:
                ticket = await self._patiently(lambda: self.provider.submit_batch(asked), may_repeat=_was_refused)
            except ProviderError as error:
                if error.failure.http_status is not None:  # else it may have been taken, and nobody told us
                    reservation.settle({})
                raise
            return await self._answers(ticket, asked, reservation)

    async def _answers(
        self, ticket: BatchTicket, asked: Mapping[str, ProviderRequest], reservation: Reservation
    ) -> Answers:
        """Wait for a batch and fetch it; what is told of it in the run's events lets a later run take it up."""
        self.note("batch_submitted", {"id": ticket.id, "target": self.resilient.target.name, "keys": list(ticket.keys)})
        try:
            await self._wait(ticket)
            found = await self._patiently(lambda: self.provider.fetch_batch(ticket))
        except ProviderError as error:
            if error.failure.kind == GONE:
                reservation.settle({})
                self.note("batch_failed", {"id": ticket.id})
                raise
            said = f"batch {ticket.id} cannot be reached: {error.failure.message}; the same run again takes it up"
            failure = replace(error.failure, message=said, http_status=None, retryable=False)
            return Answers(ticket, dict.fromkeys(asked, failure), is_open=True)
        priced = {key: self.resilient.priced(found[key], in_batch=True) for key in asked if key in found}
        reservation.settle(priced)
        return Answers(ticket, priced)

    async def _wait(self, ticket: BatchTicket) -> None:
        """Poll, less and less often, until the batch is over."""
        pause_s, told = FIRST_LOOK_S, ""
        while True:
            state = await self._patiently(lambda: self.provider.poll_batch(ticket))
            if state.is_over:
                return
            if state.status != told:
                self._tell(f"batch {ticket.id}: {state.status}")
                told = state.status
            await self.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_WAIT_S)

    async def _patiently(
        self, call: Callable[[], Awaitable[T]], *, may_repeat: Callable[[Failure], bool] = lambda _failure: True
    ) -> T:
        """Call again after trouble that may pass. Raises the last ProviderError."""
        for number in range(TRIES - 1):
            try:
                return await call()
            except ProviderError as error:
                if not self._may_pass(error.failure) or not may_repeat(error.failure):
                    raise
            await self.sleep(min(FIRST_LOOK_S * 2**number, LONGEST_WAIT_S))
        return await call()

    def _may_pass(self, failure: Failure) -> bool:
        return is_retryable(failure, self.resilient.target.retry)

    def _tell(self, message: str) -> None:
        self.runtime.note(f"target {self.resilient.target.name!r}: {message}")


def _for_free(answer: ProviderResponse | Failure) -> ProviderResponse | Failure:
    """Return an answer as another row has it for which it was not asked again."""
    return answer if isinstance(answer, Failure) else replace(answer, usage=None, cost_usd=0.0)


def _was_refused(failure: Failure) -> bool:
    return failure.http_status in NOT_TAKEN
