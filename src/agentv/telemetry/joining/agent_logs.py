"""Log records of Claude Code and Codex: no spans, but the events of a session, in which each prompt is an answer.

https://code.claude.com/docs/en/monitoring-usage, https://developers.openai.com/codex/config-advanced (`[otel]`);
recorded from Claude Code 2.1.330 and Codex 0.169.0.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct, field

from agentv.messages.shapes.fields import optional_text
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.joining.answers import TracedAnswer
from agentv.telemetry.otlp.spans import Span
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json
from agentv.types.stored import known_duration
from agentv.types.usage import Usage, known_cost, known_usage, total_usage

Program: TypeAlias = Literal["claude", "codex"]
CLAUDE_SCOPE, CODEX_SCOPE = "com.anthropic.claude_code", "codex_otel"
_PROGRAM_NAMES: dict[Program, str] = {"claude": "Claude Code", "codex": "Codex"}
_SCOPES: dict[Program, str] = {"claude": CLAUDE_SCOPE, "codex": CODEX_SCOPE}
_REDACTED = ("<REDACTED>", "[REDACTED]")
_MAIN_SOURCES = ("sdk", "repl_main_thread")
"""The beginnings of `query_source` for requests of the conversation itself; others are subagents, titles, summaries."""
_KNOWN_EVENTS = frozenset(
    f"{prefix}{name}"
    for prefix, names in (
        ("claude_code.", ("user_prompt", "assistant_response", "tool_result", "api_request", "api_error")),
        ("codex.", ("user_prompt", "tool_result", "sse_event", "api_request")),
    )
    for name in names
)
_NO_INPUT = "claude_code.tool_result has no tool_input; set OTEL_LOG_TOOL_DETAILS=1"


class _Event(NamedTuple):
    """One event. `name` is without the name of its program."""

    order: tuple[int, int]
    name: str
    attributes: JsonObject
    record: Span


class Session(Struct):
    """The events of a session, each once."""

    program: Program
    name: str
    events: dict[str, _Event] = field(default_factory=dict)
    outputs: dict[str, JsonValue] = field(default_factory=dict)
    """The outputs of tools, by the ids of their calls, which only the spans of Claude Code have."""
    since_ns: int = 0
    """The moment of the last event."""


class AgentLogs(Struct):
    """Collects log records of coding agents, and yields the answers of sessions that have ended."""

    without_content: Counter[str]
    """Counts the answers whose prompt is not recorded, by scope."""
    without_answer: Counter[str]
    """Counts the prompts whose answer is not recorded, by scope."""
    problems: Counter[str]
    sessions: dict[tuple[Program, str], Session] = field(default_factory=dict)

    def take(self, record: Span, now_ns: int) -> bool:
        """Take a log record of a coding agent, or a span that Claude Code adds to its log; False for any other.

        From `now_ns` on counts how long its session has been silent.
        """
        if not record.is_log:
            return record.scope.startswith(CLAUDE_SCOPE) and self._take_span(record, now_ns)
        event = record.events[0]
        name = _event_name(record)
        if name is None:
            return record.scope.startswith(CODEX_SCOPE)  # what its exporter logs of itself
        program: Program = "claude" if name.startswith("claude_code.") else "codex"
        session = self._session(program, event.attributes, now_ns)
        if name in _KNOWN_EVENTS:
            order = record.start_ns, _count(event.attributes.get("event.sequence"))
            content = compact_json([name, record.start_ns, event.attributes])
            session.events.setdefault(content, _Event(order, name.partition(".")[2], event.attributes, record))
        return True

    def _take_span(self, span: Span, now_ns: int) -> bool:
        session = self._session("claude", span.attributes, now_ns)
        call_id = span.attributes.get("tool_use_id")
        for event in span.events:
            if event.name == "tool.output" and isinstance(call_id, str) and "output" in event.attributes:
                session.outputs[call_id] = event.attributes["output"]
        return True

    def _session(self, program: Program, attributes: JsonObject, now_ns: int) -> Session:
        name = optional_text(attributes.get("session.id" if program == "claude" else "conversation.id")) or ""
        session = self.sessions.setdefault((program, name), Session(program, name))
        session.since_ns = max(session.since_ns, now_ns)
        return session

    def answers(self, before_ns: int | None) -> Iterator[TracedAnswer]:
        """Yield the answers of the sessions whose last event is before a moment; None means all."""
        for key, session in list(self.sessions.items()):
            if before_ns is None or session.since_ns < before_ns:
                del self.sessions[key]
                yield from self._answers_of(session)

    def _answers_of(self, session: Session) -> Iterator[TracedAnswer]:
        history: tuple[Message, ...] = ()
        turns = list(_turns(session))
        if not turns:
            self.without_content[_SCOPES[session.program]] += bool(session.events or session.outputs)
        for number, events in enumerate(turns, 1):
            turn = _Turn.of(session, events)
            if turn.question is None:
                self.without_content[_SCOPES[session.program]] += 1
                continue
            if turn.answer is None and turn.error is None:
                self.without_answer[_SCOPES[session.program]] += 1
                continue
            self.problems[_NO_INPUT] += turn.without_input
            messages = (*history, Message("user", turn.question), *turn.messages)
            yield _answer(session, turn, messages, number)
            if turn.answer is not None:
                history = messages
        self.problems += Counter()  # drops counts of zero


def _event_name(record: Span) -> str | None:
    """Return the name of an event of a coding agent, such as `codex.user_prompt`; None for any other log record."""
    event = record.events[0]
    for name in (event.body, event.name, event.attributes.get("event.name")):
        if isinstance(name, str) and name.startswith(("claude_code.", "codex.")):
            return name
    is_claude = record.scope.startswith(CLAUDE_SCOPE)
    return f"claude_code.{event.attributes.get('event.name')}" if is_claude else None


def _turns(session: Session) -> Iterator[Sequence[_Event]]:
    """Yield the events of each prompt; events before the first prompt of a session belong to none."""
    turns: dict[str, list[_Event]] = {}
    current = ""
    for event in sorted(session.events.values(), key=lambda each: each.order):
        if session.program == "claude":
            current = optional_text(event.attributes.get("prompt.id")) or ""
        elif event.name == "user_prompt":
            current = f"{len(turns) + 1}"
        if current:
            turns.setdefault(current, []).append(event)
    yield from turns.values()


class _Turn(Struct):
    """What the events of one prompt say."""

    events: Sequence[_Event]
    question: str | None = None
    """None if it is not recorded."""
    messages: tuple[Message, ...] = ()
    answer: str | None = None
    error: str | None = None
    """Why there is no answer."""
    usage: Usage | None = None
    cost_usd: float | None = None
    without_input: int = 0
    """The number of calls of tools whose input is not recorded."""

    @classmethod
    def of(cls, session: Session, events: Sequence[_Event]) -> "_Turn":
        """Return what the events of one prompt say."""
        named: dict[str, list[_Event]] = {}
        for event in events:
            named.setdefault(event.name, []).append(event)
        responses = _main(named.get("assistant_response", ()))
        said = [*named.get("tool_result", ()), *responses]
        messages = [each for event in sorted(said, key=lambda each: each.order) for each in _said(session, event)]
        answers = [text for event in responses if (text := _recorded(event.attributes.get("response")))]
        requests = named.get("api_request" if session.program == "claude" else "sse_event", ())
        usages = [usage for each in requests if (usage := _usage(each.attributes)) is not None]
        costs = [known_cost(_number(each.attributes.get("cost_usd"))) for each in requests]
        failures = [text for event in named.get("api_error", ()) if (text := _recorded(event.attributes.get("error")))]
        return cls(
            events=events,
            question=next((text for each in named.get("user_prompt", ()) if (text := _prompt(each))), None),
            messages=tuple(messages),
            answer=answers[-1] if answers else None,
            error=failures[-1] if failures and not responses else None,
            usage=total_usage(usages),
            cost_usd=sum(cost or 0.0 for cost in costs) if costs and None not in costs else None,
            without_input=sum(
                "tool_input" not in each.attributes and session.program == "claude"
                for each in named.get("tool_result", ())
            ),
        )


def _main(responses: Sequence[_Event]) -> Sequence[_Event]:
    """Return the responses of the conversation itself, not those of subagents and for titles."""
    return [each for each in responses if str(each.attributes.get("query_source", "sdk")).startswith(_MAIN_SOURCES)]


def _prompt(event: _Event) -> str | None:
    return _recorded(event.attributes.get("prompt"))


def _recorded(value: JsonValue) -> str | None:
    """Return a text, None for one that is missing, empty or redacted."""
    return value if isinstance(value, str) and value and value not in _REDACTED else None


def _said(session: Session, event: _Event) -> Iterator[Message]:
    attributes = event.attributes
    if event.name == "assistant_response":
        text = _recorded(attributes.get("response"))
        if text is not None:
            yield Message("assistant", text)
        return
    call_id = optional_text(attributes.get("tool_use_id" if session.program == "claude" else "call_id"))
    output = session.outputs.get(call_id or "", attributes.get("output", attributes.get("error")))
    call = ToolCall(
        tool=optional_text(attributes.get("tool_name")) or "unknown",
        input=parsed(attributes.get("tool_input", attributes.get("arguments"))),
        output=output,
        id=call_id,
        duration_ms=known_duration(_number(attributes.get("duration_ms"))),
    )
    yield Message("assistant", None, tool_calls=(call,))


def _usage(attributes: JsonObject) -> Usage | None:
    """Return the tokens of a request; None for an event without any."""
    if "input_tokens" in attributes:  # Claude Code counts the tokens of the cache apart
        cached = _count(attributes.get("cache_read_tokens"))
        given = _count(attributes["input_tokens"]) + cached + _count(attributes.get("cache_creation_tokens"))
        made, thought = _count(attributes.get("output_tokens")), 0
    elif "input_token_count" in attributes:
        cached, given = (_count(attributes.get(f"{name}_token_count")) for name in ("cached", "input"))
        made, thought = (_count(attributes.get(f"{name}_token_count")) for name in ("output", "reasoning"))
    else:
        return None
    return known_usage(Usage(given, made, cached, thought, given + made, 1))


def _number(value: JsonValue) -> float | None:
    """Return a number, which Claude Code may write as a text; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _count(value: JsonValue) -> int:
    number = _number(value)
    return int(number) if number is not None and number >= 0 and number % 1 == 0 else 0


def _answer(session: Session, turn: _Turn, messages: tuple[Message, ...], number: int) -> TracedAnswer:
    prompt = next(event for event in turn.events if event.name == "user_prompt")
    own_id = _recorded(prompt.attributes.get("message.uuid")) or _recorded(prompt.attributes.get("prompt.id"))
    models = [text for event in turn.events if (text := _recorded(event.attributes.get("model")))]
    return TracedAnswer(
        id=own_id or f"{session.name}:{number}",
        trace_id=prompt.record.trace_id,
        span_id=prompt.record.span_id,
        file=prompt.record.file,
        line=prompt.record.line,
        file_number=prompt.record.file_number,
        messages=messages,
        start_ns=turn.events[0].record.start_ns,
        end_ns=turn.events[-1].record.end_ns,
        error=None if turn.error is None else f"has no answer, because it failed: {turn.error}",
        agent=_PROGRAM_NAMES[session.program],
        model=models[-1] if models else None,
        session=session.name or None,
        usage=turn.usage,
        cost_usd=turn.cost_usd,
    )
