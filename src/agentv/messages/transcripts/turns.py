"""A transcript as a conversation: each prompt of the user is a turn, with the agent's steps and its answer. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Literal, TypeAlias

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.messages.shapes.fields import milliseconds_between
from agentv.messages.transcripts.steps import Called, Concluded, Returned, Said, SessionInfo, Step, Transcript
from agentv.types.evaluation_input import EvaluationInput, moment_of
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message
from agentv.types.stored import MAX_DURATION_MS
from agentv.types.usage import known_cost, known_usage


class Record(Struct, frozen=True):
    """One record of a transcript, and the line that it is on."""

    line: int
    value: JsonObject


class Unread(Struct, frozen=True):
    """A record that was not understood. `what` is the same for records of one kind, so that they can be counted."""

    line: int
    what: str


class Asked(Struct, frozen=True):
    """The user sent a prompt."""

    id: str
    """The id of the prompt, the same in every copy of the transcript; empty if the program writes none."""
    line: int
    text: str
    at: str | None = None
    is_addition: bool = False
    """True for a prompt sent while the agent worked: it extends the prompt before it."""
    is_command: bool = False
    """True for a command of the program: it is a prompt only if the agent works on it."""


ATTACHED = "[attachment]"
"""The text of a prompt that has only images or files."""


class Interrupted(Struct, frozen=True):
    """The user stopped the agent."""


Event: TypeAlias = Asked | Step | Interrupted

TurnState: TypeAlias = Literal["answered", "failed", "open"]


_AT_WORK = ("tool_use", "tool-calls")
"""Finish reasons of a text that a call of a tool follows, though it is not written yet (Claude Code, OpenCode)."""


class Turn(Struct, frozen=True):
    """One prompt of the user, and what the agent did until the next."""

    asked: Asked
    steps: tuple[Step, ...] = ()
    is_interrupted: bool = False
    is_copy: bool = False
    """True if an earlier session has the turn, and this one repeats it under another id."""

    @property
    def state(self) -> TurnState:
        """Whether the agent answered, failed, or has not answered: it was interrupted, or is still at work."""
        if Transcript(self.steps).failed is not None:
            return "failed"
        return "answered" if not self.is_interrupted and self._ends_with_answer() else "open"

    def _ends_with_answer(self) -> bool:
        calls = {step.id for step in self.steps if isinstance(step, Called) and step.parent is None}
        is_answer = False
        reason = None
        for step in self.steps:
            match step:
                case Concluded():
                    return True
                case SessionInfo():
                    reason = step.finish_reason
                case Said(parent=None):
                    is_answer = True
                case Called(parent=None):
                    is_answer = False
                case Returned(id=call) if call in calls:
                    is_answer = False
                case _:
                    pass
        return is_answer and reason not in _AT_WORK

    @property
    def ended_at(self) -> str | None:
        """The time of the last step, else that of the prompt."""
        times = [step.at for step in self.steps if isinstance(step, Said | Called | Returned) and step.at]
        return times[-1] if times else self.asked.at

    @property
    def failure(self) -> str:
        """Why the agent failed; empty if it did not."""
        failed = Transcript(self.steps).failed
        return "" if failed is None else failed.message


class Conversation(Struct, frozen=True, kw_only=True):
    """The transcript of one session."""

    program: str
    session: str
    turns: tuple[Turn, ...] = ()
    metadata: JsonObject = field(default_factory=dict)
    subagent_of: str | None = None
    """The session whose agent started this one; such a conversation has no prompts of the user."""
    abandoned: tuple[int, ...] = ()
    """The lines of prompts that the user took back."""
    unread: tuple[Unread, ...] = ()


def make_turns(events: Iterable[Event]) -> tuple[Turn, ...]:
    """Return the turns of a conversation; steps before the first prompt are left out, but for the model's name."""
    turns: list[Turn] = []
    steps: list[Step] = []
    model: SessionInfo | None = None
    for event in events:
        if isinstance(event, SessionInfo) and event.model is not None:
            model = SessionInfo(model=event.model)
        if isinstance(event, Asked) and not (event.is_addition and turns):
            _end_turn(turns, steps)
            turns.append(Turn(event))
            steps = [] if model is None else [model]
        elif isinstance(event, Asked):
            before = turns[-1].asked
            turns[-1] = replace(turns[-1], asked=replace(before, text=f"{before.text}\n\n{event.text}"))
        elif isinstance(event, Interrupted):
            turns[-1:] = [replace(turn, is_interrupted=True) for turn in turns[-1:]]
        else:
            steps.append(event)
    _end_turn(turns, steps)
    return tuple(turns)


def _end_turn(turns: list[Turn], steps: Sequence[Step]) -> None:
    """Give the last turn its steps; remove it if it is a command that the agent did not work on."""
    if not turns:
        return
    turn = replace(turns.pop(), steps=tuple(steps))
    if not turn.asked.is_command or any(not isinstance(step, SessionInfo) for step in steps):
        turns.append(turn)


class TurnAnswer(Struct, frozen=True):
    """A turn, with the input for its judgement: None unless the turn is answered."""

    turn: Turn
    given: EvaluationInput | None


def answers_of(conversation: Conversation) -> Iterator[TurnAnswer]:
    """Yield each turn with its answer as an input to judge.

    Its history has the earlier prompts, each with the answer to it, but without the tool calls: a long session would
    otherwise be in each of its answers.
    """
    history: list[Message] = []
    for turn in conversation.turns:
        asked = Message("user", turn.asked.text, timestamp=turn.asked.at)
        given = _input_of(conversation, turn, (*history, asked)) if turn.state == "answered" else None
        history.append(asked)
        if given is not None:
            history.append(Message("assistant", given.text))
        yield TurnAnswer(turn, given)


def turn_id(conversation: Conversation, turn: Turn) -> str | None:
    """Return the id of a turn, which is the same in a copy of its session."""
    return turn.asked.id or (f"{conversation.session}:{turn.asked.line}" if conversation.session else None)


def _input_of(conversation: Conversation, turn: Turn, question: tuple[Message, ...]) -> EvaluationInput:
    response = Transcript(turn.steps).response()
    messages = list(response.output_messages or ())
    own = (at for at in reversed(range(len(messages))) if messages[at].metadata is None)
    place = next((at for at in own if messages[at].content == response.text), None)
    answer = Message("assistant", response.text) if place is None else messages.pop(place)
    return EvaluationInput(
        answer,
        message_history=(*question, *messages),
        id=turn_id(conversation, turn),
        session_id=conversation.session or None,
        target=conversation.program,
        model=response.model,
        timestamp=_moment(turn.ended_at),
        duration_ms=_duration_ms(turn),
        usage=known_usage(response.usage),
        cost_usd=known_cost(response.cost_usd),
        metadata=conversation.metadata,
    )


def _duration_ms(turn: Turn) -> float | None:
    if turn.asked.at is None or turn.ended_at is None:
        return None
    passed = milliseconds_between(turn.asked.at, turn.ended_at)
    return passed if passed is not None and passed <= MAX_DURATION_MS else None


def _moment(at: str | None) -> datetime | None:
    try:
        return None if at is None else moment_of(at).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
