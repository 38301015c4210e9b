"""Answers that were joined from spans, as log lines in our own keys."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import asdict, replace

from agentv.telemetry.joining.history import message_key
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, messages_to_json
from agentv.types.usage import Usage, total_usage

NS_PER_MS = 1_000_000


class TracedAnswer(Struct, frozen=True, kw_only=True):
    """One invocation of an agent, or a question to a model and its answer."""

    trace_id: str
    span_id: str
    """The outermost span of the invocation, or the last call of a model."""
    file: str
    line: int
    file_number: int
    messages: tuple[Message, ...]
    """The conversation, with earlier turns and the answer."""
    output_start: int = 0
    """The number of messages before the first output of the invocation."""
    start_ns: int
    end_ns: int
    is_open: bool = False
    """True if the last call of a model asks for tools, and nothing continues it."""
    error: str | None = None
    """Why there is no answer."""
    agent: str | None = None
    model: str | None = None
    session: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    metadata: JsonObject = {}
    id: str = ""
    """Its own id; without one, that of the span is its id."""

    @property
    def answer_place(self) -> int | None:
        """The index of the message that is the answer: the assistant's last one with a text, else its last one."""
        last_user = max((place for place, each in enumerate(self.messages) if each.role == "user"), default=-1)
        places = [place for place, each in enumerate(self.messages) if place > last_user and each.role == "assistant"]
        with_text = [place for place in places if content_text(self.messages[place].content)]
        return next(iter([*with_text[-1:], *places[-1:]]), None)

    @property
    def output(self) -> tuple[Message, ...]:
        """What the invocation itself added to the conversation."""
        return self.messages[self.output_start :]

    @property
    def text(self) -> str:
        """The text of the answer."""
        place = self.answer_place
        return "" if place is None else content_text(self.messages[place].content)

    @property
    def finished_ns(self) -> int:
        """When it ended; never before its start, as with clocks that were set back."""
        return max(self.start_ns, self.end_ns)

    def to_line(self) -> dict[str, JsonValue]:
        """Return the answer as a line of a log."""
        metadata: dict[str, JsonValue] = {**self.metadata}
        if self.agent:
            metadata["agent"] = self.agent
        if self.is_open:
            metadata["incomplete"] = True
        line: dict[str, JsonValue] = {
            "id": self.id or self.span_id,
            "messages": messages_to_json(self.messages) or [],
            "session_id": self.session,
            "model": self.model,
            "cost_usd": self.cost_usd,
            "metadata": metadata,
        }
        if self.usage is not None:
            line["usage"] = asdict(self.usage)
        if self.start_ns:
            line["timestamp"] = self.finished_ns
            line["duration_ms"] = max(0.0, (self.end_ns - self.start_ns) / NS_PER_MS)
        return {key: value for key, value in line.items() if value is not None}


def join_turns(answers: Sequence[TracedAnswer]) -> TracedAnswer:
    """Return the answers of one session, in order of time, as one conversation.

    The messages of a turn that has the earlier turns as its history are taken as they are.
    """
    messages: tuple[Message, ...] = ()
    for answer in answers:
        known = [message_key(each) for each in messages if each.role != "system"]
        given = [message_key(each) for each in answer.messages if each.role != "system"]
        if given[: len(known)] == known:
            messages = answer.messages
        else:
            messages = (*messages, *(each for each in answer.messages if each.role != "system" or not messages))
    first, last = answers[0], answers[-1]
    costs = [each.cost_usd for each in answers]
    return replace(
        last,
        messages=messages,
        output_start=0,
        start_ns=first.start_ns,
        end_ns=max(each.end_ns for each in answers),
        usage=total_usage(each.usage for each in answers),
        cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
    )
