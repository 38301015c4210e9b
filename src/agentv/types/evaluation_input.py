"""What the criteria door is given: an answer that exists already, and what there is to judge it by."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self, cast

from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import ROLES, Message
from agentv.types.messages_json import content_text, message_from_json, message_to_json, messages_to_json
from agentv.types.scales import EvaluationCriteria


@dataclass(frozen=True, slots=True)
class EvaluationInput:
    """One answer with its surroundings (the PRD's EvaluationInput).

    `response` is the answer: its text, or a message with content parts and tool calls. `ground_truth` is a reference
    answer, or any JSON. `message_history` is the conversation before it, and may end with the answer itself.
    `timestamp` is when the answer was given, always with a time zone; a number is read as milliseconds since 1970.
    """

    response: str | Message
    criteria: tuple[EvaluationCriteria, ...] = ()
    prompt: str | None = None
    context: JsonObject = field(default_factory=dict)
    ground_truth: JsonValue = None
    agent_config: JsonObject | None = None
    message_history: tuple[Message, ...] = ()
    timestamp: datetime | None = None
    session_id: str | None = None
    agent_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Accept any sequence where a tuple is kept, and a moment as milliseconds since 1970."""
        for name in ("criteria", "message_history"):
            value = getattr(self, name)
            if not isinstance(value, tuple):
                object.__setattr__(self, name, tuple(value or ()))
        moment: object = self.timestamp
        if isinstance(moment, int | float):
            object.__setattr__(self, "timestamp", moment_of(moment))

    @property
    def text(self) -> str:
        """The answer's text: of a message all its text parts, joined by newline."""
        return self.response if isinstance(self.response, str) else content_text(self.response.content)

    @classmethod
    def from_dict(cls, raw: object) -> Self:
        """Read an input from JSON, keys in snake_case or camelCase, messages with `content` or `contentParts`.

        Raises EvalFileError with every problem; a key that nobody knows is one.
        """
        problems = Problems(cls.__name__)
        fields = Fields(raw, problems)
        answer = fields.read("response", _response)
        if answer is None and not problems.noted:
            problems.note("$", "`response` is missing: the answer to judge")
        read = cls(
            response=answer or "",
            criteria=tuple(EvaluationCriteria.read(item, problems, at) for at, item in fields.items("criteria")),
            prompt=fields.text("prompt"),
            context=fields.mapping("context") or {},
            ground_truth=fields.any("ground_truth"),
            agent_config=fields.mapping("agent_config"),
            message_history=tuple(_message(item, problems, at) for at, item in fields.items("message_history")),
            timestamp=fields.read("timestamp", moment_of),
            session_id=fields.text("session_id"),
            agent_id=fields.text("agent_id"),
            metadata=fields.mapping("metadata") or {},
        )
        fields.close()
        problems.raise_any()
        return read

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the input as JSON with the camelCase keys of the older documents; what is not known is absent."""
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
        }
        return {key: value for key, value in known.items() if value is not None}


def moment_of(value: JsonValue) -> datetime:
    """Return a moment given as milliseconds since 1970 or as ISO 8601; without a time zone it is UTC.

    Raises ValueError.
    """
    if isinstance(value, str):
        moment = datetime.fromisoformat(value)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            return datetime.fromtimestamp(value / 1000, UTC)
        except (OverflowError, OSError) as error:
            raise ValueError(f"{value:g} ms since 1970 is no moment") from error
    raise ValueError("must be milliseconds since 1970, or a time such as 2026-01-31T12:00:00Z")


def milliseconds_of(moment: datetime) -> int:
    """Return a moment as whole milliseconds since 1970."""
    return round(moment.timestamp() * 1000)


def _response(value: JsonValue) -> str | Message:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        # A message without a role is the agent's own: that is whose answer is judged.
        message = message_from_json({"role": "assistant", **value})
        if message is not None:
            return message
    raise ValueError(f"must be a text or a message, got {type(value).__name__}")


def _message(value: JsonValue, problems: Problems, at: str) -> Message:
    message = message_from_json(value)
    if message is None:
        problems.note(at, "is no message", allowed=f"an object with role ({', '.join(ROLES)}) and content")
    return cast(Message, message)
