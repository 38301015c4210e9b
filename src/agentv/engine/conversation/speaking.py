"""What is said next in a conversation with a target."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct

from agentv.types.cases import CaseTurn, EvalCase
from agentv.types.records.answer import Answer


class Speaker(Protocol):
    """Says what comes next: the turns of a file, or those of a script or a simulated user."""

    @property
    def most_turns(self) -> int:
        """The largest number of turns that the conversation may have, for the forecast of a run."""

    async def next_turn(self, answers: Sequence[Answer]) -> CaseTurn | None:
        """Return the turn that follows these answers, one for each turn before; None if the conversation is over."""

    def turns_of(self, answer: Answer) -> Sequence[CaseTurn]:
        """Return all turns of the conversation that a stored answer belongs to, also those it did not come to."""


class FixedTurns(Struct, frozen=True):
    """The turns that a case lists, each said whatever was answered before."""

    turns: tuple[CaseTurn, ...]

    @property
    def most_turns(self) -> int:
        """The number of listed turns."""
        return len(self.turns)

    async def next_turn(self, answers: Sequence[Answer]) -> CaseTurn | None:
        """Return the next listed turn."""
        return self.turns[len(answers)] if len(answers) < len(self.turns) else None

    def turns_of(self, answer: Answer) -> Sequence[CaseTurn]:  # noqa: ARG002 - the same for every answer
        """Return the listed turns."""
        return self.turns


def speaker_of(case: EvalCase) -> Speaker | None:
    """Return what speaks in a case; None if the case is a single call."""
    return FixedTurns(case.turns) if case.is_conversation else None


CallTurn = Callable[[Sequence[CaseTurn], Sequence[Answer]], Awaitable[Answer]]
"""Calls the target for the last of the turns said so far; takes these and the answers to the turns before it."""

EndsEarly = Callable[[Sequence[CaseTurn], Sequence[Answer]], Awaitable[bool]]
"""Returns True if a conversation ends before its next turn; takes the turns said so far, and their answers."""


async def hold_conversation(
    speaker: Speaker, call: CallTurn, ends_early: EndsEarly
) -> tuple[Sequence[CaseTurn], Sequence[Answer]]:
    """Call the target turn by turn, and return what was said with the answers. A failed turn ends the conversation."""
    said: list[CaseTurn] = []
    answers: list[Answer] = []
    turn = await speaker.next_turn(answers)
    while turn is not None:
        said.append(turn)
        answers.append(await call(tuple(said), tuple(answers)))
        turn = None if answers[-1].error is not None else await speaker.next_turn(answers)
        if turn is not None and await ends_early(said, answers):
            break
    return said, answers
