"""Join the spans of any number of traces into answers: an invocation of an agent, or a question to a model, each."""

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.contents.tool_calls import with_results
from agentv.telemetry.joining.agent_logs import AgentLogs
from agentv.telemetry.joining.answers import TracedAnswer, join_turns
from agentv.telemetry.joining.chains import without_system
from agentv.telemetry.joining.closed import ClosedTraces
from agentv.telemetry.joining.copies import RecordedCalls
from agentv.telemetry.joining.history import End, OpenEnds, input_keys, without_silence
from agentv.telemetry.joining.merging import merged_spans
from agentv.telemetry.joining.report import JoinReport
from agentv.telemetry.joining.shelf import SpanShelf, is_untraced
from agentv.telemetry.joining.traces import Invocation, Trace, metadata_of, usage_of
from agentv.telemetry.otlp.spans import Span
from agentv.types.messages import Message
from agentv.types.messages_json import content_text

Unit: TypeAlias = Literal["answer", "conversation"]
DEFAULT_IDLE_S = 600.0
NS_PER_S = 10**9
_MOST_RESPONSES = 100_000
_MOST_HISTORIES = 1_000


class JoinOptions(Struct, frozen=True):
    """How spans become answers."""

    unit: Unit = "answer"
    idle_s: float = DEFAULT_IDLE_S
    """The span time after which a call that asked for tools is not waited for any more."""
    is_endless: bool = False
    """True for a stream: a trace is then complete when a span starts `idle_s` after its last one."""
    joins_records: bool = True
    """True to join the records of Langfuse and LangSmith, too: the root of each trace gets what its steps did."""


class _Waiting(Struct):
    """An open conversation, which later calls may continue."""

    calls: list[Invocation]
    session: str
    since_ns: int


class ReadTrace(Struct, frozen=True):
    """The new spans of a trace, and the invocations in them."""

    trace_id: str
    trace: Trace
    found: list[Invocation]
    copies: int
    """The number of spans that are not new."""


class _Turns(Struct):
    """The answers of an open conversation."""

    answers: list[TracedAnswer]
    since_ns: int


class Joiner:
    """Collects spans, and yields answers when their traces are complete."""

    def __init__(self, options: JoinOptions | None = None) -> None:
        self.report = JoinReport()
        self._options = options or JoinOptions()
        self._idle_ns = int(self._options.idle_s * NS_PER_S)
        self._shelf = SpanShelf()
        self._ends = OpenEnds()
        self._waiting: OrderedDict[str, _Waiting] = OrderedDict()
        """Calls that ask for tools, by the id of the first one."""
        self._histories: OrderedDict[str, tuple[Message, ...]] = OrderedDict()
        """The newest conversations that a server keeps, by which a call without their messages is completed."""
        self._turns: OrderedDict[str, _Turns] = OrderedDict()
        self._silent = _SilentCalls(self.report.without_content)
        self._agents = AgentLogs(self.report.without_content, self.report.without_answer, self.report.problems)
        self._closed = ClosedTraces() if self._options.is_endless else None
        self._unanswered = _SilentCalls(self.report.without_answer)
        self._recorded = RecordedCalls()
        self._now_ns = self._closed_ns = 0

    def add(self, span: Span, *, file: str = "", line: int = 0, file_number: int = 0) -> None:
        """Add a span, or a log record, from a line of a file."""
        self.report.spans += 1
        self._now_ns = max(self._now_ns, span.start_ns)
        placed = replace(span, file=file, line=line, file_number=file_number)
        if not self._agents.take(placed, placed.end_ns):
            self._shelf.add(placed)

    def ready(self) -> list[TracedAnswer]:
        """Return the answers of complete traces of a stream; [] unless enough span time has passed."""
        if not self._options.is_endless or self._now_ns < self._closed_ns + self._idle_ns // 10:
            return []
        self._closed_ns = self._now_ns
        limit_ns = self._now_ns - self._idle_ns
        return list(self._join(self._shelf.ended_before(limit_ns), limit_ns))

    def rest(self) -> Iterator[TracedAnswer]:
        """Yield the remaining answers, by the time of their traces."""
        return self._join(self._shelf.all(), None)

    def close(self) -> None:
        """Forget all spans."""
        self._shelf.close()

    def _join(self, traces: Iterable[str], limit_ns: int | None) -> Iterator[TracedAnswer]:
        """Yield the answers of traces, and those that nothing has continued since a moment; None means the end."""
        for trace_id in traces:
            yield from self._turn_of(self._answers_in(trace_id))
        yield from self._turn_of(self._logged(limit_ns))
        yield from self._turn_of(self._abandoned(limit_ns))
        yield from self._ended_turns(limit_ns)

    def _answers_in(self, trace_id: str) -> Iterator[TracedAnswer]:
        read = self._read(trace_id)
        self._shelf.drop(trace_id)
        is_known, found = False, read.found
        self.report.doubled += read.copies
        if self._closed is not None:
            is_known = trace_id in self._closed
            completing = self._closed.completing(trace_id, read.trace, found)
            self.report.late += len(completing)
            found = [each for each in found if each.root.span_id not in completing]
            self._closed.add(trace_id, read.trace)
        self.report.traces += not (is_known or is_untraced(trace_id))
        if not read.found and is_untraced(trace_id):
            self.report.untraced += len(read.trace.spans)
        elif not read.found and not is_known:
            self.report.add_unknown(each.span.scope for each in read.trace.spans)
        for each in found:
            yield from self._answers_of(each)

    def _logged(self, before_ns: int | None) -> Iterator[TracedAnswer]:
        """Yield the answers that coding agents log as events without spans."""
        for answer in self._agents.answers(before_ns):
            self.report.answers += 1
            yield answer

    def _read(self, trace_id: str) -> ReadTrace:
        """Return the invocations in the spans of a trace that were not joined before."""
        return self._read_spans(trace_id, list(self._shelf.spans(trace_id)))

    def _read_spans(self, trace_id: str, spans: Sequence[Span]) -> ReadTrace:
        merged = merged_spans(spans)
        new = merged if self._closed is None else self._closed.new_spans(trace_id, merged)
        trace = Trace(new)
        return ReadTrace(trace_id, trace, list(trace.invocations()), len(spans) - len(new))

    def _answers_of(self, each: Invocation) -> Iterator[TracedAnswer]:
        is_error = each.is_unread and self._options.unit == "answer"  # which says why
        if each.problem is not None and not is_error:
            self.report.problems[each.problem] += 1
        self.report.guessed += each.is_ambiguous
        scope = f"{each.root.service}\0{each.facts.session or ''}"
        given = each.messages[: each.input_length]
        if self._is_left_out(each, scope, given):
            return
        before = self._ends.ambiguous
        link = self._ends.find(scope, given, each.root.start_ns, each.facts.previous_id)
        self.report.ambiguous += self._ends.ambiguous - before
        group = [each]
        recorded = each
        session = each.facts.session
        if link is not None:
            session = session or link.end.session
            waiting = self._waiting.pop(link.end.name).calls if link.end.name in self._waiting else []
            if link.is_incomplete and waiting:
                each = _continued(without_silence(waiting[-1].messages), each, link.length)
            elif link.length == 0:
                kept = waiting[-1].messages if waiting else ()
                each = _continued(self._histories.pop(link.end.name, kept), each)
            has_question = any(message.role == "user" for message in without_system(given)[link.length :])
            is_late = waiting and each.root.start_ns - _end_of(waiting) > self._idle_ns
            if waiting and (has_question or is_late or not each.is_call):
                yield self._answer(waiting, session)
            elif waiting:
                group = [*waiting, each]
            group[-1] = each
        name = f"{each.root.trace_id}/{each.root.span_id}"
        session = session or each.root.span_id
        if each.facts.response_id is not None:
            self._histories[name] = each.messages
            if len(self._histories) > _MOST_HISTORIES:
                self._histories.popitem(last=False)
        known = recorded if link is not None and link.is_incomplete else each  # a later input lacks the same calls
        end = End(each.root.end_ns, name, session)
        self._ends.add(scope, known.messages, end, each.facts.response_id, given=given if each.is_call else ())
        if each.is_call and each.failure is None and (each.asks_for_tools or not each.has_answer):
            self._waiting[name] = _Waiting(group, session, self._moment(_end_of(group)))
            return
        yield self._answer(group, session)

    def _is_left_out(self, each: Invocation, scope: str, given: Sequence[Message]) -> bool:
        """Return True for a copy of a call, and for one without messages or an answer, which is counted."""
        response_id = each.facts.response_id
        if (not each.root.trace_id or not each.messages) and self._silent.is_known(response_id):
            return True
        is_told = each.is_answered and not each.is_silent
        text = content_text(each.messages[-1].content) if each.messages else ""
        if each.is_call and is_told and self._recorded.is_copy(each.root, response_id, text.strip()):
            self.report.doubled += 1
            return True
        if each.is_silent:
            self._silent.count(each.root.scope, response_id)
            return True
        self._silent.exclude(response_id)
        if not each.is_answered and each.failure is None and each.problem is None:
            self._unanswered.count(each.root.scope, next(reversed(input_keys(scope, given)), None))
            return True
        if self.report.without_answer:  # the history shows that earlier questions were answered, too
            keys = input_keys(scope, given)
            for message, key in zip(without_system(given), keys, strict=True):
                if message.role == "user" or key == keys[-1]:
                    self._unanswered.exclude(key)
        return False

    def _abandoned(self, before_ns: int | None) -> Iterator[TracedAnswer]:
        """Yield the answers that were waited for, and nothing continued before a moment; None means all."""
        for name, waiting in list(self._waiting.items()):
            if before_ns is None or waiting.since_ns < before_ns:
                del self._waiting[name]
                yield self._answer(waiting.calls, waiting.session)

    def _answer(self, group: Sequence[Invocation], session: str | None) -> TracedAnswer:
        first, last = group[0], group[-1]
        usage, cost = usage_of(group)
        facts = last.facts
        models = [
            call.facts.model for each in group for call in each.calls if call.facts is not None and call.facts.model
        ]
        is_open = last.failure is None and last.asks_for_tools
        self.report.answers += 1
        self.report.open += is_open
        if last.failure is None and not (last.is_unread or is_open or last.has_answer):
            self.report.empty[last.root.scope] += 1
        if last.problem is None and last.messages and not any(message.role == "user" for message in last.messages):
            self.report.without_question[last.root.scope] += 1
        messages = () if last.is_unread else last.messages
        error = None
        if last.failure is not None:
            lacks = "its answer is not complete" if last.has_answer else "has no answer"
            error = f"{lacks}, because it failed: {last.failure}"
        elif last.is_unread:
            error = f"cannot be read: {last.problem}"
        return TracedAnswer(
            trace_id=last.root.trace_id,
            span_id=last.root.span_id,
            file=last.root.file,
            line=last.root.line,
            file_number=last.root.file_number,
            messages=messages,
            output_start=_output_start(first, messages),
            start_ns=first.root.start_ns,
            end_ns=max(each.root.end_ns for each in group),
            is_open=is_open,
            error=error,
            agent=facts.agent,
            model=facts.model or (models[-1] if models else None),
            session=session,
            usage=usage,
            cost_usd=cost,
            metadata=metadata_of(last.root),
        )

    def _turn_of(self, answers: Iterable[TracedAnswer]) -> Iterator[TracedAnswer]:
        """Yield the answers; with the unit `conversation`, keep them until their conversation has ended."""
        for answer in answers:
            if self._options.unit == "answer":
                yield answer
            else:
                key = f"{answer.metadata.get('service')}\0{answer.session or answer.span_id}"
                turns = self._turns.setdefault(key, _Turns([], 0))
                turns.answers.append(answer)
                turns.since_ns = self._moment(answer.end_ns)

    def _ended_turns(self, before_ns: int | None) -> Iterator[TracedAnswer]:
        for session, turns in list(self._turns.items()):
            if before_ns is None or turns.since_ns < before_ns:
                del self._turns[session]
                yield join_turns(sorted(turns.answers, key=lambda each: (each.start_ns, each.span_id)))

    def _moment(self, end_ns: int) -> int:
        """Return the moment from which `idle_s` counts for what ended then."""
        return end_ns


class _SilentCalls:
    """Counts calls without messages by scope, but not those that another span records with messages.

    A call is known by the id of its response, or by its input.
    """

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._scopes: OrderedDict[str, str | None] = OrderedDict()
        """The scope of each response without messages, None for one with messages."""

    def count(self, scope: str, response_id: str | None) -> None:
        """Count a call, unless its response is known already."""
        if response_id is not None:
            if response_id in self._scopes:
                return
            self._remember(response_id, scope)
        self._counts[scope] += 1

    def is_known(self, response_id: str | None) -> bool:
        """Return True if the messages of a response are known."""
        return response_id is not None and self._scopes.get(response_id, "") is None

    def exclude(self, response_id: str | None) -> None:
        """Do not count the calls with a response, whose messages are known."""
        if response_id is None:
            return
        scope = self._scopes.get(response_id)
        if scope is not None:
            self._counts[scope] -= 1
            self._counts += Counter()  # drops counts of zero
        self._remember(response_id, None)

    def _remember(self, response_id: str, scope: str | None) -> None:
        self._scopes[response_id] = scope
        if len(self._scopes) > _MOST_RESPONSES:
            self._scopes.popitem(last=False)


def _end_of(group: Sequence[Invocation]) -> int:
    return max(each.root.end_ns for each in group)


def _output_start(first: Invocation, messages: Sequence[Message]) -> int:
    """Return the index of the first output in messages that continue an invocation; later calls may lack its system."""
    given = sum(message.role != "system" for message in first.messages[: first.input_length])
    places = [place for place, message in enumerate(messages) if message.role != "system"]
    return places[given] if given < len(places) else len(messages)


def _continued(before: Sequence[Message], each: Invocation, known: int = 0) -> Invocation:
    """Return a call with the messages before it, which the server keeps, or of which its input has some."""
    if not before:
        return each
    new = without_system(each.messages)[known:]
    length = len(before) + len(new) - len(each.messages[each.input_length :])
    return replace(each, messages=with_results((*before, *new), ()), input_length=length)


def join_spans(spans: Iterable[Span], options: JoinOptions | None = None) -> tuple[list[TracedAnswer], JoinReport]:
    """Return the answers in the spans of one line, and what was understood."""
    joiner = Joiner(options)
    with closing(joiner):
        for span in spans:
            joiner.add(span, line=1)
        return list(joiner.rest()), joiner.report
