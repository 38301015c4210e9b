"""The conversations that were read from traces and transcripts, as text and as JSON."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.reports.run.transcript import shown_output
from agentv.reports.text.printable import one_line, printable, printable_json
from agentv.reports.text.width import clip, pad
from agentv.types.evaluation_input import EvaluationInput
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text, message_to_json
from agentv.types.records.answer import Origin, source_of

CONVERSATIONS_SCHEMA = "agentv-traces-1"
_ROLE_WIDTH = 9


class ReadTraces(Struct, frozen=True):
    """What was read from traces and transcripts."""

    answers: Sequence[tuple[Origin, EvaluationInput]]
    errors: Sequence[tuple[Origin, str]]
    """Answers that failed, and lines that could not be read."""
    notes: Sequence[str]
    spans: int
    traces: int


def conversations_text(read: ReadTraces, width: int | None, *, is_full: bool = False) -> Iterator[str]:
    """Yield the lines of a text with each conversation and its facts, then what was not understood.

    Each message is one line, cut to `width`; with `is_full` nothing is cut.
    """
    for origin, given in read.answers:
        yield from conversation_text(origin, given, width, is_full=is_full)
    yield from summary_text(read)


def conversation_text(
    origin: Origin, given: EvaluationInput, width: int | None, *, is_full: bool = False
) -> Iterator[str]:
    """Yield the lines of one conversation."""
    yield from _heading(origin, given)
    for message in _messages(given):
        for text in _texts(message, is_full=is_full):
            row = f"  {pad(message.role, _ROLE_WIDTH)}  {text}"
            yield row if width is None or is_full else clip(row, width)
    yield ""


def summary_text(read: ReadTraces) -> Iterator[str]:
    """Yield the lines after all conversations: what was read, and what was not understood."""
    places: dict[tuple[str, str], list[Origin]] = {}
    for origin, error in read.errors:
        places.setdefault((origin.file, error), []).append(origin)
    for (_, error), (first, *others) in places.items():
        more = f" (the same in {_counted(len(others), 'more line')})" if others else ""
        yield f"! {source_of(first.file, first.line, first.part)}  {one_line(error)}{more}"
    if read.errors:
        yield ""
    spans = f" in {_counted(read.spans, 'span')}" if read.spans else ""
    traces = f" of {_counted(read.traces, 'trace')}" if read.traces else ""
    yield f"{_counted(len(read.answers), 'answer')}{spans}{traces}"
    yield from (f"note: {note}" for note in read.notes)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _heading(origin: Origin, given: EvaluationInput) -> Iterator[str]:
    facts = [
        given.metadata.get("agent") and f"agent {given.metadata['agent']}",
        given.model,
        given.usage and f"{given.usage.input:,} + {given.usage.output:,} tokens",
        None if given.duration_ms is None else f"{given.duration_ms / 1000:,.2f} s",
        "incomplete: a call of a tool was not continued" if given.metadata.get("incomplete") else None,
    ]
    named = "  ".join(one_line(str(fact)) for fact in facts if fact)
    yield f"{source_of(origin.file, origin.line, origin.part)}  {named}".rstrip()
    ids = [f"span {origin.span_id}"] if origin.span_id else []
    if given.session_id and given.session_id != origin.span_id:
        ids.append(f"session {given.session_id}")
    if ids:
        yield f"  {printable('  '.join(ids))}"


def _messages(given: EvaluationInput) -> Iterator[Message]:
    if given.prompt and not any(message.role == "user" for message in given.message_history):
        yield Message("user", given.prompt)
    yield from given.message_history
    yield given.response if isinstance(given.response, Message) else Message("assistant", given.response)


def _texts(message: Message, *, is_full: bool) -> Iterator[str]:
    text = "" if message.content is None else content_text(message.content)
    if is_full:
        yield from text.splitlines()
    elif text.strip():
        yield one_line(text)
    for call in message.tool_calls:
        output = shown_output(call.output)
        result = output if isinstance(output, str) else compact_json(output)
        yield one_line(f"{call.tool}({compact_json(call.input)})" + ("" if output is None else f" -> {result}"))


def conversations_json(read: ReadTraces) -> str:
    """Return the conversations as one JSON object."""
    answers: list[JsonValue] = [
        {
            "source": origin.to_json(),
            "id": given.id,
            "session_id": given.session_id,
            "model": given.model,
            "usage": None if given.usage is None else {"input": given.usage.input, "output": given.usage.output},
            "cost_usd": given.cost_usd,
            "duration_ms": given.duration_ms,
            "metadata": given.metadata,
            "messages": [message_to_json(message) for message in _messages(given)],
        }
        for origin, given in read.answers
    ]
    errors: list[JsonValue] = [{"source": origin.to_json(), "error": message} for origin, message in read.errors]
    value: JsonObject = {
        "schema": CONVERSATIONS_SCHEMA,
        "spans": read.spans,
        "traces": read.traces,
        "answers": answers,
        "errors": errors,
        "notes": list(read.notes),
    }
    return printable_json(compact_json(value))
