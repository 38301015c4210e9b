"""The input of the criteria API: an existing answer and its context."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack, cast, overload

from msgspec import Struct, field
from msgspec.structs import force_setattr

from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import MessageError
from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.message_shapes.reading import read_answer, read_message
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, message_to_json, messages_to_json
from agentv.types.spellings import CamelKeywords

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
"""Names that other tools use for the same fields."""


class MoreOfInput(TypedDict, total=False):
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


class _InputKeywords(CamelKeywords):
    """Takes criteria and prompt in either order: they cannot be mistaken for each other."""

    if not TYPE_CHECKING:

        def __call__(cls, *arguments: Any, **keywords: Any) -> Any:  # noqa: N805 - of a metaclass
            """Make an input; criteria in second place are those of the order (response, criteria, prompt)."""
            if len(arguments) > 1 and isinstance(arguments[1], list | tuple) and "criteria" not in keywords:
                response, criteria, *others = arguments
                given = {"criteria": criteria, **keywords}
                if others and "prompt" not in keywords:
                    return super().__call__(response, others[0], criteria, *others[1:], **keywords)
                return super().__call__(response, *others, **given)
            return super().__call__(*arguments, **keywords)


class EvaluationInput(Struct, frozen=True, metaclass=_InputKeywords):
    """One answer with its context (the PRD's EvaluationInput).

    `response` is the answer: its text, or a message with content parts and tool calls. `ground_truth` is a reference
    answer, or any JSON. `message_history` is the conversation that led to the answer; it may include the answer as
    its last message. Messages and criteria may be dicts, as `from_dict` reads them. `id` is the answer's own name in
    the log that it comes from. `timestamp` is when the answer was given, always with a time zone; a number is read as
    milliseconds since 1970.
    """

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

    if TYPE_CHECKING:

        @overload
        def __init__(
            self,
            response: str | Message | Mapping[str, Any],
            prompt: str | None = None,
            criteria: Sequence[EvaluationCriteria | Mapping[str, Any]] = (),
            **more: Unpack[MoreOfInput],
        ) -> None: ...
        @overload
        def __init__(
            self,
            response: str | Message | Mapping[str, Any],
            criteria: Sequence[EvaluationCriteria | Mapping[str, Any]],
            prompt: str | None = None,
            **more: Unpack[MoreOfInput],
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
        """The answer's text: all text parts of a message, joined as they are."""
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
            problems.add(at, "`response`, the answer to judge, is missing")
        given = cls(
            response=answer or "",
            criteria=tuple(EvaluationCriteria.read(item, problems, at) for at, item in fields.items("criteria")),
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
        )
        fields.check_unknown_keys(other_names=_FOREIGN_NAMES)
        return given

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the input as JSON with camelCase keys; unknown values are left out."""
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
        }
        return {key: value for key, value in known.items() if value is not None}


def _convert(given: EvaluationInput, problems: Problems) -> None:
    """Convert lists to tuples, and messages and criteria written as dicts."""
    if isinstance(given.response, Mapping):
        force_setattr(given, "response", _response(given.response, problems, "$.response") or "")
    for name in ("criteria", "message_history"):
        value = getattr(given, name)
        if isinstance(value, str | Mapping):
            problems.add(f"$.{name}", f"must be a list, got {type(value).__name__}")
            force_setattr(given, name, ())
        elif not isinstance(value, tuple):
            force_setattr(given, name, tuple(value or ()))
    if any(isinstance(each, Mapping) for each in given.criteria):
        items = [
            EvaluationCriteria.read(each, problems, f"$.criteria[{place}]") if isinstance(each, Mapping) else each
            for place, each in enumerate(given.criteria)
        ]
        force_setattr(given, "criteria", tuple(items))
    if any(isinstance(each, Mapping) for each in given.message_history):
        placed = ((f"$.message_history[{place}]", each) for place, each in enumerate(given.message_history))
        force_setattr(given, "message_history", tuple(_messages(cast(Any, placed), problems)))


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
    for name in ("prompt", "session_id", "agent_id", "id"):
        value = getattr(given, name)
        if not isinstance(value, str | None):
            problems.add(f"$.{name}", f"must be a string, got {type(value).__name__}")


def moment_of(value: object) -> datetime:
    """Return a time given as milliseconds since 1970, as ISO 8601 or as a datetime; without a time zone it is UTC.

    Raises ValueError.
    """
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (OverflowError, OSError, ValueError) as error:
            raise ValueError("that many milliseconds since 1970 are not a valid time") from error
    raise ValueError("must be milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z")


def milliseconds_of(moment: datetime) -> int:
    """Return a time as whole milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def _response(value: JsonValue, problems: Problems, at: str) -> str | Message | None:
    if isinstance(value, str):
        return value
    if isinstance(value, list | bool | int | float):
        problems.add(at, f"must be a string or a message, got {type(value).__name__}")
        return None
    try:
        return read_answer(value, at)
    except MessageError as error:
        problems.add(error.at, error.what, allowed=error.advice)
        return None


def _messages(items: Iterable[tuple[str, JsonValue]], problems: Problems) -> Iterator[Message]:
    for at, item in items:
        try:
            yield from read_message(item, at)
        except MessageError as error:
            problems.add(error.at, error.what, allowed=error.advice)


def output_messages(given: EvaluationInput) -> tuple[Message, ...] | None:
    """Return the messages after the user's last one, the answer at the end; None if only a string was given."""
    if not given.message_history:
        return None if isinstance(given.response, str) else (given.response,)
    places = [index for index, message in enumerate(given.message_history) if message.role == "user"]
    prompts = [content_text(given.message_history[index].content) for index in places]
    is_new = bool(prompts) and given.prompt is not None and given.prompt not in prompts
    # A prompt that is not in the history came after it: the messages there answer earlier prompts.
    since = () if is_new else given.message_history[places[-1] + 1 if places else 0 :]
    since = tuple(message for message in since if message.role != "system")
    answer = given.response
    if isinstance(answer, str):
        if not since or _is_answer(since[-1], answer):
            return since or None
        return (*since, Message("assistant", answer))
    return since if since and since[-1] == answer else (*since, answer)


def _is_answer(message: Message, text: str) -> bool:
    return message.role == "assistant" and content_text(message.content) == text
