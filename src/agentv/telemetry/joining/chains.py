"""The calls of a model in one invocation, joined into conversations, and which of these is the main one."""

import json
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.telemetry.contents.facts import Facts
from agentv.telemetry.contents.parts import parsed
from agentv.telemetry.contents.tool_calls import with_results
from agentv.telemetry.joining.history import End, Link, OpenEnds, is_over, without_silence
from agentv.telemetry.joining.span_tree import ReadSpan
from agentv.telemetry.otlp.spans import Span
from agentv.types.messages import Message, ToolCall
from agentv.types.messages_json import content_text


class Chain(Struct):
    """Calls of a model, each of which continues the one before."""

    messages: tuple[Message, ...]
    first_length: int
    start_ns: int
    end_ns: int
    is_answered: bool
    """True if the last call has an output."""
    last_input: tuple[Message, ...] = ()
    """The input of the last call, without system messages."""
    count: int = 1


def chains_of(calls: Sequence[ReadSpan]) -> list[Chain]:
    """Return the conversations that the calls of one invocation make."""
    ends, chains = OpenEnds(), dict[str, Chain]()
    for read in calls:
        facts = read.facts or Facts()
        given = facts.given
        link = ends.find("", given, read.span.start_ns, facts.previous_id)
        link = link or _link_by_input(chains, without_system(given), read.span.start_ns)
        chain = None if link is None else chains[link.end.name]
        if chain is None or link is None:
            name = read.span.span_id
            times = read.span.start_ns, read.span.end_ns
            chain = chains[name] = Chain((*given, *facts.output), len(given), *times, bool(facts.output))
        else:
            name = link.end.name
            before = chain.messages if link.length == 0 or link.is_incomplete else ()
            if link.is_incomplete:
                before = without_silence(before)
            new = without_system(given)[link.length :] if before else given
            chain.messages = (*before, *new, *facts.output)
            chain.end_ns, chain.count = read.span.end_ns, chain.count + 1
            chain.is_answered = bool(facts.output)
        chain.last_input = without_system(given)
        ends.add("", chain.messages, End(read.span.end_ns, name), facts.response_id, given=given)
    return list(chains.values())


def _link_by_input(chains: dict[str, Chain], given: tuple[Message, ...], start_ns: int) -> Link | None:
    """Return the newest chain that ends with calls of tools and whose last input this input begins with.

    Some instrumentations record neither the calls nor their results in the next input, or both as texts.
    """
    for name, chain in reversed(chains.items()):
        length = len(chain.last_input)
        is_asking = bool(chain.messages) and bool(chain.messages[-1].tool_calls) and is_over(chain.end_ns, start_ns)
        if is_asking and length and given[:length] == chain.last_input:
            is_text = length < len(given) and given[length].role == "assistant"
            return Link(End(chain.end_ns, name), length + is_text, is_incomplete=True)
    return None


def without_system(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Return messages without those of the system."""
    return tuple(message for message in messages if message.role != "system")


def main_chain(chains: Sequence[Chain], wanted: str) -> tuple[Chain | None, bool]:
    """Return the conversation that ends with the wanted text, else the last one, and whether that is a guess."""
    if not chains:
        return None, False
    last = max(chains, key=lambda chain: chain.end_ns)
    if not wanted:
        return last, len(chains) > 1
    matching = [chain for chain in chains if _ends_with(chain.messages, wanted)]
    if matching:
        return max(matching, key=lambda chain: (chain.count, chain.end_ns)), False
    return last, len(chains) > 1 and wanted not in _last_text(last.messages)


def calls_before(chain: Chain, chains: Sequence[Chain], tools: Sequence[ToolCall]) -> tuple[Message, ...]:
    """Return the calls of tools, with their results, of conversations that ended before another one began.

    They are those of the agents before it, as in a crew. A call without a result is a form of an answer.
    """
    known = [call for message in chain.messages[: chain.first_length] for call in message.tool_calls]
    made: list[Message] = []
    for other in sorted(chains, key=lambda each: each.end_ns):
        if other is chain or not is_over(other.end_ns, chain.start_ns):
            continue
        messages = with_results(other.messages[other.first_length :], tools)
        answered = {message.tool_call_id for message in messages if message.role == "tool"}
        for message in messages:
            calls = tuple(
                call
                for call in message.tool_calls
                if call.id in answered and not any(call.id == each.id or _is_same_call(call, each) for each in known)
            )
            if calls:
                made.append(replace(message, tool_calls=calls))
                made += [each for each in messages if each.tool_call_id in {call.id for call in calls}]
    return tuple(made)


def _is_same_call(one: ToolCall, other: ToolCall) -> bool:
    return (one.tool, one.input) == (other.tool, other.input)


def _ends_with(messages: Sequence[Message], wanted: str) -> bool:
    """Return True if the last message has the wanted text, or a call with it, as agents of smolagents answer."""
    calls = messages[-1].tool_calls if messages else ()
    return is_form_of(wanted, _last_text(messages)) or any(
        is_form_of(json.dumps(call.input, ensure_ascii=False), wanted) for call in calls
    )


def _last_text(messages: Sequence[Message]) -> str:
    return content_text(messages[-1].content).strip() if messages else ""


def is_form_of(output: str, text: str) -> bool:
    """Return True for a text, for the same JSON with other spaces, and for JSON that has the text as a value."""
    if output == text:
        return True
    if not text or not output.startswith(("{", "[")):
        return False
    is_inside = output.startswith("{") and json.dumps(text, ensure_ascii=False) in output
    return is_inside or (text[0] == output[0] and parsed(text) == parsed(output))


def distinct_calls(calls: Sequence[ReadSpan]) -> Sequence[ReadSpan]:
    """Return calls without those that another instrumentation records beside them; the one that says more stays."""
    if len({each.span.scope for each in calls}) <= 1:
        return calls
    kept: list[ReadSpan] = []
    places: dict[tuple[int, int], list[int]] = {}
    for read in calls:
        usage = None if read.facts is None else read.facts.usage
        same_tokens = [] if usage is None else places.setdefault((usage.input, usage.output), [])
        place = next((place for place in same_tokens if _is_same_time(read.span, kept[place].span)), None)
        if place is None:
            same_tokens.append(len(kept))
            kept.append(read)
        elif _said_by(read) > _said_by(kept[place]):
            kept[place] = read
    return kept


def _is_same_time(one: Span, other: Span) -> bool:
    """Return True for spans of two instrumentations, one during the other."""
    outer, inner = sorted((one, other), key=lambda span: span.start_ns - span.end_ns)
    is_inside = is_over(outer.start_ns, inner.start_ns) and is_over(inner.end_ns, outer.end_ns)
    return one.scope != other.scope and is_inside


def _said_by(read: ReadSpan) -> tuple[int, int]:
    messages = () if read.facts is None else (*read.facts.input, *read.facts.output)
    return sum(len(each.tool_calls) for each in messages), sum(bool(each.content) for each in messages)


def answered_calls(calls: Sequence[ReadSpan]) -> list[ReadSpan]:
    """Return calls without those that have no output, if another call has their input: it is a retry, or the answer."""
    answered = [each.facts.input for each in calls if each.facts is not None and each.facts.output]
    return [each for each in calls if each.facts is None or each.facts.output or each.facts.input not in answered]
