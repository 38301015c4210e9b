"""Read one line of a log, of any known program, as an answer to judge."""

from collections.abc import Callable, Mapping, Sequence
from math import inf, isfinite
from typing import NamedTuple, TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from agentv.messages.logs.fields import Found, LogRecord, decoded, keys_of, logged_moment
from agentv.messages.logs.mapping import INPUT_KEYS, KNOWN_KEYS, Extra, LogMap, read_own, with_mapped_fields
from agentv.messages.logs.services import (
    JOINED,
    is_langfuse,
    is_langsmith,
    is_openai,
    read_langfuse,
    read_langsmith,
    read_openai,
)
from agentv.messages.shapes.answers import TEXT_KEYS, read_answer_object
from agentv.messages.shapes.autogen import is_autogen
from agentv.messages.shapes.fields import ROLE_NAMES
from agentv.messages.shapes.google import content_of
from agentv.messages.shapes.langchain import TYPES, fields_of
from agentv.messages.shapes.pydantic_ai import KINDS
from agentv.messages.shapes.reading import read_answer, read_messages
from agentv.messages.shapes.responses import is_item
from agentv.messages.shapes.results import messages_of_reply
from agentv.messages.shapes.usages import read_usage
from agentv.messages.transcripts.reading import PROGRAM_NAMES, program_of
from agentv.types.errors import MessageError, nearest
from agentv.types.evaluation_input import EvaluationInput, milliseconds_of
from agentv.types.fields import Problems
from agentv.types.json_value import JsonObject, JsonValue, listed_keys, snake_case
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text
from agentv.types.usage import MAX_COST_USD, MAX_TOKENS, Usage, known_cost, known_usage

TextOrMessages: TypeAlias = str | tuple[Message, ...]

_PAIR_LENGTH = 2


class LoggedField(NamedTuple):
    """A field that holds a text or messages: its name in `--map`, and the keys that usually hold the text."""

    name: str
    keys: tuple[str, ...]


PROMPT = LoggedField(
    "prompt",
    (
        *("input", "question", "query", "prompt", "user_input", "user_message", "user_msg", "user_prompt"),
        *("message", "text", "content"),
    ),
)
RESPONSE = LoggedField("response", TEXT_KEYS)


def read_text_or_messages(value: JsonValue, at: str, field: LoggedField) -> TextOrMessages | None:
    """Return the text or the messages in a value; None if no rule finds any. `at` is the value's place in errors.

    Raises MessageError for a message that cannot be read, and if there are several answers or texts to choose from.
    """
    if isinstance(value, str):
        json_value = decoded(value)
        found = None if json_value is None else _in_decoded_text(json_value, at, field)
        return found or value
    if isinstance(value, list | tuple):
        return _in_list(value, at, field)
    return _in_object(value, at, field) if isinstance(value, Mapping) else None


def _in_decoded_text(json_value: JsonObject | list[JsonValue], at: str, field: LoggedField) -> TextOrMessages | None:
    """Return the text or the messages in the JSON of a text; None if the JSON itself may be the answer."""
    is_wrapped = isinstance(json_value, Mapping) and len(json_value) == 1 and next(iter(json_value)) in field.keys
    return read_text_or_messages(json_value, at, field) if is_wrapped or _is_dialogue(json_value) else None


def _is_dialogue(value: JsonValue) -> bool:
    """Return True for a message, an object that lists messages or choices, or a list of such values."""
    if isinstance(value, list | tuple):
        return bool(value) and all(map(_is_dialogue, value))
    if not isinstance(value, Mapping):
        return False
    return _is_message(value) or any(isinstance(value.get(key), list) for key in ("messages", "choices", "generations"))


def _is_message(value: JsonValue) -> bool:
    if not isinstance(value, Mapping):
        return False
    if value.get("role") in ROLE_NAMES or fields_of(value) is not None or is_item(value) or is_autogen(value):
        return True
    return "parts" in value and (value.get("kind") in KINDS or content_of(value) is not None)


def _in_list(value: Sequence[JsonValue], at: str, field: LoggedField) -> TextOrMessages | None:
    if value and all(map(_is_message, value)):
        return read_messages(value, at)
    if value and all(map(_is_pair, value)):  # LangChain's short form: ["user", "Hello"]
        pairs = [item for item in value if isinstance(item, list | tuple)]
        return read_messages([{"role": _ROLES.get(str(role), role), "content": text} for role, text in pairs], at)
    if value and all(isinstance(item, Mapping) and item.get("type") == "text" for item in value):
        return (read_answer({"content": value}, at),)
    if len(value) == 1:
        return read_text_or_messages(value[0], f"{at}[0]", field)
    return None


_ROLES = {"human": "user", "ai": "assistant"}


def _is_pair(value: JsonValue) -> bool:
    if not isinstance(value, list | tuple) or len(value) != _PAIR_LENGTH:
        return False
    return all(isinstance(item, str) for item in value) and (value[0] in ROLE_NAMES or value[0] in TYPES)


def _in_object(value: JsonObject, at: str, field: LoggedField) -> TextOrMessages | None:
    if _is_message(value):
        return (read_answer(value, at),)
    choices = value.get("choices")
    if isinstance(choices, list) and choices:
        return _in_choices(choices, f"{at}.choices", field)
    if isinstance(value.get("candidates"), list):
        listed = messages_of_reply(value, at)
        return None if listed is None else read_messages(listed, f"{at}.candidates")
    for key in ("messages", "generations", "message", "output", "data", "response", "result"):
        inner = value.get(key)
        if isinstance(inner, Mapping) or (isinstance(inner, list | tuple) and inner):
            inner_content = read_text_or_messages(inner, f"{at}.{key}", field)
            if inner_content is not None:
                return inner_content
    return _named_text(value, at, field)


def _in_choices(choices: Sequence[JsonValue], at: str, field: LoggedField) -> TextOrMessages | None:
    if len(choices) > 1:
        advice = f"choose one with --map {field.name}={_map_path(at)}[0].message"
        raise MessageError(at, f"has {len(choices)} answers", advice)
    return read_text_or_messages(choices[0], f"{at}[0]", field)


def _named_text(value: JsonObject, at: str, field: LoggedField) -> TextOrMessages | None:
    """Return the text under an object's only key, or under the one usual key that has a text; None without such a key.

    Raises MessageError if several of the usual keys have a text.
    """
    texts = {key: item for key, item in value.items() if isinstance(item, str)}
    if len(value) == 1:
        return next(iter(texts.values()), None)
    known = [key for key in field.keys if key in texts]
    if len(known) > 1:
        keys = listed_keys(known)
        advice = f"choose one with --map {field.name}={_map_path(at)}.{known[0]}"
        raise MessageError(at, f"has several texts, {keys}", advice)
    return texts[known[0]] if known else None


def _number_in(value: object) -> float | None:
    """Return a number, also from a text; infinity for an integer that is too large for a float; None without one."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except ValueError:
        return None
    except OverflowError:
        return inf


def _map_path(at: str) -> str:
    """Return a place in a line, as in `$.outputs`, as a path for `--map`: `outputs`."""
    return at.removeprefix("$.")


_READERS: tuple[tuple[Callable[[JsonObject], bool], Callable[[JsonObject], LogRecord]], ...] = (
    (is_langsmith, read_langsmith),
    (is_langfuse, read_langfuse),
    (is_openai, read_openai),
)
_LINE = "log line"
_MAPPING_ADVICE = "name the fields with --map FIELD=PATH, such as --map prompt=PATH --map response=PATH"


class LoggedAnswer(Struct, frozen=True):
    """One logged answer, with the logged facts about the call."""

    given: EvaluationInput
    mapped: tuple[str, ...] = ()
    """The fields of `--map` with a value in the line."""
    notes: tuple[str, ...] = ()
    """Warnings about the line; a warning that is the same for several lines of a log is reported once."""


class TraceStep(Struct, frozen=True):
    """A line that is only a part of a longer trace; `kind` names it, such as `Langfuse span observation`."""

    kind: str


LoggedLine: TypeAlias = LoggedAnswer | TraceStep


def read_logged(value: object, *, paths: LogMap | None = None, extra: Extra = "error") -> LoggedLine:
    """Return the answer on a line of a log, or a TraceStep. The keys of the line show which program wrote it.

    Fields in `paths` are read there and nowhere else; a value for `metadata.NAME` replaces that of the line's metadata.
    Raises EvalFileError with the problems and their paths in the line: a line that is not an object, a missing answer,
    values of a wrong type, and, with `extra="error"`, unknown keys of a line that is not another program's export.
    """
    return _read(value, paths or {}, lambda reader: reader.read(extra))


def read_conversation(value: object, *, paths: LogMap | None = None) -> LoggedLine:
    """Return the conversation on a line of a log, with an empty answer if the line has none; or a TraceStep.

    Unknown keys are skipped. Raises EvalFileError as `read_logged` does, for a line without a question instead of one
    without an answer.
    """
    return _read(value, paths or {}, lambda reader: reader.read_conversation())


def _read(value: object, paths: LogMap, read: "Callable[[_Reader], LoggedAnswer]") -> LoggedLine:
    problems = Problems(_LINE)
    if not isinstance(value, Mapping):
        problems.add("$", f"must be an object, got {type(value).__name__}")
        problems.raise_any()
    line = cast(JsonObject, value)
    record = with_mapped_fields(_record(line), line, paths)
    if record.step is not None:
        return TraceStep(f"{record.shape} {record.step}")
    answer = read(_Reader(line, record, problems))
    problems.raise_any()
    return replace(answer, mapped=tuple(name for name in paths if name in record.fields))


def read_log_id(value: object, *, paths: LogMap | None = None) -> str | None:
    """Return only the id of a line: "" if the line has none, None if the line is a part of a longer trace."""
    if not isinstance(value, Mapping):
        return ""
    record = with_mapped_fields(_record(value), value, paths or {})
    if record.step is not None:
        return None
    found = record.fields.get("id")
    log_id = None if found is None else _id_text(found.value)
    return log_id if isinstance(log_id, str) else ""


def is_export(value: JsonObject) -> bool:
    """Return True for a line of an export of another program."""
    return any(is_shape(value) for is_shape, _ in _READERS)


def _record(value: JsonObject) -> LogRecord:
    return next((read for is_shape, read in _READERS if is_shape(value)), read_own)(value)


_ZIPKIN_KEYS = frozenset({"traceId", "id", "localEndpoint"})


class _Reader:
    """Reads the record of one line, and adds to `problems` what is wrong in it."""

    def __init__(self, line: JsonObject, record: LogRecord, problems: Problems) -> None:
        self._line, self._record, self._problems = line, record, problems
        self._notes = list(record.notes)

    def read(self, extra: Extra) -> LoggedAnswer:
        """Return the answer; a missing answer, a wrong value or an unknown key is recorded as a problem."""
        if self._line.keys() >= _ZIPKIN_KEYS:
            what = "is a span of Zipkin, whose exporters cut the messages; export the traces as OTLP instead"
            self._problems.add("$", what)
            return LoggedAnswer(EvaluationInput(""))
        fields = self._fields(extra)
        if "response" not in fields:
            self._report_missing_answer()
            return LoggedAnswer(EvaluationInput(""), notes=tuple(self._notes))
        given = EvaluationInput.read(fields, self._problems, "$")
        if extra == "error":
            self._report_unread(self._record.unread)
        return LoggedAnswer(given, notes=tuple(self._notes))

    def read_conversation(self) -> LoggedAnswer:
        """Return the conversation, with an empty answer if it has none; a missing question is recorded as a problem."""
        given = EvaluationInput.read({"response": "", **self._fields(None)}, self._problems, "$")
        has_question = given.prompt or any(message.role == "user" for message in given.message_history)
        if not self._problems.found and not has_question:
            self._problems.add("$", f"has no question; this line has the keys {self._keys()}", allowed=_MAPPING_ADVICE)
        return LoggedAnswer(given, notes=tuple(self._notes))

    def _fields(self, extra: Extra | None) -> dict[str, JsonValue]:
        """Return the fields as `EvaluationInput.read` takes them; wrong values become problems.

        Unknown keys become metadata with `extra="metadata"`; else they are left out.
        """
        fields = self._record.fields
        given: dict[str, JsonValue] = {name: fields[name].value for name in INPUT_KEYS if name in fields}
        for name in ("prompt", "response"):
            if name in given and fields[name].form != "own":
                del given[name]  # `_content` finds the text in it
        given |= {name: _id_text(given[name]) for name in ("id", "session_id", "agent_id", "target") if name in given}
        if (logged := fields.get("timestamp")) is not None:
            given["timestamp"] = self._timestamp(logged)
        given |= self._call_facts()
        given |= self._content(given)
        metadata = self._metadata()
        if extra == "metadata":
            metadata |= {key: self._line[key] for key in self._record.unread if key not in metadata}
        if metadata or "metadata" in given:
            given["metadata"] = metadata
        return given

    def _call_facts(self) -> dict[str, JsonValue]:
        """Return the logged facts about the call: model, duration, usage, cost, and tags."""
        fields = self._record.fields
        call: dict[str, JsonValue] = {}
        if (duration := fields.get("duration_ms")) is not None:
            call["duration_ms"] = self._number(duration)
        if (cost := fields.get("cost_usd")) is not None:
            call["cost_usd"] = self._cost(cost)
        if (model := fields.get("model")) is not None:
            if isinstance(model.value, str):
                call["model"] = model.value
            else:
                self._problems.add(model.at, f"must be a string, got {type(model.value).__name__}")
        if (usage := self._usage()) is not None:
            call["usage"] = cast(JsonValue, usage)
        if (tags := fields.get("tags")) is not None:
            call["tags"] = self._tags(tags)
        return call

    def _tags(self, field: Found) -> JsonValue:
        """Return a list of tags; programs write it as a list, as the JSON of a list in a text, or as one tag."""
        tags = field.value
        if isinstance(tags, str) and (inner := decoded(tags)) is not None:
            tags = inner
        listed = [tags] if isinstance(tags, str) else tags
        if isinstance(listed, list) and all(isinstance(tag, str) for tag in listed):
            return listed
        self._problems.add(field.at, "must be a list of strings")
        return []

    def _number(self, field: Found) -> float | None:
        """Return a number of at least 0; any other value is a problem. Some programs write numbers as text."""
        number = _number_in(field.value)
        if number is not None and isfinite(number) and number >= 0:
            return number
        self._problems.add(field.at, f"must be a number of at least 0, got {field.value!r}")
        return None

    def _cost(self, field: Found) -> float | None:
        """Return a cost; a number that cannot be one is unknown, with a note, and any other value is a problem."""
        number = _number_in(field.value)
        if number is None:
            self._problems.add(field.at, f"must be a number of dollars, got {field.value!r}")
        elif known_cost(number) is None:
            self._notes.append(f"{field.at} counts as unknown: it is not from 0 to {MAX_COST_USD:,.0f} dollars")
        return known_cost(number)

    def _timestamp(self, field: Found) -> JsonValue:
        try:
            return milliseconds_of(logged_moment(field.value))
        except ValueError as error:
            self._problems.add(field.at, str(error))
            return None

    def _usage(self) -> Usage | None:
        field = self._record.fields.get("usage")
        usage = None if field is None else read_usage(field.value)
        if field is not None and field.value and usage is None:
            self._notes.append(f"{field.at} has no known token counts; write {{input, output}}")
        elif field is not None and usage is not None and known_usage(usage) is None:
            self._notes.append(f"{field.at} counts as unknown: a token count is not from 0 to {MAX_TOKENS:,}")
        return known_usage(usage)

    def _metadata(self) -> dict[str, JsonValue]:
        """Return the metadata of the line with the fields `metadata.NAME`.

        Only a mapped field replaces a key that the metadata already has. A note reports a key of our own format that is
        not stored for this reason.
        """
        fields = self._record.fields
        field = fields.get("metadata")
        written = None if field is None else field.value
        if isinstance(written, str):
            inner = decoded(written)
            written = {"metadata": written} if inner is None else inner
        metadata: dict[str, JsonValue] = {}
        if isinstance(written, Mapping):
            metadata = dict(written)
        elif field is not None:
            self._problems.add(field.at, f"must be an object, got {type(written).__name__}")
        named = {name.removeprefix("metadata."): item for name, item in fields.items() if name.startswith("metadata.")}
        for name, item in named.items():
            if item.form == "mapped" or (name not in metadata and item.value not in (None, [])):
                metadata[name] = item.value
            elif item.form == "own" and name in metadata and metadata[name] != item.value:
                what = f"{item.at} is not stored, because the metadata has another value under {name!r}"
                self._notes.append(f"{what}; --map metadata.{name}={_map_path(item.at)} stores it instead")
        return metadata

    def _content(self, given: JsonObject) -> dict[str, JsonValue]:
        """Return the prompt, the history and the answer, from separate fields or from one conversation.

        `given` has the fields read so far, with `response` if the answer is under our own key. A message that cannot be
        read is recorded as a problem.
        """
        fields = self._record.fields
        parts: dict[str, JsonValue] = {}
        try:
            if "messages" in fields:
                return self._conversation(_messages_in(fields["messages"]), has_answer="response" in given)
            history = self._read_input(fields.get("prompt"), parts)
            answer = fields.get("response")
            if answer is not None and answer.form == "own" and isinstance(answer.value, Mapping):
                advice = f"name the answer with --map response={_map_path(answer.at)}.KEY"
                parts["response"] = ""  # stays if the answer cannot be read, which is then the only problem
                parts["response"] = cast(JsonValue, read_answer_object(answer.value, answer.at, advice))
            content = None if answer is None or answer.form == "own" else self._answer(answer)
            if isinstance(content, tuple):
                # An answer with a message of the user holds the whole conversation, also the input.
                is_whole = any(message.role == "user" for message in content)
                if not is_whole and not any(message.tool_calls for message in content):
                    history = self._with_steps(history, parts)
                parts |= self._conversation(content if is_whole else (*history, *content), has_answer=False)
                return parts
            if content is not None:
                parts["response"] = content
                history = self._with_steps(history, parts)
            if history:
                parts["message_history"] = cast(JsonValue, history)
        except MessageError as error:
            self._problems.add(error.at, error.what, allowed=error.advice)
        return parts

    def _with_steps(self, history: tuple[Message, ...], parts: dict[str, JsonValue]) -> tuple[Message, ...]:
        """Return a history with what the steps of the trace did; the prompt in `parts` is then a message before it."""
        steps = self._record.fields.get("steps")
        if steps is None:
            return history
        prompt = parts.pop("prompt", None)
        question = (Message("user", prompt),) if isinstance(prompt, str) else ()
        return (*history, *question, *read_messages(steps.value, steps.at))

    def _read_input(self, field: Found | None, parts: dict[str, JsonValue]) -> tuple[Message, ...]:
        """Return the messages of an input; any other input becomes the text of the prompt in `parts`."""
        if field is None or field.form == "own":
            return ()
        content = read_text_or_messages(field.value, field.at, PROMPT)
        if isinstance(content, tuple):
            parts["prompt"] = None
            return content
        parts["prompt"] = compact_json(field.value) if content is None else content
        return ()

    def _answer(self, field: Found) -> str | tuple[Message, ...]:
        if field.form == "mapped" and isinstance(field.value, str):
            return field.value
        content = read_text_or_messages(field.value, field.at, RESPONSE)
        if content is not None:
            return content
        if field.form == "mapped":
            return compact_json(field.value)
        is_object = isinstance(field.value, Mapping)
        keys = f"; its keys: {keys_of(field.value)}" if is_object else ""
        path = _map_path(field.at) + (".KEY" if is_object else "[0]")
        what = f"holds no text or message that is understood{keys}"
        raise MessageError(field.at, what, f"name the answer with --map response={path}")

    def _conversation(self, messages: Sequence[Message], *, has_answer: bool) -> dict[str, JsonValue]:
        """Split messages into the history and the answer, which comes after the user's last message.

        The answer is the assistant's last message with a text, else the assistant's last message. If there is none, or
        with `has_answer` (the answer is in a field of its own), all messages are the history.
        """
        if has_answer:
            return {"message_history": cast(JsonValue, tuple(messages))}
        last_user = max((place for place, each in enumerate(messages) if each.role == "user"), default=-1)
        answers = [place for place, each in enumerate(messages) if place > last_user and each.role == "assistant"]
        if not answers:
            return {"message_history": cast(JsonValue, tuple(messages))}
        place = next((place for place in reversed(answers) if content_text(messages[place].content)), answers[-1])
        history = (*messages[:place], *messages[place + 1 :])
        return cast(dict[str, JsonValue], {"message_history": history, "response": messages[place]})

    def _report_missing_answer(self) -> None:
        """Record why there is no answer, unless another problem is the cause."""
        record, problems = self._record, self._problems
        if problems.found:
            return
        if record.failure is not None:
            problems.add("$", f"has no answer, because it failed: {record.failure}")
        elif record.shape == "own" and (program := program_of(self._line)) is not None:
            what = f"is a record of a transcript of {PROGRAM_NAMES[program]}, which is read as a whole"
            problems.add("$", what, allowed="give its file or folder instead of a stream")
        elif "messages" in record.fields:
            problems.add(record.fields["messages"].at, "has no answer after the user's last message")
        elif record.shape == "own" and self._line.get("response", "") is None:
            problems.add(
                "$.response", "is null or an empty cell; if the agent answered nothing, write an empty text in JSON"
            )
        else:
            is_own = record.shape == "own"
            missing = (
                "the answer, `response`, is missing" if is_own else f"is an export of {record.shape} without an answer"
            )
            what = f"{missing}; this line has the keys {self._keys()}"
            near = next(filter(_is_like_answer, record.unread), None)
            problems.add("$", what, allowed=_MAPPING_ADVICE, suggestion=near and f"--map response={near}")

    def _keys(self) -> str:
        """Return the keys of the line for a message, without the one under which its steps were joined."""
        return keys_of({key: item for key, item in self._line.items() if key != JOINED})

    def _report_unread(self, unread: Sequence[str]) -> None:
        """Record the unknown keys of a line as problems; only the first one has the advice."""
        advice: str | None = "store such keys with --extra metadata, or map them to fields with --map FIELD=PATH"
        for key in unread:
            near = nearest(snake_case(key), KNOWN_KEYS)
            self._problems.add(f"$.{key}", f"unknown key {key!r}", allowed=advice, suggestion=near)
            advice = None


def _is_like_answer(key: str) -> bool:
    name = snake_case(key)
    return name in RESPONSE.keys or nearest(name, ("response",)) is not None


def _messages_in(field: Found) -> tuple[Message, ...]:
    value = field.value
    if isinstance(value, str) and (inner := decoded(value)) is not None:
        value = inner
    if isinstance(value, Mapping) and isinstance(value.get("data"), list):  # a list object of OpenAI's API
        value = value["data"]
    return read_messages(value, field.at)


def _id_text(value: JsonValue) -> JsonValue:
    """Return an id as text, also if it is a number."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
