"""A conversation is led by a speaker: fixed turns are one, a user who reacts to the answers is another."""

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace
from tests.support.stored import make_answer

from agentv import CaseTurn, Message
from agentv.engine.conversation.speaking import FixedTurns, hold_conversation
from agentv.types.failures import Failure
from agentv.types.records.answer import Answer


def turn(text: str) -> CaseTurn:
    return CaseTurn(Message("user", text))


class RepeatsUntilCounted:
    """Repeats a question until an answer has a number in it. Counts the calls of `next_turn`."""

    most_turns = 3

    def __init__(self) -> None:
        self.calls = 0

    async def next_turn(self, answers: Sequence[Answer]) -> CaseTurn | None:
        self.calls += 1
        is_counted = bool(answers) and any(letter.isdigit() for letter in answers[-1].text)
        return None if is_counted else turn(f"How many? ({len(answers) + 1})")

    def turns_of(self, answer: Answer) -> Sequence[CaseTurn]:
        return [turn(f"How many? ({number})") for number, _ in enumerate(answer.turns, start=1)]


async def replies(said: Sequence[CaseTurn], before: Sequence[Answer]) -> Answer:
    assert len(said) == len(before) + 1
    return make_answer(text=["Some.", "A few.", "It is 3."][len(before)])


async def never(_said: Sequence[CaseTurn], _answers: Sequence[Answer]) -> bool:
    return False


def test_a_speaker_may_react_to_the_answers_and_is_called_once_for_each_turn() -> None:
    speaker = RepeatsUntilCounted()
    said, answers = asyncio.run(hold_conversation(speaker, replies, never))
    assert [each.input.content for each in said] == ["How many? (1)", "How many? (2)", "How many? (3)"]
    assert [each.text for each in answers] == ["Some.", "A few.", "It is 3."]
    assert speaker.calls == 4


def test_fixed_turns_are_said_in_order_until_one_fails() -> None:
    async def fails_second(said: Sequence[CaseTurn], before: Sequence[Answer]) -> Answer:
        answer = await replies(said, before)
        return replace(answer, error=Failure("transport", "gone")) if before else answer

    turns = FixedTurns((turn("one"), turn("two"), turn("three")))
    said, answers = asyncio.run(hold_conversation(turns, fails_second, never))
    assert [each.input.content for each in said] == ["one", "two"]
    assert [each.error is None for each in answers] == [True, False]


def test_whether_a_conversation_ends_early_is_not_checked_after_its_last_turn() -> None:
    checked: list[int] = []

    async def ends(said: Sequence[CaseTurn], _answers: Sequence[Answer]) -> bool:
        checked.append(len(said))
        return False

    asyncio.run(hold_conversation(FixedTurns((turn("one"), turn("two"))), replies, ends))
    assert checked == [1]
