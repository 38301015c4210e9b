"""The input of the criteria API: an existing answer and its context."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache, partial
from math import inf
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Self,
    TypeAlias,
    TypedDict,
    Union,
    Unpack,
    get_args,
    get_origin,
    overload,
)

from msgspec import NODEFAULT, Meta, Struct, field, structs
from msgspec.structs import force_setattr

from agentv.types.errors import EvalFileError, MessageError
from agentv.types.fields import Fields, Problems
from agentv.types.json_value import JsonObject, JsonValue, camel_case
from agentv.types.messages import Message
from agentv.types.messages_json import content_text, message_to_json, messages_to_json
from agentv.types.moments import read_moment
from agentv.types.readers import read_answer_object, read_list, read_message, read_usage
from agentv.types.scales import EvaluationCriteria
from agentv.types.stored import MAX_DURATION_MS
from agentv.types.structs import CamelKeywords, struct_fields
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
    """The answer: its text, or a message with content parts and tool calls."""
    prompt: str | None = None
    criteria: tuple[EvaluationCriteria, ...] = ()
    context: JsonObject = field(default_factory=dict)
    ground_truth: JsonValue = None
    """A reference answer, or any JSON."""
    agent_config: JsonObject | None = None
    message_history: tuple[Message, ...] = ()
    """The conversation that led to the answer; it may include the answer as its last message."""
    timestamp: datetime | None = None
    """The time of the answer, always with a time zone; a number is read as milliseconds since 1970."""
    session_id: str | None = None
    """Answers of one session are not independent: they form one cluster in every interval."""
    agent_id: str | None = None
    metadata: JsonObject = field(default_factory=dict)
    """Results can be grouped by any of its keys."""
    id: str | None = None
    """The id of the case: answers with the same id, in one file or several, are answers to the same question."""


class EvaluationInput(_InputFields, frozen=True, kw_only=True, metaclass=_InputMeta):
    """One answer with its context (the PRD's EvaluationInput).

    Messages, criteria and usage may be dicts, as `from_dict` reads them. Fields that are not known are None.
    """

    target: str | None = None
    """`target` and `model` are the names of what answered."""
    model: str | None = None
    duration_ms: Annotated[float, Meta(le=MAX_DURATION_MS)] | None = None
    """`duration_ms`, `usage` and `cost_usd` are those of the answer."""
    usage: Usage | None = None
    cost_usd: Annotated[float, Meta(le=MAX_COST_USD)] | None = None
    tags: tuple[str, ...] = ()
    """Results can be grouped by them."""

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
        """Read each value by the reader of its field, which converts lists, dicts and times.

        Raises EvalFileError with every problem.
        """
        problems = Problems(type(self).__name__)
        for name, at, default, read in _readers():
            given = getattr(self, name)
            if given is default:
                continue
            # Null is absent; a list or an object is then empty.
            found = type(default)() if given is None and default is not NODEFAULT else read(given, at, problems)
            if found is not given:
                force_setattr(self, name, found)
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
        given: dict[str, Any] = {name: fields.value(name) for name in cls.__struct_fields__}
        fields.check_unknown_keys(other_names=_FOREIGN_NAMES)
        if given["response"] is None:
            given["response"] = ""
            problems.add(at, "the answer, `response`, is missing")
        if problems.ignores_unknown:
            given["criteria"] = _known_fields_of_criteria(given["criteria"])
        try:
            return cls(**given)
        except EvalFileError as error:
            problems.include(error, at)
            return cls("")

    def to_dict(self) -> dict[str, JsonValue]:
        """Return the input as JSON with camelCase keys; fields without a value are left out, but for `criteria`."""
        known: dict[str, JsonValue] = {}
        for name, default in _defaults_in_json_order().items():
            value = getattr(self, name)
            if value != default or name == "criteria":
                to_json = _TO_JSON.get(name)
                known[camel_case(name)] = value if to_json is None else to_json(value)
        return known


_Read: TypeAlias = Callable[[Any, str, Problems], object]
"""Return a given value as that of a field; `at` is its path. A problem is recorded."""


@cache
def _readers() -> tuple[tuple[str, str, object, _Read], ...]:
    """Return the name, path, default and reader of each field but those that take any JSON."""
    return tuple(
        (each.name, f"$.{each.name}", each.default, _READERS.get(each.name) or _reader_of(each.type))
        for each in struct_fields(EvaluationInput)
        if each.type is not Any
    )


_UNIONS = (Union, UnionType)


def _reader_of(hint: Any) -> _Read:
    """Return the reader of a text, an object, or a number from 0 to its bound."""
    plain = next(each for each in get_args(hint) if each is not NoneType) if get_origin(hint) in _UNIONS else hint
    if get_origin(plain) is Annotated:
        _, bound = get_args(plain)
        return partial(_amount, limit=bound.le)
    return {str: _text, JsonObject: _object}[plain]


def _text(given: object, at: str, problems: Problems) -> object:
    if not isinstance(given, str):
        problems.add(at, f"must be a string, got {type(given).__name__}")
    return given


def _object(given: object, at: str, problems: Problems) -> object:
    if type(given) is not dict and not isinstance(given, Mapping):
        problems.add(at, f"must be an object, got {type(given).__name__}")
    return given


def _amount(given: object, at: str, problems: Problems, *, limit: float) -> object:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < inf:
        problems.add(at, f"must be a number of at least 0, got {_short(given)}")
    elif given > limit:
        advice = "a duration in milliseconds, not a time" if limit == MAX_DURATION_MS else "a cost in dollars"
        problems.add(at, f"must be at most {limit:,.0f}, got {_short(given)}", allowed=advice)
    return given


def _short(value: object) -> str:
    """Return a value for a message; Python writes no integer of more than 4,300 digits."""
    is_long = isinstance(value, int) and abs(value) > MAX_TOKENS * MAX_TOKENS
    return "a longer number" if is_long else repr(value)


def _items(given: object, at: str, problems: Problems) -> tuple[Any, ...]:
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        problems.add(at, f"must be a list, got {type(given).__name__}")
        return ()
    return given if isinstance(given, tuple) else tuple(given)


def _response(given: object, at: str, problems: Problems) -> object:
    if isinstance(given, str | Message):
        return given
    if not isinstance(given, Mapping):
        problems.add(at, f"must be a string or a message, got {type(given).__name__}")
        return ""
    try:
        return read_answer_object(given, at)
    except MessageError as error:
        problems.add(error.at, error.what, allowed=error.advice)
        return ""


def _criteria(given: object, at: str, problems: Problems) -> tuple[EvaluationCriteria, ...]:
    items = _items(given, at, problems)
    if all(isinstance(each, EvaluationCriteria) for each in items):
        return items
    try:
        return read_list("criteria", items, where=problems.what)
    except EvalFileError as error:
        problems.include(error, "$")
        return ()


def _known_fields_of_criteria(given: JsonValue) -> JsonValue:
    """Return criteria without keys of later versions."""
    if not isinstance(given, list):
        return given
    known = EvaluationCriteria.__struct_fields__
    return [{key: each[key] for key in known if key in each} if isinstance(each, Mapping) else each for each in given]


def _messages(given: object, at: str, problems: Problems) -> tuple[Message, ...]:
    items = _items(given, at, problems)
    if all(isinstance(each, Message) for each in items):
        return items
    messages: list[Message] = []
    for index, each in enumerate(items):
        try:
            messages += read_message(each, f"{at}[{index}]")
        except MessageError as error:
            problems.add(error.at, error.what, allowed=error.advice)
    return tuple(messages)


def _moment(given: object, at: str, problems: Problems) -> datetime | None:
    try:
        return moment_of(given)
    except ValueError as error:
        problems.add(at, str(error))
        return None


def _usage(given: object, at: str, problems: Problems) -> Usage | None:
    usage = read_usage(given) if isinstance(given, Mapping) else given
    if not isinstance(usage, Usage | None):
        problems.add(at, f"must be a Usage, got {type(given).__name__}")
    elif usage is None:
        problems.add(at, "has no known token counts; write {input, output}")
    elif known_usage(usage) is None:
        problems.add(at, f"must have token counts from 0 to {MAX_TOKENS:,}")
    else:
        return usage
    return None


def _tags(given: object, at: str, problems: Problems) -> tuple[str, ...]:
    tags = (given,) if isinstance(given, str) else _items(given, at, problems)
    for place, tag in enumerate(tags):
        _text(tag, f"{at}[{place}]", problems)
    return tags


_READERS: Mapping[str, _Read] = {
    "response": _response,
    "criteria": _criteria,
    "message_history": _messages,
    "timestamp": _moment,
    "usage": _usage,
    "tags": _tags,
}
"""The readers of fields that may be given in several forms; the others are read by their types."""


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


@cache
def _defaults_in_json_order() -> Mapping[str, object]:
    """Return the default of each field, in the order in which stored judgements have them."""
    defaults = {each.name: each.default for each in struct_fields(EvaluationInput)}
    return {
        name: defaults[name] for name in dict.fromkeys(("prompt", "response", "context", "ground_truth", *defaults))
    }


_TO_JSON: Mapping[str, Callable[[Any], JsonValue]] = {
    "response": lambda response: response if isinstance(response, str) else message_to_json(response),
    "criteria": lambda criteria: [criterion.to_dict() for criterion in criteria],
    "message_history": messages_to_json,
    "timestamp": milliseconds_of,
    "usage": structs.asdict,
    "tags": list,
}
"""How fields are written whose values are not JSON."""


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
