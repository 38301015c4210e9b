"""The spans of one trace: which are invocations of an agent, which are calls of a model that no agent has."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.tool_calls import with_calls, with_results
from agentv.telemetry.joining.chains import (
    Chain,
    answered_calls,
    calls_before,
    chains_of,
    distinct_calls,
    is_form_of,
    main_chain,
)
from agentv.telemetry.joining.history import message_key
from agentv.telemetry.joining.span_tree import ReadSpan, SpanTree
from agentv.telemetry.otlp.spans import Span
from agentv.types.json_value import JsonObject
from agentv.types.messages import Message, TextPart, ToolCall
from agentv.types.messages_json import content_text
from agentv.types.usage import Usage, total_usage


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
    is_failed: bool
    """True if the outermost span failed."""
    error: str | None
    exception: str | None = None
    """What a call or the outermost span recorded though its status is no error, or why any other span failed."""
    problem: str | None = None
    is_ambiguous: bool = False
    """True if several conversations in the invocation could be the main one."""
    is_cut: bool = False
    """True if the call of a model that gave the last message failed."""
    is_answered: bool = True
    """False if neither the outermost span nor the last call of a model has an output."""

    @property
    def has_answer(self) -> bool:
        """True if the last message after the input is the assistant's, with a content."""
        last = self.messages[-1] if len(self.messages) > self.input_length else None
        return last is not None and last.role == "assistant" and has_content(last)

    @property
    def asks_for_tools(self) -> bool:
        """True if the last message is a call of a tool, of an agent without a text, or the result of one."""
        last = self.messages[-1] if self.messages else None
        return last is not None and (
            last.role == "tool" or (bool(last.tool_calls) and (self.is_call or not has_content(last)))
        )

    @property
    def failure(self) -> str | None:
        """Why there is no complete answer: the outermost span failed, or a call below it, and no answer follows."""
        if self.is_failed or self.is_cut or not self.has_answer:
            return self.error or self.exception
        return None

    @property
    def is_unread(self) -> bool:
        """True if there is no answer, because a part of a span could not be read."""
        return self.problem is not None and not (self.messages and self.is_answered)

    @property
    def is_silent(self) -> bool:
        """True if nothing was recorded of what was said; some instrumentations record messages without contents."""
        return not any(message.content for message in self.messages) and self.failure is None and self.problem is None


def has_content(message: Message) -> bool:
    """Return True for a message with a text that is not empty, or with another part."""
    parts = message.content if isinstance(message.content, tuple) else ()
    return bool(content_text(message.content)) or any(not isinstance(part, TextPart) for part in parts)


class Trace(SpanTree):
    """The spans of one trace, and the invocations in them."""

    def __init__(self, spans: Sequence[Span]) -> None:
        super().__init__(spans)
        self._agents_below = Counter(
            self.top(each.span).span_id
            for each in self.spans
            if each.kind == "agent" and not any(above.kind == "agent" for above in self.ancestors(each.span))
        )
        """The number of outermost agents below each root."""

    def owner(self, read: ReadSpan) -> ReadSpan | None:
        """Return the invocation that a span belongs to: the outermost agent at or above it, else a root with content.

        A root with a question and an answer, such as a traced function, is the invocation if one agent is below it. The
        span of a web server or a job has no content of a convention, so that it is none.
        """
        chain = [read, *self.ancestors(read.span)]
        root = chain[-1]
        if root.kind == "step" and root.facts is not None:
            agents_below = self._agents_below[root.span.span_id]
            is_whole = bool(root.facts.input and root.facts.output)
            if (agents_below == 0 and root.facts.has_content) or (agents_below == 1 and is_whole):
                return root
        agents = [each for each in chain if each.kind == "agent"]
        return agents[-1] if agents else None

    def invocations(self) -> Iterator[Invocation]:
        """Yield the invocations of agents, and the calls of models outside of them, in order of time."""
        members: dict[str, list[ReadSpan]] = {}
        outside: list[ReadSpan] = []
        tools = self._tools_below()
        for read in self.spans:
            owner = self.owner(read)
            if owner is not None:
                members.setdefault(owner.span.span_id, []).append(read)
            elif read.kind == "model" and not self._is_inside_call(read):
                outside.append(read)
        calls = {each.span.span_id for each in _without_repeated(outside)}
        for read in self.spans:
            if read.span.span_id in members:
                yield self._agent(read, members[read.span.span_id])
            elif read.span.span_id in calls:
                yield _call(self._with_session(read), _tools_of(tools.get(read.span.span_id, ())))

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

    def _tools_below(self) -> dict[str, list[ReadSpan]]:
        """Return the spans of tools below each span."""
        below: dict[str, list[ReadSpan]] = {}
        for read in self.spans:
            if read.facts is not None and read.facts.tool is not None:
                for above in self.ancestors(read.span):
                    below.setdefault(above.span.span_id, []).append(read)
        return below

    def _agent(self, root: ReadSpan, members: Sequence[ReadSpan]) -> Invocation:
        calls = distinct_calls([each for each in members if each.kind == "model" and not self._is_inside_call(each)])
        outer = [each for each in calls if not any(above.kind == "tool" for above in self.ancestors(each.span))]
        facts = self._facts_of(root, members)
        chains = chains_of(answered_calls([each for each in outer if each.facts and each.facts.has_content]))
        wanted = content_text(facts.output[-1].content).strip() if facts.output else ""
        chain, is_ambiguous = main_chain(chains, wanted)
        messages, length = _messages_of(chain, facts)
        tools = sorted((each for each in members if each.facts and each.facts.tool), key=self._depth)
        if tools and length and messages[length - 1].role == "tool":  # the first calls of the model were not recorded
            length = _after_question(messages[:length])
        given = with_results(messages[:length], ())
        messages, length = (*given, *with_results(messages[length:], _tools_of(tools))), len(given)
        if len(chains) > 1 and chain is not None:
            messages = (*messages[:length], *calls_before(chain, chains, _tools_of(tools)), *messages[length:])
        if not any(message.tool_calls for message in messages[length:]):
            outer_tools = (
                each for each in members if not any(above.kind == "tool" for above in self.ancestors(each.span))
            )
            messages = (*messages[:length], *with_calls(messages[length:], _tools_of(outer_tools)))
        reached = [root, *reversed(outer)]
        return Invocation(
            root=root.span,
            is_call=False,
            messages=messages,
            input_length=length,
            calls=tuple(calls),
            facts=facts,
            is_failed=root.error is not None,
            error=next((each.error for each in reached if each.error), None),
            exception=next((each.span.exception for each in reached if each.span.exception), None)
            or _last_error(members, calls),
            problem=next(
                (each.facts.problem for each in members if each.facts is not None and each.facts.problem), None
            ),
            is_ambiguous=is_ambiguous,
            is_cut=any(each.error and each.facts and each.facts.output[-1:] == messages[-1:] for each in outer),
            is_answered=bool(facts.output) or (chain is not None and chain.is_answered),
        )

    def _depth(self, read: ReadSpan) -> int:
        """Return the number of spans above a span."""
        return sum(1 for _ in self.ancestors(read.span))

    def _facts_of(self, root: ReadSpan, members: Sequence[ReadSpan]) -> Facts:
        """Return what the outermost span says; what it lacks comes from the agents below it."""
        facts = _with_content(root.facts or Facts(), members)
        for each in members:
            if each.kind != "agent" or each.facts is None:
                continue
            if facts.agent is None and each.facts.agent and _is_only_agent(members):
                facts = replace(facts, agent=each.facts.agent)
            if facts.usage is None and each.facts.usage is not None:
                facts = replace(facts, usage=each.facts.usage)
        session = facts.session or next(
            (each.facts.session for each in members if each.facts and each.facts.session), None
        )
        return replace(facts, session=session, agent=facts.agent or facts.workflow)


def _after_question(messages: Sequence[Message]) -> int:
    """Return the place after the last message of the user."""
    return 1 + max((place for place, message in enumerate(messages) if message.role == "user"), default=-1)


def _with_content(facts: Facts, members: Sequence[ReadSpan]) -> Facts:
    """Return what a span says; an input and an output that it lacks are those of the first and the last agent."""
    agents = [each for each in members if each.kind == "agent" and each.facts is not None and each.facts.has_content]
    if facts.has_content or not agents:
        return facts
    said = [(each.span.end_ns, each.facts.output) for each in agents if each.facts is not None and each.facts.output]
    given = agents[0].facts.input if agents[0].facts is not None else ()
    return replace(facts, input=given, output=max(said, key=lambda each: each[0])[1] if said else ())


def _tools_of(members: Iterable[ReadSpan]) -> list[ToolCall]:
    """Return the calls of tools in spans; the result of one that failed without a result is its error."""
    return [
        replace(each.facts.tool, output={"error": each.error})
        if each.facts.tool.output in (None, "null") and each.error is not None
        else each.facts.tool
        for each in members
        if each.facts is not None and each.facts.tool is not None
    ]


def _last_error(members: Sequence[ReadSpan], calls: Sequence[ReadSpan]) -> str | None:
    """Return why the last span that failed did so; None if the agent went on to a call of a model after it."""
    failed = next((each for each in reversed(members) if each.error), None)
    if failed is None or any(each.span.start_ns >= failed.span.end_ns for each in calls):
        return None
    return failed.error


def _without_repeated(calls: Sequence[ReadSpan]) -> Sequence[ReadSpan]:
    """Return calls without those that failed and that the program repeated with success."""
    if len(calls) <= 1 or not any(each.error for each in calls):
        return calls
    answered = {id(each) for each in answered_calls(calls)}
    return [each for each in calls if not each.error or id(each) in answered or not (each.facts or Facts()).input]


def _is_only_agent(members: Sequence[ReadSpan]) -> bool:
    named = {other.facts.agent for other in members[1:] if other.kind == "agent" and other.facts and other.facts.agent}
    return len(named) == 1


def _call(read: ReadSpan, tools: Sequence[ToolCall]) -> Invocation:
    facts = read.facts or Facts()
    given = facts.given
    is_lost = facts.problem is not None and not facts.input  # what it answers and continues is not known
    messages = () if is_lost else with_results((*given, *facts.output), tools)
    return Invocation(
        root=read.span,
        is_call=True,
        messages=messages,
        input_length=len(given),
        calls=(read,),
        facts=facts,
        is_failed=read.error is not None,
        error=read.error,
        exception=read.span.exception,
        problem=facts.problem,
        is_answered=bool(facts.output),
    )


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
        is_told = any(is_form_of(text, said) or is_form_of(said, text) for said in texts)
        if text and not is_told and not _is_object(text):
            messages = (*messages, Message("assistant", answer.content))
    return messages, length


def _without_input(output: Sequence[Message], given: Sequence[Message]) -> Sequence[Message]:
    """Return an output without the input that it repeats, as in the messages of a task of AutoGen."""
    known = [message_key(each) for each in given]
    return output[len(known) :] if [message_key(each) for each in output[: len(known)]] == known else output


_REPR = re.compile(r"[A-Z]\w*\(\w+=|<[\w.]+ object at ")


def _is_object(text: str) -> bool:
    """Return True for the JSON of a graph's state, or Python's form of an object, which are not answers."""
    return (text.startswith("{") and '"messages"' in text) or _REPR.match(text) is not None


def usage_of(invocations: Sequence[Invocation]) -> tuple[Usage | None, float | None]:
    """Return the tokens and the cost of all calls of models; those of agents only if no call has any."""
    calls = [call.facts for each in invocations for call in each.calls if call.facts is not None]
    costs = [facts.cost_usd for facts in calls]
    total = total_usage(facts.usage for facts in calls) or total_usage(each.facts.usage for each in invocations)
    cost = sum(cost or 0.0 for cost in costs) if costs and None not in costs else None
    return (None if total is None else replace(total, requests=len(calls))), cost


_KNOWN = (
    *("gen_ai.", "llm.", "openinference.", "input.", "output.", "traceloop.", "ai.", "langfuse.", "mlflow.", "mastra."),
    *("genkit:", "lmnr.", "gcp.vertex.agent.", "entity.", "voltagent.", "usage."),
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
