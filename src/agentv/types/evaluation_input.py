"""The input of the criteria API: an existing answer and its context."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast, overload

from msgspec import Struct, field, structs
from msgspec.structs import force_setattr

from agentv.types.errors import EvalFileError, MessageError
from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, message_to_json, messages_to_json
from agentv.types.moments import read_moment
from agentv.types.readers import read_answer_object, read_list, read_message, read_usage
from agentv.types.scales import EvaluationCriteria
from agentv.types.stored import MAX_DURATION_MS
from agentv.types.structs import CamelKeywords
from agentv.types.usage import MAX_COST_USD, MAX_TOKENS, NO_COST, Usage, known_usage, read_cost, read_count

_FOREIGN_NAMES = {
    "input": "prompt",
    "question": "prompt",
    "output": "response",
    "actual_output": "response",
    "answer": "response",
    "expected": "ground_truth",
    "expected_output": "ground_truth",
    "reference": "ground_truth",
}
"""The names of fields in other tools, with our name of each field."""


def without_impossible_facts(stored: JsonValue) -> JsonValue:
    """Return the JSON of a stored input without a duration, cost or usage that cannot be one, of older versions."""
    if not isinstance(stored, Mapping):
        return stored
    names = {name for name in ("durationMs", "duration_ms") if _is_above(stored.get(name), MAX_DURATION_MS)}
    names |= {name for name in ("costUsd", "cost_usd") if read_cost(stored.get(name)) == NO_COST}
    usage = stored.get("usage")
    if isinstance(usage, Mapping) and any(read_count(count) > MAX_TOKENS for count in usage.values()):
        names.add("usage")
    return {name: value for name, value in stored.items() if name not in names} if names else stored


def _is_above(value: JsonValue, limit: float) -> bool:
    return isinstance(value, int | float) and value > limit


class InputKeywords(TypedDict, total=False):
    """The keywords of EvaluationInput besides response, prompt and criteria."""

    context: JsonObject
    ground_truth: JsonValue
    agent_config: JsonObject | None
    message_history: Sequence[Message | Mapping[str, Any]]
    timestamp: datetime | str | float | None
    session_id: str | None
    agent_id: str | None
    metadata: JsonObject
    id: str | None
    target: str | None
    model: str | None
    duration_ms: float | None
    usage: Usage | Mapping[str, Any] | None
    cost_usd: float | None
    tags: Sequence[str] | str


class _InputMeta(CamelKeywords):
    """Accepts positional criteria and prompt in either order, as they differ in type."""

    if not TYPE_CHECKING:

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - the instances of a metaclass are classes
            """Make an input from (response, prompt, criteria, …) or (response, criteria, prompt, …)."""
            if len(arguments) > 1 and isinstance(arguments[1], list | tuple) and "criteria" not in keywords:
                response, criteria, *others = arguments
                if others and "prompt" not in keywords:
                    prompt, *rest = others
                    return super().__call__(response, prompt, criteria, *rest, **keywords)
                return super().__call__(response, *others, criteria=criteria, **keywords)
            return super().__call__(*arguments, **keywords)


class _InputFields(Struct, frozen=True):
    """The fields of an input that may be given by position."""

    response: str | Message
    prompt: str | None = None
    criteria: tuple[EvaluationCriteria, ...] = ()
    context: JsonObject = field(default_factory=dict)
    ground_truth: JsonValue = None
    agent_config: JsonObject | None = None
    message_history: tuple[Message, ...] = ()
    timestamp: datetime | None = None
    session_id: str | None = None
    agent_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    id: str | None = None


class EvaluationInput(_InputFields, frozen=True, kw_only=True, metaclass=_InputMeta):
    """One answer with its context (the PRD's EvaluationInput).

    `response` is the answer: its text, or a message with content parts and tool calls. `ground_truth` is a reference
    answer, or any JSON. `message_history` is the conversation that led to the answer; it may include the answer as its
    last message. Messages, criteria and usage may be dicts, as `from_dict` reads them. `timestamp` is the time of the
    answer, always with a time zone; a number is read as milliseconds since 1970. Answers of one `session_id` are not
    independent: they form one cluster in every interval.

    `id` is the id of the case: answers with the same id, in one file or several, are answers to the same question.
    `target` and `model` name what answered; `duration_ms`, `usage` and `cost_usd` are those of the answer. All are None
    if not known. Results can be grouped by `tags` and by any key of `metadata`.
    """

    target: str | None = None
    model: str | None = None
    duration_ms: float | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    tags: tuple[str, ...] = ()

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            response: str | Message | Mapping[str, Any],
            prompt: str | None = None,
            criteria: Sequence[EvaluationCriteria | Mapping[str, Any]] = (),
            **more: Unpack[InputKeywords],
        ) -> None: ...
        @overload
        def __init__(
            self,
            response: str | Message | Mapping[str, Any],
            criteria: Sequence[EvaluationCriteria | Mapping[str, Any]],
            prompt: str | None = None,
            **more: Unpack[InputKeywords],
        ) -> None: ...
        def __init__(self, response: Any, *arguments: Any, **keywords: Any) -> None: ...

    def __post_init__(self) -> None:
        """Convert sequences to tuples, dicts to values, and the timestamp as `moment_of` does.

        Raises EvalFileError with every field of the wrong type.
        """
        problems = Problems(type(self).__name__)
        _convert(self, problems)
        _check_types(self, problems)
        moment: object = self.timestamp
        if moment is not None:
            try:
                force_setattr(self, "timestamp", moment_of(moment))
            except ValueError as error:
                problems.add("$.timestamp", str(error))
        if problems.found:
            problems.raise_any()

    @property
    def text(self) -> str:
        """The answer's text; that of a message is the `content_text` of its content."""
        return self.response if isinstance(self.response, str) else content_text(self.response.content)

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Read an input from JSON, keys in snake_case or camelCase, messages with `content` or `contentParts`.

        Raises EvalFileError with every problem; unknown keys are problems.
        """
        problems = Problems(cls.__name__)
        given = cls.read(raw, problems, "$")
        problems.raise_any()
        return given

    @classmethod
    def read(cls, raw: object, problems: Problems, at: str) -> Self:
        """Read an input at a path inside another object, recording its problems."""
        fields = Fields(raw, problems, at)
        written = fields.value("response")
        answer = None if written is None else _response(written, problems, f"{at}.response")
        if written is None:
            problems.add(at, "the answer, `response`, is missing")
        given = cls(
            response="" if answer is None else answer,
            criteria=_criteria([item for _, item in fields.items("criteria")], problems, at),
            prompt=fields.text("prompt"),
            context=fields.mapping("context") or {},
            ground_truth=fields.value("ground_truth"),
            agent_config=fields.mapping("agent_config"),
            message_history=tuple(_messages(fields.items("message_history"), problems)),
            timestamp=fields.read("timestamp", moment_of),
            session_id=fields.text("session_id"),
            agent_id=fields.text("agent_id"),
            metadata=fields.mapping("metadata") or {},
            id=fields.text("id"),
            target=fields.text("target"),
            model=fields.text("model"),
            duration_ms=fields.number("duration_ms"),
            usage=fields.read("usage", _usage),
            cost_usd=fields.number("cost_usd"),
            tags=fields.read("tags", _tags) or (),
        )
        fields.check_unknown_keys(other_names=_FOREIGN_NAMES)
        return given

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the input as JSON with camelCase keys; fields without a value are left out."""
        known: dict[str, JsonValue] = {
            "prompt": self.prompt,
            "response": self.response if isinstance(self.response, str) else message_to_json(self.response),
            "context": self.context or None,
            "groundTruth": self.ground_truth,
            "criteria": [criterion.to_dict() for criterion in self.criteria],
            "agentConfig": self.agent_config,
            "messageHistory": messages_to_json(self.message_history) or None,
            "timestamp": None if self.timestamp is None else milliseconds_of(self.timestamp),
            "sessionId": self.session_id,
            "agentId": self.agent_id,
            "metadata": self.metadata or None,
            "id": self.id,
            "target": self.target,
            "model": self.model,
            "durationMs": self.duration_ms,
            "usage": None if self.usage is None else structs.asdict(self.usage),
            "costUsd": self.cost_usd,
            "tags": list(self.tags) or None,
        }
        return {key: value for key, value in known.items() if value is not None}


def _convert(given: EvaluationInput, problems: Problems) -> None:
    """Convert lists to tuples, and messages and criteria written as dicts."""
    if isinstance(given.response, Mapping):
        force_setattr(given, "response", _response(given.response, problems, "$.response") or "")
    tags: object = given.tags
    if isinstance(tags, str):
        force_setattr(given, "tags", (tags,))
    usage: object = given.usage
    if isinstance(usage, Mapping):
        try:
            force_setattr(given, "usage", _usage(usage))
        except ValueError as error:
            problems.add("$.usage", str(error))
    for name in ("criteria", "message_history", "tags"):
        value = getattr(given, name)
        if isinstance(value, str | Mapping):
            problems.add(f"$.{name}", f"must be a list, got {type(value).__name__}")
            force_setattr(given, name, ())
        elif not isinstance(value, tuple):
            force_setattr(given, name, tuple(value or ()))
    if any(isinstance(each, Mapping) for each in given.criteria):
        force_setattr(given, "criteria", _criteria(given.criteria, problems, "$"))
    if any(isinstance(each, Mapping) for each in given.message_history):
        placed = ((f"$.message_history[{place}]", each) for place, each in enumerate(given.message_history))
        force_setattr(given, "message_history", tuple(_messages(cast(Any, placed), problems)))


def _criteria(given: Sequence[object], problems: Problems, at: str) -> tuple[EvaluationCriteria, ...]:
    if problems.ignores_unknown:
        known = EvaluationCriteria.__struct_fields__
        given = [
            {key: each[key] for key in known if key in each} if isinstance(each, Mapping) else each for each in given
        ]
    try:
        return read_list("criteria", given, where=problems.what) if given else ()
    except EvalFileError as error:
        problems.include(error, at)
        return ()


def _check_types(given: EvaluationInput, problems: Problems) -> None:
    """Record a problem for every field of the wrong type."""
    response: object = given.response
    if not isinstance(response, str | Message):
        problems.add("$.response", f"must be a string or a message, got {type(response).__name__}")
    for name, kind in (("criteria", EvaluationCriteria), ("message_history", Message)):
        for place, item in enumerate(getattr(given, name)):
            if not isinstance(item, kind):
                advice = f"{kind.__name__} objects, or dicts of their keys"
                problems.add(f"$.{name}[{place}]", f"must not be a {type(item).__name__}", allowed=advice)
    for name in ("context", "metadata", "agent_config"):
        value = getattr(given, name)
        if type(value) is not dict and not isinstance(value, Mapping | None):
            problems.add(f"$.{name}", f"must be an object, got {type(value).__name__}")
    for name in ("prompt", "session_id", "agent_id", "id", "target", "model"):
        value = getattr(given, name)
        if not isinstance(value, str | None):
            problems.add(f"$.{name}", f"must be a string, got {type(value).__name__}")
    _check_call_facts(given, problems)


def _check_call_facts(given: EvaluationInput, problems: Problems) -> None:
    for name, limit in (("duration_ms", MAX_DURATION_MS), ("cost_usd", MAX_COST_USD)):
        value: object = getattr(given, name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            problems.add(f"$.{name}", f"must be a number of at least 0, got {_short(value)}")
        elif value > limit:
            advice = "a duration in milliseconds, not a time" if name == "duration_ms" else "a cost in dollars"
            problems.add(f"$.{name}", f"must be at most {limit:,.0f}, got {_short(value)}", allowed=advice)
    usage: object = given.usage
    if usage is not None and not isinstance(usage, Usage | Mapping):
        problems.add("$.usage", f"must be a Usage, got {type(usage).__name__}")
    elif isinstance(usage, Usage) and known_usage(usage) is None:
        problems.add("$.usage", f"must have token counts from 0 to {MAX_TOKENS:,}")
    tags: tuple[object, ...] = given.tags
    for place, tag in enumerate(tags):
        if not isinstance(tag, str):
            problems.add(f"$.tags[{place}]", f"must be a string, got {type(tag).__name__}")


def _short(value: object) -> str:
    """Return a value for a message; Python writes no integer of more than 4,300 digits."""
    is_long = isinstance(value, int) and abs(value) > MAX_TOKENS * MAX_TOKENS
    return "a longer number" if is_long else repr(value)


def moment_of(value: object) -> datetime:
    """Return a time given as milliseconds since 1970, as ISO 8601 or as a datetime; without a time zone it is UTC.

    Raises ValueError.
    """
    if isinstance(value, str):
        with suppress(ValueError):
            value = read_moment(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (OverflowError, OSError, ValueError) as error:
            raise ValueError("is out of range for a time in milliseconds since 1970") from error
    raise ValueError("must be milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z")


def milliseconds_of(moment: datetime) -> int:
    """Return a time as whole milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def _usage(value: JsonValue) -> Usage:
    usage = read_usage(value)
    if usage is None:
        raise ValueError("has no known token counts; write {input, output}")
    return usage


def _tags(value: JsonValue) -> tuple[str, ...]:
    tags = (value,) if isinstance(value, str) else value
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise ValueError("must be a list of strings")
    return cast(tuple[str, ...], tuple(tags))


def _response(value: JsonValue, problems: Problems, at: str) -> str | Message | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list | bool | int | float):
        problems.add(at, f"must be a string or a message, got {type(value).__name__}")
        return None
    try:
        return read_answer_object(value, at)
    except MessageError as error:
        problems.add(error.at, error.what, allowed=error.advice)
        return None


def _messages(items: Iterable[tuple[str, JsonValue]], problems: Problems) -> Iterator[Message]:
    for at, item in items:
        try:
            yield from read_message(item, at)
        except MessageError as error:
            problems.add(error.at, error.what, allowed=error.advice)


def input_messages(given: EvaluationInput) -> tuple[Message, ...]:
    """Return the messages that were answered: the history up to the user's last message.

    A prompt that is not in the history is appended to the history.
    """
    return _split_history(given)[0]


def _split_history(given: EvaluationInput) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the messages that were answered, and the steps that followed them."""
    prompt = () if given.prompt is None else (Message("user", given.prompt),)
    places = [index for index, message in enumerate(given.message_history) if message.role == "user"]
    if not places:
        before = tuple(message for message in given.message_history if message.role == "system")
        steps = tuple(message for message in given.message_history if message.role != "system")
        return (*before, *prompt), steps
    prompts = [content_text(given.message_history[index].content) for index in places]
    if given.prompt is not None and given.prompt not in prompts:
        # A prompt that is not in the history came after it: the messages in it answer earlier prompts.
        return (*given.message_history, *prompt), ()
    after = places[-1] + 1
    steps = tuple(message for message in given.message_history[after:] if message.role != "system")
    return given.message_history[:after], steps


def output_messages(given: EvaluationInput) -> tuple[Message, ...] | None:
    """Return the messages after the user's last one, ending with the answer; None if the answer is only a text."""
    if not given.message_history:
        return None if isinstance(given.response, str) else (given.response,)
    steps = _split_history(given)[1]
    answer = given.response
    if isinstance(answer, str):
        if not steps or _is_answer(steps[-1], answer):
            return steps or None
        return (*steps, Message("assistant", answer))
    return steps if steps and steps[-1] == answer else (*steps, answer)


def _is_answer(message: Message, text: str) -> bool:
    return message.role == "assistant" and content_text(message.content) == text
