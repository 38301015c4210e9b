"""A conversation that already happened: its messages, its turns, and the transcript that people and judges read.

A turn is what a user said and everything up to what a user says next. Messages before the first of them (a system
message, a greeting) belong to no turn; a conversation in which no user speaks is one turn.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.results.aggregation import weighted_mean
from agentv.scoring.results.criteria import criterion_named, failed_result
from agentv.scoring.text.similarity import overlap
from agentv.scoring.tools.traces import summarize_trace
from agentv.types.cases import TurnAggregate
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluationResult, EvaluationScore, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.messages_json import compact_json, content_text


def conversation(context: EvaluationContext) -> tuple[Message, ...]:
    """Return everything that was said: the history, the question if it is not in there, and the answer, each once."""
    history = context.message_history or context.eval_case.input_messages
    asked = context.eval_case.input_messages[-1:]
    answer = _answer(context)
    if asked and not any(message.role == "user" for message in history):
        history = (*asked, *history)
    if _same(answer[: len(history)], history):  # agents that give back all they were given
        return answer
    if asked and not any(_same((message,), asked) for message in history):
        return (*history, *asked, *answer)
    shared = overlap(tuple(map(_heard, history)), tuple(map(_heard, answer)))
    if not shared and _says(history[-1:], context.candidate):
        return history
    return (*history, *answer[shared:])


def transcript(messages: Sequence[Message]) -> str:
    """Return messages as `User: …`, `Assistant: …`, with tool calls and their results as lines.

    Lines that continue a message are indented by two blanks, so that none can pass for another's message.
    """
    return "\n".join(line for message in messages for line in _lines(message))


class Turn(Struct, frozen=True):
    """One turn: its number from 1, and where it stands among the conversation's messages."""

    number: int
    start: int
    end: int


def turns_of(messages: Sequence[Message]) -> tuple[Turn, ...]:
    """Return the turns of a conversation, in order."""
    starts = [index for index, message in enumerate(messages) if message.role == "user"] or [0]
    ends = [*starts[1:], len(messages)]
    return tuple(Turn(number, *place) for number, place in enumerate(zip(starts, ends, strict=True), start=1))


def last_turns(context: EvaluationContext, window: int) -> EvaluationContext:
    """Return a context in which nothing was said before the last `window` turns. Raises EvaluatorError below 1."""
    messages = conversation(context)
    return _narrowed(context, messages, turns_of(messages)[-1], _checked(window))


def contexts_by_turn(
    context: EvaluationContext, window: int | None = None
) -> tuple[tuple[int, EvaluationContext], ...]:
    """Return one context for each turn in which the assistant spoke, with its number: the answer is what it said there.

    Before it stands what was said until then, the last `window` turns of it. Raises EvaluatorError when the assistant
    spoke in none.
    """
    limit = None if window is None else _checked(window)
    messages = conversation(context)
    spoken = [turn for turn in turns_of(messages) if any(each.role == "assistant" for each in _part(messages, turn))]
    if not spoken:
        raise EvaluatorError("`per_turn` finds no turn in which the assistant says something")
    return tuple((turn.number, _narrowed(context, messages, turn, limit)) for turn in spoken)


def _checked(window: int) -> int:
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
    asked = turn.start + 1
    judged = replace(
        context,
        prompt_inputs=replace(
            context.prompt_inputs, question=content_text(messages[turn.start].content), chat_prompt=None
        ),
        eval_case=replace(context.eval_case, input_messages=messages[first:asked]),
        message_history=messages[first:asked],
    )
    if turn.number == len(turns) and not any(message.role == "user" for message in context.output_messages or ()):
        return judged
    said = messages[asked : turn.end]
    return replace(
        judged,
        candidate=context.candidate if turn.number == len(turns) else _last_text(said),
        output_messages=said,
        trace=None,
        candidate_trace=None,
        candidate_trace_summary=summarize_trace(said),
    )


def _part(messages: Sequence[Message], turn: Turn) -> Sequence[Message]:
    return messages[turn.start : turn.end]


def _answer(context: EvaluationContext) -> tuple[Message, ...]:
    """Return the answer's messages; its text stands at the end when none of them says it."""
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
    """Whether messages say the same, whatever is noted beside them."""
    return [_heard(message) for message in some] == [_heard(message) for message in others]


def _heard(message: Message) -> tuple[object, ...]:
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


class TurnScore(Struct, frozen=True):
    """What an evaluator says about one turn, with the turn's number from 1."""

    number: int
    score: EvaluationScore


def fold_turns(
    turns: Sequence[TurnScore], aggregate: TurnAggregate, *, criteria: Sequence[EvaluationCriteria] = ()
) -> EvaluationScore:
    """Return one score for all turns; hits, misses and results name the turn that they are about.

    `mean`: the turns' mean. `min`: the worst turn's score and results. `last`: those of the last one. A turn that could
    not be judged makes the whole an error, as an evaluator's own failure does; one that was skipped counts for nothing,
    and when all were, so is the whole.
    """
    heard = [turn for turn in turns if turn.score.status != "skipped"]
    if not heard:
        results = tuple(_marked(result, turn.number) for turn in turns for result in turn.score.results)
        return EvaluationScore(0.0, status="skipped", reasoning="\n".join(_reasons(turns)) or None, results=results)
    turns = heard
    broken = [turn for turn in turns if turn.score.error is not None]
    judged = turns[-1:] if aggregate == "last" else turns
    chosen = {"mean": judged, "min": [min(judged, key=lambda turn: turn.score.score)], "last": judged}[aggregate]
    whole = EvaluationScore(
        score=weighted_mean((1.0, turn.score.score) for turn in chosen),
        hits=_named(judged, "hits"),
        misses=_named(judged, "misses"),
        expected_aspect_count=sum(turn.score.expected_aspect_count for turn in judged),
        reasoning="\n".join(_reasons(judged)) or None,
        evaluator_raw_request=_requests(turns),
        verdict="fail" if any(turn.score.verdict == "fail" for turn in judged) else None,
        status="unverified" if any(turn.score.status == "unverified" for turn in judged) else "scored",
        results=tuple(_marked(result, turn.number) for turn in chosen for result in turn.score.results),
        judge_calls=tuple(call for turn in turns for call in turn.score.judge_calls),
        members=tuple(_member(member, turn.number) for turn in turns for member in turn.score.members),
    )
    return _failed(whole, turns, broken, criteria) if broken else whole


def _failed(
    whole: EvaluationScore,
    turns: Sequence[TurnScore],
    broken: Sequence[TurnScore],
    criteria: Sequence[EvaluationCriteria],
) -> EvaluationScore:
    """Return the score when some turns could not be judged: each criterion that is missing in one is an error."""
    failures = [(turn.number, turn.score.error) for turn in broken if turn.score.error is not None]
    message = "; ".join(f"turn {number}: {error.message}" for number, error in failures)
    names = dict.fromkeys(result.criterion_name for turn in turns for result in turn.score.results)
    faults = {name: fault for name in names if (fault := next(_faults(name, broken), None)) is not None}
    kind = failures[0][1].kind
    failed = tuple(
        failed_result(fault, criterion_named(name, criteria, scale="numeric"), kind=_kind_of(name, turns))
        for name, fault in faults.items()
    )
    stand = tuple(
        _marked(result, turn.number)
        for turn in turns
        for result in turn.score.results
        if result.criterion_name not in faults
    )
    error = Failure(kind=kind, message=message, stage="evaluator")
    return replace(whole, score=0.0, verdict=None, status="error", error=error, results=stand + failed)


def _faults(name: str, broken: Iterable[TurnScore]) -> Iterator[str]:
    """Yield why a criterion has no value in some turn: its own error, or that of a turn which says nothing of it."""
    for turn in broken:
        own = [result for result in turn.score.results if result.criterion_name == name]
        errors = [result.error for result in own if result.error is not None]
        if errors or not own:
            said = errors[0] if errors else turn.score.error.message if turn.score.error is not None else ""
            yield f"turn {turn.number}: {said}"


def _kind_of(name: str, turns: Iterable[TurnScore]) -> str:
    results = (result for turn in turns for result in turn.score.results)
    return next((result.evaluator_type for result in results if result.criterion_name == name), "")


def _named(turns: Iterable[TurnScore], lines: str) -> tuple[str, ...]:
    return tuple(f"turn {turn.number}: {line}" for turn in turns for line in getattr(turn.score, lines))


def _reasons(turns: Iterable[TurnScore]) -> Iterator[str]:
    return (f"turn {turn.number}: {turn.score.reasoning}" for turn in turns if turn.score.reasoning)


def _requests(turns: Sequence[TurnScore]) -> JsonObject | None:
    requests: list[JsonValue] = [turn.score.evaluator_raw_request for turn in turns]
    return {"turns": requests} if any(requests) else None


def _marked(result: EvaluationResult, number: int) -> EvaluationResult:
    return replace(result, metadata={**(result.metadata or {}), "turn": number})


def _member(member: EvaluatorResult, number: int) -> EvaluatorResult:
    return replace(member, name=f"turn {number}: {member.name}")
