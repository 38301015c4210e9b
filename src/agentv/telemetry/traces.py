"""The spans of one trace: which are invocations of an agent, which are calls of a model that no agent has."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.contents import with_calls, with_results
from agentv.telemetry.conventions.reading import read_facts
from agentv.telemetry.facts import Facts
from agentv.telemetry.history import Link, OpenEnds, message_key, without_silent_end
from agentv.telemetry.spans import LOG_EVENT, Span, SpanEvent, is_placeholder
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import compact_json, content_text
from agentv.types.usage import Usage


class ReadSpan(Struct, frozen=True):
    """A span with what it says; `facts` is None if no convention is known in it."""

    span: Span
    facts: Facts | None

    @property
    def kind(self) -> str | None:
        """The kind of the span, None if no convention names it."""
        return None if self.facts is None else self.facts.kind


class Invocation(Struct, frozen=True, kw_only=True):
    """An invocation of an agent, or one call of a model outside of any agent."""

    root: Span
    is_call: bool
    messages: tuple[Message, ...]
    """The whole conversation, with the answer."""
    input_length: int
    """The number of messages before the first output of the invocation."""
    calls: tuple[ReadSpan, ...]
    facts: Facts
    error: str | None
    problem: str | None = None
    is_ambiguous: bool = False
    """True if several conversations in the invocation could be the main one."""
    is_answered: bool = True
    """False if neither the outermost span nor the last call of a model has an output."""

    @property
    def has_answer(self) -> bool:
        """True if there is a message of the assistant after the input."""
        return any(message.role == "assistant" for message in self.messages[self.input_length :])

    @property
    def is_silent(self) -> bool:
        """True if nothing was recorded of what was said; some instrumentations record messages without contents."""
        has_content = any(message.content for message in self.messages)
        return not has_content and self.error is None and self.problem is None


def merged_spans(spans: Iterable[Span]) -> list[Span]:
    """Return each span once, in order of time, with its log events; of several copies the most complete one."""
    best: dict[tuple[str, str], Span] = {}
    logs: dict[tuple[str, str], dict[str, Span]] = {}
    for span in spans:
        if is_placeholder(span):
            continue
        if span.name == LOG_EVENT:
            event = span.events[0]
            content = compact_json([event.name, event.attributes, event.body, span.start_ns])
            logs.setdefault(span.key, {})[content] = span
        elif span.key not in best or _rank(span) > _rank(best[span.key]):
            best[span.key] = span
    for key, records in logs.items():
        ordered = [records[content] for content in sorted(records, key=lambda each: (records[each].start_ns, each))]
        events = tuple(record.events[0] for record in ordered)
        # Log records of a span whose trace is not exported stand for the span.
        base = best.get(key) or replace(ordered[0], name="", events=(), end_ns=ordered[-1].end_ns)
        best[key] = replace(base, events=_distinct((*base.events, *events)))
    return sorted(best.values(), key=lambda span: (span.start_ns, -span.end_ns, span.span_id))


def _distinct(events: Iterable[SpanEvent]) -> tuple[SpanEvent, ...]:
    """Return events in order, without those that are in the span and in the logs."""
    made: dict[str, SpanEvent] = {}
    for number, event in enumerate(events):
        body = event.body if isinstance(event.body, Mapping) else {}
        name = event.name if event.name == "gen_ai.client.inference.operation.details" else f"{number} {event.name}"
        made.setdefault(compact_json([name, {**body, **event.attributes}]), event)
    return tuple(made.values())


def _rank(span: Span) -> tuple[int, int, int, str]:
    return span.end_ns, len(span.attributes), -span.file_number, compact_json([span.attributes, -span.line])


class Trace:
    """The spans of one trace as a tree."""

    def __init__(self, spans: Sequence[Span]) -> None:
        self.spans = [ReadSpan(span, read_facts(span)) for span in spans]
        self._by_id = {each.span.span_id: each for each in self.spans}
        self._complete_calls()

    def _complete_calls(self) -> None:
        """Give each call of a model what only the calls inside it say, which another instrumentation records."""
        inner: dict[str, list[Facts]] = {}
        for read in self.spans:
            if read.kind == "model" and read.facts is not None and read.span.parent_id:
                above = [each.span.span_id for each in self.ancestors(read.span) if each.kind == "model"]
                if above:
                    inner.setdefault(above[-1], []).append(read.facts)
        for span_id, facts in inner.items():
            outer = self._by_id[span_id]
            self._by_id[span_id] = replace(outer, facts=_completed(outer.facts or Facts(), facts))
        if inner:
            self.spans = [self._by_id[each.span.span_id] for each in self.spans]

    def ancestors(self, span: Span) -> Iterator[ReadSpan]:
        """Yield the spans above a span, the nearest first."""
        seen = {span.span_id}
        parent = self._by_id.get(span.parent_id)
        while parent is not None and parent.span.span_id not in seen:
            seen.add(parent.span.span_id)
            yield parent
            parent = self._by_id.get(parent.span.parent_id)

    def top(self, span: Span) -> Span:
        """Return the outermost span above a span, or itself."""
        return [span, *(each.span for each in self.ancestors(span))][-1]

    def owner(self, read: ReadSpan) -> ReadSpan | None:
        """Return the invocation that a span belongs to: the outermost agent at or above it, else a root with content.

        The span of a web server or a job has no content of a convention, so that it is none.
        """
        chain = [read, *self.ancestors(read.span)]
        agents = [each for each in chain if each.kind == "agent"]
        if agents:
            return agents[-1]
        root = chain[-1]
        is_unit = root.kind == "step" and root.facts is not None and root.facts.has_content
        return root if is_unit else None

    def invocations(self) -> Iterator[Invocation]:
        """Yield the invocations of agents, and the calls of models outside of them, in order of time."""
        members: dict[str, list[ReadSpan]] = {}
        for read in self.spans:
            owner = self.owner(read)
            if owner is not None:
                members.setdefault(owner.span.span_id, []).append(read)
        for read in self.spans:
            if read.span.span_id in members:
                yield self._agent(read, members[read.span.span_id])
            elif read.kind == "model" and self.owner(read) is None and not self._is_inside_call(read):
                yield _call(self._with_session(read), self._tools_below(read))

    def _with_session(self, read: ReadSpan) -> ReadSpan:
        """Return a call with the session that a span above it names, if it names none itself."""
        facts = read.facts or Facts()
        above = (each.facts.session for each in self.ancestors(read.span) if each.facts is not None)
        session = facts.session or next(filter(None, above), None)
        return read if session == facts.session else replace(read, facts=replace(facts, session=session))

    def judged_ids(self) -> set[str]:
        """Return the ids of the spans that belong to an invocation."""
        return {
            read.span.span_id
            for read in self.spans
            if self.owner(read) is not None or read.kind == "model" or self._is_inside_call(read)
        }

    def _is_inside_call(self, read: ReadSpan) -> bool:
        """Return True for a call that another instrumentation records, too, around this span."""
        return any(each.kind == "model" for each in self.ancestors(read.span))

    def _tools_below(self, read: ReadSpan) -> list[ToolCall]:
        return [
            each.facts.tool
            for each in self.spans
            if each.facts is not None and each.facts.tool is not None
            if any(above.span.span_id == read.span.span_id for above in self.ancestors(each.span))
        ]

    def _agent(self, root: ReadSpan, members: Sequence[ReadSpan]) -> Invocation:
        calls = [each for each in members if each.kind == "model" and not self._is_inside_call(each)]
        outer = [each for each in calls if not any(above.kind == "tool" for above in self.ancestors(each.span))]
        facts = self._facts_of(root, members)
        chains = _chains(_answered_calls([each for each in outer if each.facts and each.facts.has_content]))
        wanted = content_text(facts.output[-1].content).strip() if facts.output else ""
        chain, is_ambiguous = _main_chain(chains, wanted)
        messages, length = _messages_of(chain, facts)
        messages = with_results(messages, _tools_of(members))
        if not any(message.tool_calls for message in messages[length:]):
            outer_tools = (
                each for each in members if not any(above.kind == "tool" for above in self.ancestors(each.span))
            )
            messages = with_calls(messages, _tools_of(outer_tools))
        error = root.span.error or next((each.span.error for each in reversed(outer) if each.span.error), None)
        return Invocation(
            root=root.span,
            is_call=False,
            messages=messages,
            input_length=length,
            calls=tuple(calls),
            facts=facts,
            error=error,
            problem=next(
                (each.facts.problem for each in members if each.facts is not None and each.facts.problem), None
            ),
            is_ambiguous=is_ambiguous,
            is_answered=bool(facts.output) or (chain is not None and chain.is_answered),
        )

    def _facts_of(self, root: ReadSpan, members: Sequence[ReadSpan]) -> Facts:
        """Return what the outermost span says; what it lacks comes from the agents below it."""
        facts = root.facts or Facts()
        for each in members:
            if each.kind != "agent" or each.facts is None:
                continue
            if each.facts.agent and each.span is not root.span and _is_only_agent(members):
                facts = replace(facts, agent=each.facts.agent)
            if not facts.has_content and each.facts.has_content:
                facts = replace(facts, input=each.facts.input, output=each.facts.output)
            if facts.usage is None and each.facts.usage is not None:
                facts = replace(facts, usage=each.facts.usage)
        session = facts.session or next(
            (each.facts.session for each in members if each.facts and each.facts.session), None
        )
        return replace(facts, session=session)


def _completed(facts: Facts, inner: Sequence[Facts]) -> Facts:
    """Return what a call says; tokens, model and instructions that it lacks are those of the calls inside it."""
    usages = [each.usage for each in inner if each.usage is not None]
    return replace(
        facts,
        usage=facts.usage or (sum(usages[1:], start=usages[0]) if usages else None),
        model=facts.model or next((each.model for each in inner if each.model), None),
        system=facts.system or next((each.system for each in inner if each.system), ()),
    )


def _answered_calls(calls: Sequence[ReadSpan]) -> list[ReadSpan]:
    """Return calls without those that have no output, if another call has their input: it is a retry, or the answer."""
    answered = [each.facts.input for each in calls if each.facts is not None and each.facts.output]
    return [each for each in calls if each.facts is None or each.facts.output or each.facts.input not in answered]


def _tools_of(members: Iterable[ReadSpan]) -> list[ToolCall]:
    return [each.facts.tool for each in members if each.facts is not None and each.facts.tool is not None]


def _is_only_agent(members: Sequence[ReadSpan]) -> bool:
    named = {other.facts.agent for other in members[1:] if other.kind == "agent" and other.facts and other.facts.agent}
    return len(named) == 1


def _call(read: ReadSpan, tools: Sequence[ToolCall]) -> Invocation:
    facts = read.facts or Facts()
    given = facts.given
    messages = with_results((*given, *facts.output), tools)
    return Invocation(
        root=read.span,
        is_call=True,
        messages=messages,
        input_length=len(given),
        calls=(read,),
        facts=facts,
        error=read.span.error,
        problem=facts.problem,
        is_answered=bool(facts.output),
    )


class Chain(Struct):
    """Calls of a model, each of which continues the one before."""

    messages: tuple[Message, ...]
    first_length: int
    end_ns: int
    is_answered: bool
    """True if the last call has an output."""
    asked: tuple[Message, ...] = ()
    """The input of the last call, without system messages."""
    count: int = 1


def _chains(calls: Sequence[ReadSpan]) -> list[Chain]:
    """Return the conversations that the calls of one invocation make."""
    ends, chains = OpenEnds(), dict[str, Chain]()
    for read in calls:
        facts = read.facts or Facts()
        given = facts.given
        link = ends.find("", given, read.span.start_ns, facts.previous_id)
        link = link or _link_by_input(chains, without_system(given), read.span.start_ns)
        chain = None if link is None else chains[link.name]
        if chain is None or link is None:
            name = read.span.span_id
            chain = chains[name] = Chain((*given, *facts.output), len(given), read.span.end_ns, bool(facts.output))
        else:
            name = link.name
            before = chain.messages if link.length == 0 or link.is_incomplete else ()
            known = link.length
            if link.is_incomplete:
                before, known = without_silent_end(before, known)
            new = without_system(given)[known:] if before else given
            chain.messages = (*before, *new, *facts.output)
            chain.end_ns, chain.count = read.span.end_ns, chain.count + 1
            chain.is_answered = bool(facts.output)
        chain.asked = without_system(given)
        length = len(chain.messages) - len(facts.output)
        ends.add("", chain.messages, read.span.end_ns, name, facts.response_id, input_length=length)
    return list(chains.values())


def _link_by_input(chains: dict[str, Chain], asked: Sequence[Message], start_ns: int) -> Link | None:
    """Return the newest chain that ends with calls of tools and whose last input this input begins with.

    Some instrumentations record neither the calls nor their results in the next input, or both as texts.
    """
    keys = [message_key(message) for message in asked]
    for name, chain in reversed(chains.items()):
        length = len(chain.asked)
        is_asking = bool(chain.messages) and bool(chain.messages[-1].tool_calls) and chain.end_ns <= start_ns
        if is_asking and length and keys[:length] == [message_key(message) for message in chain.asked]:
            is_text = length < len(asked) and asked[length].role == "assistant"
            return Link(name, length + is_text, is_incomplete=True)
    return None


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages without those of the system."""
    return tuple(message for message in messages if message.role != "system")


def _main_chain(chains: Sequence[Chain], wanted: str) -> tuple[Chain | None, bool]:
    """Return the conversation that ends with the wanted text, else the last one, and whether that is a guess."""
    if not chains:
        return None, False
    last = max(chains, key=lambda chain: chain.end_ns)
    matching = [chain for chain in chains if wanted and _is_form_of(wanted, _last_text(chain.messages))]
    if matching:
        return max(matching, key=lambda chain: (chain.count, chain.end_ns)), False
    return last, len(chains) > 1


def _last_text(messages: Sequence[Message]) -> str:
    return content_text(messages[-1].content).strip() if messages else ""


def _messages_of(chain: Chain | None, facts: Facts) -> tuple[tuple[Message, ...], int]:
    """Return the conversation of an invocation, and the number of its messages before the first output.

    The text of the outermost span is the answer: it is added if the calls of the model end with another one.
    """
    given = facts.given
    if chain is None or not chain.messages:
        return (*given, *_without_input(facts.output, facts.input)), len(given)
    messages, length = chain.messages, chain.first_length
    if not any(each.role == "user" for each in messages) and any(each.role == "user" for each in given):
        messages, length = (*given, *(each for each in messages if each.role != "system")), len(given)
    answer = facts.output[-1] if facts.output else None
    texts = {content_text(each.content).strip() for each in messages if each.role == "assistant"}
    if answer is not None and answer.role == "assistant" and answer.content:
        text = content_text(answer.content).strip()
        if text and not any(_is_form_of(text, said) for said in texts) and not _is_object(text):
            messages = (*messages, Message("assistant", answer.content))
    return messages, length


def _without_input(output: Sequence[Message], given: Sequence[Message]) -> Sequence[Message]:
    """Return an output without the input that it repeats, as in the messages of a task of AutoGen."""
    known = [message_key(each) for each in given]
    return output[len(known) :] if [message_key(each) for each in output[: len(known)]] == known else output


def _is_form_of(output: str, text: str) -> bool:
    """Return True for a text, and for JSON that has it as a value."""
    return output == text or (output.startswith("{") and bool(text) and json.dumps(text, ensure_ascii=False) in output)


_REPR = re.compile(r"[A-Z]\w*\(\w+=|<[\w.]+ object at ")


def _is_object(text: str) -> bool:
    """Return True for the JSON of a graph's state, or Python's form of an object, which are not answers."""
    return (text.startswith("{") and '"messages"' in text) or _REPR.match(text) is not None


def usage_of(invocations: Sequence[Invocation]) -> tuple[Usage | None, float | None]:
    """Return the tokens and the cost of all calls of models; those of agents only if no call has any."""
    calls = [call.facts for each in invocations for call in each.calls if call.facts is not None]
    usages = [facts.usage for facts in calls if facts.usage is not None]
    costs = [facts.cost_usd for facts in calls]
    if not usages:
        usages = [each.facts.usage for each in invocations if each.facts.usage is not None]
    requests = len(calls)
    total = sum(usages[1:], start=usages[0]) if usages else None
    cost = sum(cost or 0.0 for cost in costs) if costs and None not in costs else None
    return (None if total is None else replace(total, requests=requests)), cost


_KNOWN = (
    *("gen_ai.", "llm.", "openinference.", "input.", "output.", "traceloop.", "ai.", "langfuse.", "mlflow.", "mastra."),
    *("agent.", "session.", "graph.", "logfire.", "pydantic_ai.", "request_data", "response_data", "operation."),
    *("all_messages_events", "events", "final_result", "model_request_parameters", "code.", "tool.", "metadata"),
)
_MOST_METADATA = 50


def metadata_of(span: Span) -> JsonObject:
    """Return the attributes of a span that no convention reads, as metadata; and its name and service."""
    unknown = {
        key: value
        for key, value in span.attributes.items()
        if not key.startswith(_KNOWN) and isinstance(value, str | int | float)
    }
    named = {"name": span.name, "service": span.service}
    given = dict(sorted(unknown.items())[:_MOST_METADATA])
    return {**{key: value for key, value in named.items() if value}, **given}
