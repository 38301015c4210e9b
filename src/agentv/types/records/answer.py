"""A target's answer: a line of answers.jsonl."""

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypeAlias

from msgspec import Struct, structs

from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import StoredMessages, TraceEvent
from agentv.types.provider import CallRecord
from agentv.types.stored import ANSWER_SCHEMA, StoredDuration, StoredGeneration, always
from agentv.types.usage import StoredCost, Usage

Rerun: TypeAlias = Literal["failed", "case", "fresh", "confirm"]
"""What asked for a further answer of a slot, which changes no rate and no gate: `retry --failed`, `retry --case`, a
resume with a changed target, or the gate `confirmed_regressions`."""


class ResultKey(Struct, frozen=True, gc=False, omit_defaults=True):
    """The position of a row in a plan."""

    suite: str
    """The path of the suite."""
    eval_id: str
    target: str
    trial: int = always(0)
    """Counted from 0."""
    prompt: str | None = None
    """The id of one of the suite's `prompts`; None for a suite without prompts."""

    def to_json(self) -> dict[str, JsonValue]:
        """Return the key as records and reports write it."""
        fields = structs.asdict(self)
        if self.prompt is None:
            del fields["prompt"]
        return fields


def source_of(file: str, line: int, part: int = 1) -> str:
    """Return the place of an answer in a log: `log.jsonl:2`, or `log.jsonl:2#3` for the third answer of that line."""
    return f"{file}:{line}" if part == 1 else f"{file}:{line}#{part}"


class AnswerRef(Struct, frozen=True, gc=False):
    """The line of answers.jsonl with this `seq`."""

    seq: int


class Origin(Struct, frozen=True, gc=False, omit_defaults=True):
    """The line of a log, or the span, that an answer was read from."""

    file: str
    """"" for an answer that was not read from a file."""
    line: int
    """Counted from 1; 0 for an answer from Python."""
    part: int = 1
    """The number of the answer in its line, from 1."""
    digest: str = ""
    """A hash of the line's content; "" if it is not known."""
    trace_id: str = ""
    """`trace_id` and `span_id` are those of the span that gave the answer; "" if it is not known."""
    span_id: str = ""

    def to_json(self) -> JsonObject:
        """Return the place as output and metadata have it, without what is not known."""
        place: dict[str, JsonValue] = {"file": self.file, "line": self.line} if self.file else {}
        if self.part > 1:
            place["part"] = self.part
        ids = {"trace_id": self.trace_id, "span_id": self.span_id}
        return place | {name: each for name, each in ids.items() if each}

    @classmethod
    def from_json(cls, value: JsonValue) -> "Origin | None":
        """Return the place in such an object; None for a value that names neither a file nor a trace."""
        if not isinstance(value, Mapping):
            return None
        file, trace_id, span_id = (str(value.get(name) or "") for name in ("file", "trace_id", "span_id"))
        line, part = (number if type(number := value.get(name)) is int else 0 for name in ("line", "part"))
        return cls(file, line, max(part, 1), "", trace_id, span_id) if file or trace_id else None


class Partial(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The output of a target in the last attempt of a call that failed. It is never scored."""

    text: str = always("")
    reasoning: str | None = None
    output_messages: StoredMessages | None = None
    trace: tuple[TraceEvent, ...] | None = None
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    estimated: bool = False
    """True if the tokens were estimated from the texts, because the vendor did not report them."""


class AnsweredTurn(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target's answer in one turn of a conversation."""

    text: str
    start: int
    """The index of the user's message in the answer's `output_messages`."""
    has_messages: bool = always(False)
    """True if the messages after the user's, up to the next turn, are the target's own; else they are one message made
    from `text`.
    """
    trace: tuple[TraceEvent, ...] | None = None
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    duration_ms: StoredDuration | None = None
    """The target's time."""
    cached: bool = False


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A target's answer for one result key, or its failure."""

    schema: str = always(ANSWER_SCHEMA)
    run_id: str = always("")
    """The run that called the target."""
    seq: int | None = None
    """The number of its line; None before it is written."""
    slot: ResultKey
    generation: StoredGeneration = always(0)
    answer_key: str
    kind: Literal["answer", "turn"] = always("answer")
    text: str
    """Empty if the target failed; for a conversation, the last answer."""
    reasoning: str | None = None
    """The model's reasoning, which is never part of `text`."""
    output_messages: StoredMessages | None = None
    """For a conversation, the messages of both sides."""
    trace: tuple[TraceEvent, ...] | None = None
    finish_reason: str | None = None
    session: str | None = None
    usage: Usage | None = None
    cost_usd: StoredCost | None = None
    """None if no price is known."""
    billed_usd: StoredCost | None = None
    estimated: bool = False
    """True if a part of `usage` was estimated."""
    started_at: datetime
    ended_at: datetime
    first_token_ms: StoredDuration | None = None
    duration_ms: StoredDuration | None
    """None for a recorded answer if the log does not have it."""
    attempt: int = always(0)
    """The number of times that the whole call was repeated."""
    calls: tuple[CallRecord, ...] = ()
    cached: JsonObject | None = None
    workspace: JsonObject | None = None
    exit_code: int | None = None
    log_paths: tuple[str, ...] = ()
    request: JsonObject | None = None
    error: Failure | None = None
    """Set if the target failed."""
    partial: Partial | None = None
    """The output of a target that failed."""
    answered_by: str | None = None
    """The fallback target that answered; None for the target itself."""
    rerun: Rerun | None = None
    """Set if the slot had an answer already, so that this one does not count."""
    repaired: bool = False
    """True if lone surrogates were replaced in its texts."""
    notes: tuple[str, ...] = ()
    """What the provider reported about this answer, such as that spans were missing."""
    origin: Origin | None = None
    """Where a recorded answer was read from; with `otel: true` on the target, the span that gave the answer."""
    given: JsonObject | None = None
    """The keys of a recorded answer's input that are neither in the answer nor in its case."""
    turns: tuple[AnsweredTurn, ...] = ()
    """The turns of a conversation."""

    @property
    def messages_by_turn(self) -> tuple[StoredMessages, ...]:
        """The messages of each turn of a conversation, the user's first."""
        messages = self.output_messages or ()
        ends = [*(turn.start for turn in self.turns[1:]), len(messages)]
        return tuple(messages[turn.start : end] for turn, end in zip(self.turns, ends, strict=False))
