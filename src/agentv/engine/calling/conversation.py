"""A conversation that is held with a target: one call for each turn, and the answers of all of them as one."""

import math
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec.structs import replace

from agentv.engine.planning.prepared_case import PreparedCase
from agentv.types.messages import Message, TraceEvent
from agentv.types.messages_json import content_text
from agentv.types.records.answer import Answer, AnsweredTurn, Partial
from agentv.types.usage import total_usage

CallTurn = Callable[[int, Sequence[Answer]], Awaitable[Answer]]
"""Calls the target with a turn, by its number from 1, after its answers to the turns before."""

IsLastTurn = Callable[[int, Sequence[Answer]], Awaitable[bool]]
"""Says whether the conversation ends with a turn, by its number and all answers until then."""


async def hold_conversation(prepared: PreparedCase, call: CallTurn, is_last: IsLastTurn) -> Answer:
    """Return the answers to all turns as one; a turn that failed makes it a failure, and is the last one."""
    answers: list[Answer] = []
    for number in range(1, len(prepared.case.turns) + 1):
        answers.append(await call(number, tuple(answers)))
        if answers[-1].error is not None or await is_last(number, answers):
            break
    return joined_answers(prepared, answers)


def joined_answers(prepared: PreparedCase, answers: Sequence[Answer]) -> Answer:
    """Return the answers to the first turns of a case as one; the last of them may be a failure, which names its turn.

    Its `duration_ms` is the time of the target alone: turns may be judged in between.
    """
    messages: list[Message] = []
    turns: list[AnsweredTurn] = []
    for turn, answer in zip(prepared.case.turns, answers, strict=False):
        turns.append(_answered(answer, len(messages)))
        said = answer.output_messages if answer.partial is None else answer.partial.output_messages
        messages += (turn.input, *(said or ()), *_text_alone(answer, said or ()))
    first, last = answers[0], answers[-1]
    usage = total_usage(answer.usage for answer in answers)
    whole = replace(
        last,
        slot=prepared.result_key,
        answer_key=prepared.answer_key,
        output_messages=tuple(messages),
        trace=_trace(answers),
        turns=tuple(turns),
        usage=usage,
        cost_usd=_sum(answer.cost_usd for answer in answers if _has_spent(answer)),
        billed_usd=_sum(answer.billed_usd for answer in answers if _has_spent(answer)),
        estimated=any(answer.estimated for answer in answers),
        started_at=first.started_at,
        first_token_ms=first.first_token_ms,
        duration_ms=_sum(answer.duration_ms for answer in answers),
        attempt=max(answer.attempt for answer in answers),
        calls=tuple(call for answer in answers for call in answer.calls),
        cached=first.cached if all(answer.cached is not None for answer in answers) else None,
        log_paths=tuple(dict.fromkeys(path for answer in answers for path in answer.log_paths)),
        answered_by=next((answer.answered_by for answer in answers if answer.answered_by is not None), None),
        repaired=any(answer.repaired for answer in answers),
    )
    return whole if last.error is None else _failed(whole, len(answers))


def _failed(whole: Answer, number: int) -> Answer:
    """Return a conversation that failed in a turn: what was said until then is a partial answer."""
    error, said = whole.error, whole.partial or Partial()
    if error is None:
        return whole
    partial = replace(said, output_messages=whole.output_messages, trace=None)
    failure = replace(error, message=f"turn {number}: {error.message}")
    return replace(whole, error=failure, partial=partial, output_messages=None, trace=None, turns=())


def _answered(answer: Answer, start: int) -> AnsweredTurn:
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


def _text_alone(answer: Answer, said: Sequence[Message]) -> tuple[Message, ...]:
    """Return the text of an answer as a message, unless one of its messages has it."""
    text = answer.text if answer.partial is None else answer.partial.text
    has_text = any(content_text(each.content).strip() == text.strip() for each in said if each.role == "assistant")
    return () if has_text or not (text or answer.error is None) else (Message("assistant", text),)


def _trace(answers: Sequence[Answer]) -> tuple[TraceEvent, ...] | None:
    """Return the traces of all turns; None if a turn has none, so that counts are never of a part."""
    traces = [answer.trace for answer in answers]
    known = [trace for trace in traces if trace is not None]
    return tuple(event for trace in known for event in trace) if len(known) == len(traces) else None


def _has_spent(answer: Answer) -> bool:
    return answer.usage is not None or answer.cost_usd is not None


def _sum(values: Iterable[float | None]) -> float | None:
    """Return the sum of numbers; None if there is none, or one of them is not known."""
    listed = list(values)
    known = [value for value in listed if value is not None]
    return math.fsum(known) if known and len(known) == len(listed) else None


def answers_by_turn(whole: Answer) -> tuple[Answer, ...]:
    """Return the answer to each turn of a conversation that was held."""
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
