"""A conversation that already took place: its messages, its turns, and the transcript for people and judges.

A turn is a user's message and everything up to the next user's message. Messages before the first user's message (a
system message, a greeting) belong to no turn; a conversation without a user's message is one turn.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.text.overlaps import overlap
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext
from agentv.types.json_value import JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text


def conversation(context: EvaluationContext) -> tuple[Message, ...]:
    """Return the whole conversation, each message once: the history, the last input if not in it, and the answer."""
    history = context.message_history or context.eval_case.input_messages
    last_input = context.eval_case.input_messages[-1:]
    answer = _answer(context)
    if last_input and not any(message.role == "user" for message in history):
        history = (*last_input, *history)
    if _same(answer[: len(history)], history):  # some agents return their input messages, too
        return answer
    if last_input and not any(_same((message,), last_input) for message in history):
        return (*history, *last_input, *answer)
    shared = overlap(tuple(map(_content_of, history)), tuple(map(_content_of, answer)))
    if not shared and _says(history[-1:], context.candidate):
        return history
    return (*history, *answer[shared:])


def transcript(messages: Sequence[Message]) -> str:
    """Return messages as `User: …`, `Assistant: …`, with tool calls and their results as lines.

    Continuation lines of a message are indented by two blanks, so that none looks like a new message.
    """
    return "\n".join(line for message in messages for line in _lines(message))


class Turn(Struct, frozen=True):
    """One turn: its number from 1, and the indexes of its first message and of the message after its last."""

    number: int
    start: int
    end: int


def turns_of(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Return the turns of a conversation, in order."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"] or [0]
    ends = [*starts[1:], len(messages)]
    return tuple(Turn(number, *limits) for number, limits in enumerate(zip(starts, ends, strict=True), start=1))


def last_turns(context: EvaluationContext, window: int) -> EvaluationContext:
    """Return a context without the messages before the last `window` turns. Raises EvaluatorError for less than 1."""
    messages = conversation(context)
    return _narrowed(context, messages, turns_of(messages)[-1], _checked_window(window))


def contexts_by_turn(
    context: EvaluationContext, window: int | None = None
) -> tuple[tuple[int, EvaluationContext], ...]:
    """Return number and context of each turn with an assistant's message; the context's answer is that of the turn.

    Its history is the conversation up to the turn, limited to the last `window` turns. Raises EvaluatorError if no turn
    has an assistant's message.
    """
    limit = None if window is None else _checked_window(window)
    messages = conversation(context)
    answered = [turn for turn in turns_of(messages) if any(each.role == "assistant" for each in _part(messages, turn))]
    if not answered:
        raise EvaluatorError("`per_turn` finds no turn with a message of the assistant")
    return tuple((turn.number, _narrowed(context, messages, turn, limit)) for turn in answered)


def _checked_window(window: int) -> int:
    if window < 1:
        raise EvaluatorError(f"`window` must be at least 1, not {window}")
    return window


def _narrowed(
    context: EvaluationContext, messages: tuple[Message, ...], turn: Turn, window: int | None
) -> EvaluationContext:
    turns = turns_of(messages)
    if len(turns) == 1:
        return context
    first = 0 if window is None or window >= turn.number else turns[turn.number - window].start
    answer_start = turn.start + 1
    narrowed = replace(
        context,
        prompt_inputs=replace(
            context.prompt_inputs,
            question=content_text(messages[turn.start].content),
            chat_prompt=None,
            system_prompt="",
            after_system=None,
        ),
        eval_case=replace(context.eval_case, input_messages=messages[first:answer_start]),
        message_history=messages[first:answer_start],
    )
    if turn.number == len(turns) and not any(message.role == "user" for message in context.output_messages or ()):
        return narrowed
    from agentv.scoring.tools.traces import summarize_trace  # noqa: PLC0415 - most cases are scored as a whole

    answer = messages[answer_start : turn.end]
    return replace(
        narrowed,
        candidate=context.candidate if turn.number == len(turns) else _last_text(answer),
        output_messages=answer,
        trace=None,
        candidate_trace=None,
        candidate_trace_summary=summarize_trace(answer),
    )


def _part(messages: Sequence[Message], turn: Turn) -> Sequence[Message]:
    return messages[turn.start : turn.end]


def _answer(context: EvaluationContext) -> tuple[Message, ...]:
    """Return the answer's messages; its text is appended if it is not the text of any assistant's message there."""
    output = context.output_messages or ()
    if output and (not context.candidate or any(_says((message,), context.candidate) for message in output)):
        return output
    return (*output, Message("assistant", context.candidate))


def _says(messages: Sequence[Message], text: str) -> bool:
    return any(
        message.role == "assistant" and content_text(message.content).strip() == text.strip() for message in messages
    )


def _last_text(messages: Sequence[Message]) -> str:
    texts = [content_text(message.content) for message in messages if message.role == "assistant"]
    return next((text for text in reversed(texts) if text), "")


def _same(some: Sequence[Message], others: Sequence[Message]) -> bool:
    """Return True if messages have the same content, regardless of other fields."""
    return [_content_of(message) for message in some] == [_content_of(message) for message in others]


def _content_of(message: Message) -> tuple[object, ...]:
    calls = [(call.tool, call.input) for call in message.tool_calls]
    return message.role, content_text(message.content), message.tool_call_id, calls


def _lines(message: Message) -> Iterator[str]:
    text = content_text(message.content)
    if message.role == "tool":
        yield _line("Tool result", text)
        return
    if text or not message.tool_calls:
        yield _line(message.role.capitalize(), text)
    for call in message.tool_calls:
        yield _line("Tool call", f"{call.tool} {_json(call.input)}".rstrip())
        if call.output is not None:
            yield _line("Tool result", _json(call.output))


def _line(label: str, text: str) -> str:
    return f"{label}: " + "\n  ".join(text.splitlines())


def _json(value: JsonValue) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)
