"""The answers to the turns of a conversation, joined into the one answer that is stored, and split again."""

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from agentv.engine.planning.prepared_case import PreparedCase
from agentv.types.cases import CaseTurn
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import content_text
from agentv.types.records.answer import Answer, AnsweredTurn, Partial
from agentv.types.usage import total_usage


def joined_answers(prepared: PreparedCase, said: Sequence[CaseTurn], answers: Sequence[Answer]) -> Answer:
    """Join the answers to the turns `said` so far into one; if the last of them failed, into a failed answer.

    `duration_ms` of the joined answer is the time of the target alone: turns may be judged in between.
    """
    messages: list[Message] = []
    turns: list[AnsweredTurn] = []
    for turn, answer in zip(said, answers, strict=True):
        turns.append(_answered_turn(answer, len(messages)))
        output = answer.output_messages if answer.partial is None else answer.partial.output_messages
        messages += (turn.input, *(output or ()), *_missing_text(answer, output or ()))
    first, last = answers[0], answers[-1]
    usage = total_usage(answer.usage for answer in answers)
    whole = replace(
        last,
        slot=prepared.task.slot,
        answer_key=prepared.answer_key,
        output_messages=tuple(messages),
        trace=_joined_trace(answers),
        turns=tuple(turns),
        usage=usage,
        cost_usd=_sum_if_all_known(answer.cost_usd for answer in answers if _has_spent(answer)),
        billed_usd=_sum_if_all_known(answer.billed_usd for answer in answers if _has_spent(answer)),
        estimated=any(answer.estimated for answer in answers),
        started_at=first.started_at,
        first_token_ms=first.first_token_ms,
        duration_ms=_sum_if_all_known(answer.duration_ms for answer in answers),
        attempt=max(answer.attempt for answer in answers),
        calls=tuple(call for answer in answers for call in answer.calls),
        cached=first.cached if all(answer.cached is not None for answer in answers) else None,
        log_paths=tuple(dict.fromkeys(path for answer in answers for path in answer.log_paths)),
        notes=tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        answered_by=next((answer.answered_by for answer in answers if answer.answered_by is not None), None),
        repaired=any(answer.repaired for answer in answers),
    )
    return whole if last.error is None else _failed_conversation(whole, len(answers))


def _failed_conversation(whole: Answer, number: int) -> Answer:
    """Return a conversation that failed in turn `number`, with the messages until then as a partial answer."""
    error, partial = whole.error, whole.partial or Partial()
    if error is None:
        return whole
    partial = replace(partial, output_messages=whole.output_messages, trace=None)
    failure = replace(error, message=f"turn {number}: {error.message}")
    return replace(whole, error=failure, partial=partial, output_messages=None, trace=None, turns=())


def _answered_turn(answer: Answer, start: int) -> AnsweredTurn:
    return AnsweredTurn(
        text=answer.text,
        start=start,
        has_messages=bool(answer.output_messages),
        trace=answer.trace,
        usage=answer.usage,
        cost_usd=answer.cost_usd,
        duration_ms=answer.duration_ms,
        cached=answer.cached is not None,
    )


def _missing_text(answer: Answer, output: Sequence[Message]) -> tuple[Message, ...]:
    """Return the text of an answer as a message.

    Return nothing if a message of `output` has the same text, or if the answer failed without any text.
    """
    text = answer.text if answer.partial is None else answer.partial.text
    has_text = any(content_text(each.content).strip() == text.strip() for each in output if each.role == "assistant")
    return () if has_text or not (text or answer.error is None) else (Message("assistant", text),)


def _joined_trace(answers: Sequence[Answer]) -> tuple[TraceEvent, ...] | None:
    """Return the traces of all turns as one.

    None if a turn has no trace: the joined trace would lack the events of that turn.
    """
    traces = [answer.trace for answer in answers]
    known = [trace for trace in traces if trace is not None]
    return tuple(event for trace in known for event in trace) if len(known) == len(traces) else None


def _has_spent(answer: Answer) -> bool:
    return answer.usage is not None or answer.cost_usd is not None


def _sum_if_all_known(values: Iterable[float | None]) -> float | None:
    """Return the sum of `values`; None if there are none, or if one of them is None."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return math.fsum(known) if known and len(known) == len(listed) else None


def answers_by_turn(whole: Answer) -> tuple[Answer, ...]:
    """Split the answer of a conversation into the answers to its turns."""
    return tuple(
        replace(
            whole,
            text=turn.text,
            output_messages=messages[1:] if turn.has_messages else None,
            trace=turn.trace,
            usage=turn.usage,
            cost_usd=turn.cost_usd,
            duration_ms=turn.duration_ms,
            turns=(),
        )
        for turn, messages in zip(whole.turns, whole.messages_by_turn, strict=True)
    )
