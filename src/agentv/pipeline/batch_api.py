"""Half-price batches that take their time: the ticket is stored before the waiting, so that none is paid twice."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from agentv.execution.retry import is_retryable
from agentv.pipeline.batch_memory import BatchMemory
from agentv.pipeline.batch_purse import BatchPurse, Bill
from agentv.pipeline.question import Question
from agentv.pipeline.resilience import ResilientProvider
from agentv.pipeline.toolbox import Toolbox
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import BatchApiProvider, BatchTicket, ProviderRequest, ProviderResponse
from agentv.types.records.answer import Slot

NoteEvent: TypeAlias = Callable[[str, Mapping[str, JsonValue]], None]
Keep: TypeAlias = Callable[[Mapping[Slot, ProviderResponse | Failure]], None]

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
    toolbox: Toolbox
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
        memory, began = BatchMemory(self.resilient.memory), self.toolbox.clock()

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
        ticket = self.toolbox.find_open_batch(self.resilient.target.name, frozenset(left), keys)
        if ticket is None:
            return None
        self._tell(f"taking up batch {ticket.id}, which was handed in before")
        asked = {key: left[key] for key in ticket.keys if key in left}
        try:
            with BatchPurse(self.resilient).paying(asked) as bill:
                return await self._answers(ticket, asked, bill)
        except ProviderError as error:
            self._tell(f"batch {ticket.id} is lost ({error.failure.message}); handing in a new one")
            return None

    async def _handed_in(self, left: Mapping[str, ProviderRequest]) -> Answers:
        """Return the answers of a new batch of as much as the budget has room for."""
        purse = BatchPurse(self.resilient)
        asked = await purse.room_for(left)
        with purse.paying(asked) as bill:
            try:
                ticket = await self._patiently(lambda: self.provider.submit_batch(asked), may_repeat=_was_refused)
            except ProviderError as error:
                if error.failure.http_status is not None:  # else it may have been taken, and nobody told us
                    bill.settle({})
                raise
            return await self._answers(ticket, asked, bill)

    async def _answers(self, ticket: BatchTicket, asked: Mapping[str, ProviderRequest], bill: Bill) -> Answers:
        """Wait for a batch and fetch it; what is told of it in the run's events lets a later run take it up."""
        self.note("batch_submitted", {"id": ticket.id, "target": self.resilient.target.name, "keys": list(ticket.keys)})
        try:
            await self._wait(ticket)
            found = await self._patiently(lambda: self.provider.fetch_batch(ticket))
        except ProviderError as error:
            if error.failure.kind == GONE:
                bill.settle({})
                self.note("batch_failed", {"id": ticket.id})
                raise
            said = f"batch {ticket.id} cannot be reached: {error.failure.message}; the same run again takes it up"
            failure = replace(error.failure, message=said, http_status=None, retryable=False)
            return Answers(ticket, dict.fromkeys(asked, failure), is_open=True)
        priced = {key: self.resilient.priced(found[key], in_batch=True) for key in asked if key in found}
        bill.settle(priced)
        return Answers(ticket, priced)

    async def _wait(self, ticket: BatchTicket) -> None:
        """Look again and again, less and less often, until the batch is over."""
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
        self.toolbox.note(f"target {self.resilient.target.name!r}: {message}")


def _for_free(answer: ProviderResponse | Failure) -> ProviderResponse | Failure:
    """Return an answer as another row has it for which it was not asked again."""
    return answer if isinstance(answer, Failure) else replace(answer, usage=None, cost_usd=0.0)


def _was_refused(failure: Failure) -> bool:
    return failure.http_status in NOT_TAKEN
