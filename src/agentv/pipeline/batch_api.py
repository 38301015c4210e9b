"""Half-price batches that take their time: the ticket is stored before the waiting, so that none is paid twice."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from agentv.execution.retry import is_retryable
from agentv.pipeline.answer import Question
from agentv.pipeline.resilience import ResilientProvider
from agentv.pipeline.toolbox import Toolbox
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonValue
from agentv.types.provider import BatchApiProvider, BatchState, BatchTicket, ProviderResponse
from agentv.types.results import Slot

NoteEvent: TypeAlias = Callable[[str, Mapping[str, JsonValue]], None]

FIRST_LOOK_S = 1.0
LONGEST_WAIT_S = 60.0
TRIES_TO_LOOK = 10
"""How many times in a row a look at a batch may fail before it is given up: it is paid for already."""


@dataclass(frozen=True, slots=True)
class BatchApi:
    """Hands in batches and waits for them. `note` writes an event of the run."""

    provider: BatchApiProvider
    resilient: ResilientProvider
    toolbox: Toolbox
    note: NoteEvent
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep

    async def ask(self, questions: Sequence[Question]) -> Mapping[Slot, ProviderResponse | Failure]:
        """Return what became of each question. A batch of the same questions that an earlier run left is taken up."""
        by_key = {question.key: question for question in questions}
        ticket = await self._ticket(by_key)
        await self._wait(ticket, questions[0])
        answers = await self.provider.fetch_batch(ticket)
        self.note("batch_fetched", {"id": ticket.id})
        return {
            by_key[key].slot: self.resilient.priced(answer, in_batch=True)
            for key, answer in answers.items()
            if key in by_key
        }

    async def _ticket(self, by_key: Mapping[str, Question]) -> BatchTicket:
        name = self.resilient.target.name
        left = self.toolbox.find_open_batch(name, frozenset(by_key))
        if left is not None:
            self.toolbox.note(f"target {name!r}: taking up batch {left.id}, which an earlier run handed in")
            ticket = left
        else:
            ticket = await self.provider.submit_batch({key: question.request for key, question in by_key.items()})
        self.note("batch_submitted", {"id": ticket.id, "target": name, "keys": list(ticket.keys)})
        return ticket

    async def _wait(self, ticket: BatchTicket, question: Question) -> None:
        """Look again and again, less and less often, until the batch is over."""
        pause_s, told = FIRST_LOOK_S, ""
        while True:
            state = await self._look(ticket)
            if state.is_over:
                return
            said = f"batch {ticket.id}: {state.status}"
            if said != told:
                self.toolbox.note(f"target {question.task.target.name!r}: {said}")
                told = said
            await self.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_WAIT_S)

    async def _look(self, ticket: BatchTicket) -> BatchState:
        for number in range(TRIES_TO_LOOK):
            try:
                return await self.provider.poll_batch(ticket)
            except ProviderError as error:
                may_pass = is_retryable(error.failure, self.resilient.target.retry)
                if not may_pass or number == TRIES_TO_LOOK - 1:
                    raise
            await self.sleep(min(FIRST_LOOK_S * 2**number, LONGEST_WAIT_S))
        raise AssertionError("unreachable")
