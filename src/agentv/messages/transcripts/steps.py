"""The steps of a coding agent: each agent's events become steps, and the steps become a response. Pure.

The time `at` of a step is ISO 8601.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.messages.shapes.fields import milliseconds_between
from agentv.types.failures import FailureKind
from agentv.types.json_value import JsonObject, JsonValue, objects_of
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.moments import to_utc
from agentv.types.provider import ProviderResponse
from agentv.types.usage import Usage


def parse_object(text: str) -> JsonObject | None:
    """Parse a JSON object; return None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def text_of(value: JsonValue) -> str | None:
    """Return a value if it is a non-empty string, else None."""
    return value if isinstance(value, str) and value else None


def status_of(value: JsonValue) -> int | None:
    """Return a value if it is an HTTP error status, else None."""
    return value if isinstance(value, int) and 400 <= value < 600 else None  # noqa: PLR2004 - HTTP's range of errors


def parts_text(content: JsonValue) -> JsonValue:
    """Return content that consists of text parts as one text, and any other unchanged."""
    parts = objects_of(content)
    if isinstance(content, list) and len(parts) == len(content) and all(part.get("type") == "text" for part in parts):
        return "\n".join(str(part.get("text", "")) for part in parts)
    return content


def time_of_ms(value: JsonValue) -> str | None:
    """Return milliseconds since 1970 as ISO 8601; None for an invalid value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return iso_time(datetime.fromtimestamp(value / 1000, UTC))
    except (OverflowError, ValueError, OSError):
        return None


def iso_time(moment: datetime) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    return to_utc(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_MAX_LINE_CHARACTERS = 300
"""The maximum number of characters of a step in a readable log."""


class Said(Struct, frozen=True):
    """The agent wrote a message. `parent` is the tool call under which a subagent wrote it."""

    text: str
    at: str | None = None
    parent: str | None = None


class Called(Struct, frozen=True):
    """The agent called a tool; a second step with the same `id` completes the first."""

    id: str
    tool: str
    input: JsonValue = None
    at: str | None = None
    parent: str | None = None


class Returned(Struct, frozen=True):
    """A tool returned."""

    id: str
    output: JsonValue
    at: str | None = None


class Used(Struct, frozen=True):
    """The usage and cost of one model call or, with `is_total`, of all calls so far."""

    usage: Usage
    cost_usd: float | None = None
    is_total: bool = False
    """True if it replaces what was added before, except a higher number of requests."""
    call: str | None = None
    """The id of the model call.

    A further step with the same id adds its output tokens and cost, but neither input tokens nor a request.
    """
    is_estimate: bool = False
    """True if a part of the tokens is estimated."""


class SessionInfo(Struct, frozen=True):
    """Information about the session; None leaves a value unchanged."""

    session: str | None = None
    model: str | None = None
    finish_reason: str | None = None


class Concluded(Struct, frozen=True):
    """The agent declared a text to be its answer. With `is_last_resort`, it is used only if there is no message."""

    text: str
    is_last_resort: bool = False


class Failed(Struct, frozen=True):
    """The agent failed; a later message or tool call cancels the failure."""

    message: str
    status: int | None = None
    kind: FailureKind | None = None


class Noted(Struct, frozen=True):
    """A note for the log or, with `in_result`, also for the result."""

    text: str
    in_result: bool = False


Step: TypeAlias = Said | Called | Returned | Used | SessionInfo | Concluded | Failed | Noted


def short_line(step: Step) -> str:
    """Return a step as one line of a readable log, cut if it is long."""
    verb, text = _verb_and_text(step)
    line = " ".join(text.split())
    return f"{verb:<8} {line if len(line) <= _MAX_LINE_CHARACTERS else line[: _MAX_LINE_CHARACTERS - 1] + '…'}"


def whole_text(step: Step) -> str:
    """Return a step as text, neither cut nor joined to one line: a changed secret would not be redacted."""
    return " ".join(_verb_and_text(step))


def _verb_and_text(step: Step) -> tuple[str, str]:
    match step:
        case Said(text=text):
            return "says", text
        case Called(tool=tool, input=given):
            return "calls", f"{tool} {compact_json(given)}"
        case Returned(output=output):
            return "returns", output if isinstance(output, str) else compact_json(output)
        case Used(usage=usage):
            return "uses", f"{usage.input} tokens in, {usage.output} out"
        case SessionInfo(session=session, model=model, finish_reason=reason):
            return "session", " ".join(filter(None, (session, model, reason)))
        case Concluded(text=text):
            return "answers", text
        case Failed(message=message):
            return "fails", message
        case Noted(text=text):
            return "notes", text


class Transcript:
    """Collects steps into messages. Each text starts a new message, and so does a tool call after a result.

    `_call_places` holds for each tool call, by its id, the index of its message and its index within the message.
    """

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self.failed: Failed | None = None
        self._messages: list[Message] = []
        self._call_places: dict[str, tuple[int, int]] = {}
        self._call_times: dict[str, list[str]] = {}
        self._accepts_calls = False
        self._session = SessionInfo()
        self._used: Used | None = None
        self._model_calls: set[str] = set()
        self._declared_answer: str | None = None
        self._last_resort: str | None = None
        self._notes: dict[str, None] = {}
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        """Add the next step."""
        match step:
            case Said():
                self.failed = None
                self._open_message(
                    Message("assistant", step.text, timestamp=step.at, metadata=_parent_metadata(step.parent))
                )
            case Called():
                self.failed = None
                self._add_call(step)
            case Returned():
                self._add_result(step)
            case Used():
                self._add_usage(step)
            case SessionInfo():
                old = self._session
                self._session = SessionInfo(
                    step.session or old.session, step.model or old.model, step.finish_reason or old.finish_reason
                )
            case Concluded(text=text, is_last_resort=True):
                self._last_resort = text
            case Concluded(text=text):
                self._declared_answer = text
            case Failed():
                before = self.failed or step
                self.failed = replace(step, status=step.status or before.status, kind=step.kind or before.kind)
            case Noted(text=text, in_result=True):
                self._notes[text] = None
            case Noted():
                pass

    @property
    def answer(self) -> str | None:
        """The text that the agent declared to be its answer, else its last message; None if there is neither."""
        contents = [message.content for message in self._messages if message.metadata is None]
        last = next((text for text in reversed(contents) if isinstance(text, str)), None)
        return self._declared_answer or last or self._last_resort

    @property
    def has_calls(self) -> bool:
        """True if a tool was called."""
        return bool(self._call_places)

    @property
    def is_empty(self) -> bool:
        """True if no step has an answer, a message, a usage or a session."""
        return self.answer is None and not self._messages and self._used is None and self._session.session is None

    def only_completes_call(self, step: Step) -> bool:
        """Return True if a step only completes a known tool call."""
        return isinstance(step, Called) and step.id in self._call_places

    def response(self) -> ProviderResponse:
        """Return all steps as a response; its text is empty if there is no answer."""
        return ProviderResponse(
            text=self.answer or "",
            output_messages=tuple(self._messages) or None,
            usage=self._used.usage if self._used else None,
            cost_usd=self._used.cost_usd if self._used else None,
            finish_reason=self._session.finish_reason,
            session=self._session.session,
            model=self._session.model,
            estimated=self._used is not None and self._used.is_estimate,
            notes=tuple(self._notes),
        )

    def _open_message(self, message: Message) -> None:
        self._messages.append(message)
        self._accepts_calls = True

    def _add_call(self, step: Called) -> None:
        if step.at is not None:
            self._call_times.setdefault(step.id, []).append(step.at)
        call = ToolCall(step.tool, step.input, id=step.id, timestamp=step.at)
        place = self._call_places.get(step.id)
        if place is not None:
            known = self._call_at(place)
            self._replace_call(place, replace(call, output=known.output, timestamp=known.timestamp or call.timestamp))
            return
        metadata = _parent_metadata(step.parent)
        if not self._accepts_calls or self._messages[-1].metadata != metadata:
            self._open_message(Message("assistant", timestamp=step.at, metadata=metadata))
        last = self._messages[-1]
        self._call_places[step.id] = len(self._messages) - 1, len(last.tool_calls)
        self._messages[-1] = replace(last, tool_calls=(*last.tool_calls, call))

    def _add_result(self, step: Returned) -> None:
        self._accepts_calls = False
        place = self._call_places.get(step.id)
        if place is not None:
            call = replace(self._call_at(place), output=step.output, duration_ms=self._duration_ms(step))
            self._replace_call(place, call)

    def _duration_ms(self, step: Returned) -> float | None:
        """Return the time from the call's latest `Called` step to its result; None if it is not known.

        A step with the time of the result is ignored: it was reported together with the result.
        """
        began = [at for at in self._call_times.get(step.id, ()) if at != step.at]
        return milliseconds_between(began[-1], step.at) if began and step.at is not None else None

    def _call_at(self, place: tuple[int, int]) -> ToolCall:
        message_index, call_index = place
        return self._messages[message_index].tool_calls[call_index]

    def _replace_call(self, place: tuple[int, int], call: ToolCall) -> None:
        message_index, call_index = place
        calls = list(self._messages[message_index].tool_calls)
        calls[call_index] = call
        self._messages[message_index] = replace(self._messages[message_index], tool_calls=tuple(calls))

    def _add_usage(self, step: Used) -> None:
        if self._used is None:
            self._used = step
        elif step.is_total:
            requests = max(self._used.usage.requests, step.usage.requests)
            self._used = replace(step, usage=replace(step.usage, requests=requests))
        else:
            self._used = self._sum(self._used, step)
        if step.call is not None:
            self._model_calls.add(step.call)

    def _sum(self, used: Used, step: Used) -> Used:
        usage = step.usage
        if step.call in self._model_calls:
            usage = Usage(output=usage.output, total=usage.output)
        costs = [cost for cost in (used.cost_usd, step.cost_usd) if cost is not None]
        return Used(
            used.usage + usage,
            sum(costs) if costs else None,
            is_estimate=used.is_estimate or step.is_estimate,
        )


def _parent_metadata(parent: str | None) -> JsonObject | None:
    return None if parent is None else {"parent_tool_call": parent}
