"""The answer stage: call a target, then its fallbacks, turn by turn in a conversation, and make the answer."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.calls import cost_of_calls
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.calling.runtime import Runtime
from agentv.engine.capture import Cleaner
from agentv.engine.planning.prepared_case import PreparedCase, prepare_case, prompt_form
from agentv.execution.retry import answered_at
from agentv.execution.user_code import described
from agentv.messages.shapes.thinking import reasoning_of
from agentv.types.errors import MessageError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import Message
from agentv.types.protocols import Clock
from agentv.types.provider import TRACE_NOTE, CachedFrom, CallRecord, ProviderError, ProviderRequest, ProviderResponse
from agentv.types.records.answer import Answer, Origin, Partial
from agentv.types.stored import known_duration, rounded_ms, to_ms
from agentv.types.targets import ResolvedTarget
from agentv.types.thinking import split_thinking
from agentv.types.usage import Usage, total_usage

OnRetry = Callable[[CallRecord, float], None]
OnLogLine = Callable[[str, str], None]
"""Shows a log line of a call; takes the name of the target, and the line."""


class CallOutcome(Struct, frozen=True, gc=False):
    """The outcome of one call of a target, all attempts together: its response or its failure."""

    result: ProviderResponse | Failure
    started_at: datetime
    ended_at: datetime
    calls: tuple[CallRecord, ...] = ()
    """The attempts."""
    usage: Usage | None = None
    """What the attempts used, if the call failed."""
    cost_usd: float | None = None
    """What the attempts spent, if the call failed."""
    partial: ProviderResponse | None = None
    """The incomplete response, if the call failed."""
    answered_by: str | None = None
    """The name of the fallback target that responded."""
    lost_usd: float | None = 0.0
    """The cost of the targets that failed before the fallback target responded; None if it is not known."""

    @property
    def is_estimated(self) -> bool:
        """True if a part of the usage of a failed call was estimated."""
        return any(call.estimated for call in self.calls)


async def call_target(
    prepared: PreparedCase,
    provider: ResilientProvider,
    *,
    clock: Clock,
    on_retry: OnRetry | None = None,
    on_log_line: OnLogLine | None = None,
    before_repeat: Callable[[], Awaitable[None]] | None = None,
) -> CallOutcome:
    """Call the target with a prepared case. A failure of the target is the outcome's result; it is never raised."""
    request = prepared.request
    if on_log_line is not None:
        request = replace(request, on_log_line=partial(on_log_line, provider.target.name))
    started_at = clock()
    result: ProviderResponse | Failure
    calls: tuple[CallRecord, ...] = ()
    try:
        result = await provider.invoke_within(
            request, total_s=prepared.task.timeout_s, on_retry=on_retry, before_repeat=before_repeat
        )
        calls = result.calls
        if result.trace is not None and provider.is_code and TRACE_NOTE not in result.notes:
            result = replace(result, notes=(*result.notes, TRACE_NOTE))
    except ProviderError as error:
        return failed_outcome(error, started_at=started_at, ended_at=clock())
    except Exception as error:  # noqa: BLE001 - plug-in code: its error is the result of this row
        result = Failure("plugin_error", f"{described(error)}")
    # The wait for the account's rate limit does not count as time of the target.
    started_at = calls[0].started_at if calls else started_at
    return CallOutcome(
        result=result, started_at=started_at, ended_at=answered_at(result, started_at, clock()), calls=calls
    )


def failed_outcome(error: ProviderError, *, started_at: datetime, ended_at: datetime) -> CallOutcome:
    """Return the outcome of a call that failed; a call with attempts started with the first of them."""
    calls = error.calls
    return CallOutcome(
        result=error.failure,
        started_at=calls[0].started_at if calls else started_at,
        ended_at=ended_at,
        calls=calls,
        usage=total_usage(call.usage for call in calls),
        cost_usd=cost_of_calls(calls),
        partial=error.partial,
    )


_RUN_FAILURES = ("budget", "cancelled")
"""Kinds of failures of the run, not of the target: a fallback would fail for the same reason."""


def call_with_fallbacks(
    prepared: PreparedCase,
    provider: ResilientProvider,
    runtime: Runtime,
    *,
    on_retry: OnRetry,
    on_log_line: OnLogLine | None = None,
    before_repeat: Callable[[], Awaitable[None]] | None = None,
) -> Awaitable[CallOutcome]:
    """Call a target, then its `fallback_targets` until one responds; each has the time limit of the case.

    Fallbacks of fallbacks are not called. `before_repeat` is awaited before each further attempt or target.
    """
    first = call_target(
        prepared,
        provider,
        clock=runtime.clock,
        on_retry=on_retry,
        on_log_line=on_log_line,
        before_repeat=before_repeat,
    )
    if not prepared.task.target.fallback_targets:
        return first
    return _call_fallbacks(
        first, prepared, runtime, on_retry=on_retry, on_log_line=on_log_line, before_repeat=before_repeat
    )


async def _call_fallbacks(
    first: Awaitable[CallOutcome],
    prepared: PreparedCase,
    runtime: Runtime,
    *,
    on_retry: OnRetry,
    on_log_line: OnLogLine | None,
    before_repeat: Callable[[], Awaitable[None]] | None,
) -> CallOutcome:
    """Return the outcome of the first call, or that of the first fallback that responds."""
    outcome = await first
    for name in prepared.task.target.fallback_targets:
        if not isinstance(outcome.result, Failure) or outcome.result.kind in _RUN_FAILURES:
            break
        target = prepared.task.known.get(name)
        if before_repeat is not None:
            await before_repeat()
        fallback = await call_target(
            _prepared_for(prepared, target, runtime),
            runtime.provider(target),
            clock=runtime.clock,
            on_retry=on_retry,
            on_log_line=on_log_line,
            before_repeat=before_repeat,
        )
        outcome = _outcome_of_fallback(outcome, fallback, name)
    return outcome


def _prepared_for(prepared: PreparedCase, target: ResolvedTarget, runtime: Runtime) -> PreparedCase:
    """Return a prepared case with the request for another target; its row and keys stay those of the first."""
    spec = runtime.specs.providers.get(target.provider)
    task = replace(prepared.task, target=target)
    own = prepare_case(task, prepared.case, target_key="", form=prompt_form(target, spec))
    return replace(
        prepared, request=replace(own.request, workspace=prepared.request.workspace, turn=prepared.request.turn)
    )


def _outcome_of_fallback(failed: CallOutcome, fallback: CallOutcome, name: str) -> CallOutcome:
    """Return the outcome of a fallback, with the attempts, usage and cost of the failed targets before it."""
    calls, response = (*failed.calls, *fallback.calls), fallback.result
    if isinstance(response, Failure):
        first_message = failed.result.message if isinstance(failed.result, Failure) else ""
        return CallOutcome(
            replace(response, message=f"{first_message}; fallback {name!r}: {response.message}"),
            started_at=failed.started_at,
            ended_at=fallback.ended_at,
            calls=calls,
            usage=total_usage((failed.usage, fallback.usage)),
            cost_usd=_total_cost((failed.usage, failed.cost_usd), (fallback.usage, fallback.cost_usd)),
            partial=fallback.partial or failed.partial,
        )
    response = replace(
        response,
        calls=calls,
        usage=total_usage((failed.usage, response.usage)),
        cost_usd=_total_cost((failed.usage, failed.cost_usd), (response.usage, response.cost_usd)),
        estimated=response.estimated or failed.is_estimated,
    )
    lost_usd = 0.0 if failed.usage is None and failed.cost_usd is None else failed.cost_usd
    return CallOutcome(response, failed.started_at, fallback.ended_at, calls=calls, answered_by=name, lost_usd=lost_usd)


def _total_cost(*spent: tuple[Usage | None, float | None]) -> float | None:
    """Return the sum of the costs; None if no call has one, or if a call with usage has none."""
    costs = [cost for usage, cost in spent if usage is not None or cost is not None]
    known = [cost for cost in costs if cost is not None]
    return sum(known) if costs and len(known) == len(costs) else None


def make_answer(
    prepared: PreparedCase,
    outcome: CallOutcome,
    *,
    cleaner: Cleaner,
    counts_attempts: bool,
    workspace: JsonObject | None = None,
) -> Answer:
    """Return the answer of an outcome, cleaned so that it can be stored. `workspace` is the record of the workspace.

    With `counts_attempts` the answer's `attempt` is the number of repeats; else it is 0.
    """
    result = _read_response(outcome.result)
    attempt = max(0, len(outcome.calls) - 1) if counts_attempts else 0
    if not isinstance(result, ProviderResponse):
        if isinstance(outcome.result, ProviderResponse):  # it was paid for, although it cannot be read
            unreadable = outcome.result
            outcome = replace(outcome, partial=unreadable, usage=unreadable.usage, cost_usd=unreadable.cost_usd)
        cleaned = cleaner.clean_all(result, outcome.calls, workspace, _readable_partial(outcome.partial))
        return _failed_answer(prepared, outcome, attempt, cleaned, is_repaired=cleaner.repaired)
    result = _without_thinking(result)
    request = result.request or request_to_json(prepared.request)
    response, request, workspace = cleaner.clean_all(result, request, workspace)
    answer = replace(
        _answer_without_response(
            prepared, outcome, attempt, calls=response.calls, workspace=workspace, is_repaired=cleaner.repaired
        ),
        text=response.text,
        reasoning=response.reasoning,
        output_messages=response.output_messages,
        trace=response.trace,
        finish_reason=response.finish_reason,
        session=response.session,
        usage=response.usage,
        cost_usd=response.cost_usd,
        billed_usd=response.cost_usd,
        estimated=response.estimated,
        first_token_ms=rounded_ms(known_duration(response.first_token_ms)),
        exit_code=response.exit_code,
        log_paths=response.log_paths,
        request=request,
    )
    origin = _origin(response)
    if origin is not None or response.notes:
        answer = replace(answer, notes=response.notes, origin=origin)
    if outcome.answered_by is not None:
        answer = replace(answer, answered_by=outcome.answered_by)
    source: CachedFrom | None = response.cached
    if source is None:
        return answer
    # An answer from the cache has the duration and cost of the original call.
    return replace(answer, duration_ms=source.duration_ms, billed_usd=outcome.lost_usd, cached=_source_to_json(source))


def _origin(response: ProviderResponse) -> Origin | None:
    """Return where a recorded response was read from, or the span that gave it, if the spans were received."""
    if response.origin is not None:
        return Origin.from_json(response.origin)
    spans = response.spans
    if spans is None or not spans.span_id:
        return None
    return Origin(file="", line=0, trace_id=spans.trace_id, span_id=spans.span_id)


def _answer_without_response(
    prepared: PreparedCase,
    outcome: CallOutcome,
    attempt: int,
    *,
    calls: tuple[CallRecord, ...],
    workspace: JsonObject | None,
    is_repaired: bool,
) -> Answer:
    """Return an answer without the fields of the response, which the caller adds.

    Python passes more than 15 keywords of one call in a dict, which is slower than two calls (bench/echo_cases.py).
    """
    return Answer(
        slot=prepared.task.slot,
        answer_key=prepared.answer_key,
        text="",
        started_at=outcome.started_at,
        ended_at=outcome.ended_at,
        duration_ms=to_ms((outcome.ended_at - outcome.started_at).total_seconds()),
        generation=prepared.task.generation,
        rerun=prepared.task.rerun,
        attempt=attempt,
        calls=calls,
        workspace=workspace,
        repaired=is_repaired,
    )


def _read_response(result: ProviderResponse | Failure) -> ProviderResponse | Failure:
    """Return a response with Message objects in place of a framework's messages; a Failure if it cannot be read."""
    if not isinstance(result, ProviderResponse):
        return result
    text: object = result.text
    if not isinstance(text, str):
        return Failure("unexpected_shape", f"the text of the response is a {type(text).__name__}, not a string")
    given: object = result.output_messages
    if given is None:
        return result
    if isinstance(given, tuple) and all(isinstance(each, Message) for each in given):
        return result
    from agentv.messages.shapes.reading import read_messages  # noqa: PLC0415 - most targets return no messages

    try:
        return replace(result, output_messages=read_messages(given, "output_messages"))
    except MessageError as error:
        return Failure("unexpected_shape", f"the response cannot be read: {error}")


def _without_thinking(response: ProviderResponse) -> ProviderResponse:
    """Return a response with the reasoning moved out of its text."""
    if response.output_messages is None and "<think" not in response.text:
        return response
    text, thoughts = split_thinking(response.text)
    reasoning = response.reasoning or thoughts or reasoning_of(response.output_messages or ())
    if text == response.text and reasoning == response.reasoning:
        return response
    return replace(response, text=text, reasoning=reasoning)


def _failed_answer(
    prepared: PreparedCase, outcome: CallOutcome, attempt: int, cleaned: tuple[Any, ...], *, is_repaired: bool
) -> Answer:
    """Return the answer of a failed call; `cleaned` are its failure, attempts, workspace and incomplete response."""
    error, calls, workspace, partial = cleaned
    response = partial or ProviderResponse("")
    return replace(
        _answer_without_response(prepared, outcome, attempt, calls=calls, workspace=workspace, is_repaired=is_repaired),
        usage=outcome.usage,
        cost_usd=outcome.cost_usd,
        billed_usd=outcome.cost_usd,
        estimated=outcome.is_estimated,
        finish_reason=response.finish_reason,
        session=response.session,
        first_token_ms=rounded_ms(known_duration(response.first_token_ms)),
        exit_code=response.exit_code,
        log_paths=response.log_paths,
        request=response.request,
        notes=response.notes,
        origin=_origin(response),
        error=error,
        partial=None if partial is None else _to_partial(partial),
    )


def _readable_partial(response: ProviderResponse | None) -> ProviderResponse | None:
    """Return an incomplete response with the reasoning moved out of its text, and without unreadable messages."""
    if response is None:
        return None
    text: object = response.text
    if not isinstance(text, str):
        response = replace(response, text=str(text))
    read = _read_response(response)
    return _without_thinking(replace(response, output_messages=None) if isinstance(read, Failure) else read)


def failed_answer(answer: Answer, failure: Failure) -> Answer:
    """Return an answer as a failed one, whose output is not scored; its usage and cost stay those of the answer."""
    partial = Partial(
        text=answer.text, reasoning=answer.reasoning, output_messages=answer.output_messages, trace=answer.trace
    )
    return replace(
        answer, error=failure, partial=partial, text="", reasoning=None, output_messages=None, trace=None, turns=()
    )


def _to_partial(response: ProviderResponse) -> Partial:
    return Partial(
        text=response.text,
        reasoning=response.reasoning,
        output_messages=response.output_messages,
        trace=response.trace,
        usage=response.usage,
        cost_usd=response.cost_usd,
        estimated=response.estimated,
    )


def _source_to_json(source: CachedFrom) -> JsonObject:
    return {"key": source.key, "at": source.at.isoformat(), "run_id": source.run_id}


def request_to_json(request: ProviderRequest) -> JsonObject:
    """Return a request as JSON for the run folder, without empty fields."""
    fields: dict[str, JsonValue] = {}
    if request.system_prompt:
        fields["system_prompt"] = request.system_prompt
    if request.question:
        fields["question"] = request.question
    if request.chat_prompt:
        fields["chat_prompt"] = [{"role": turn.role, "content": turn.content} for turn in request.chat_prompt]
    if request.guidelines:
        fields["guidelines"] = request.guidelines
    if request.guideline_files:
        fields["guideline_files"] = list(request.guideline_files)
    if request.input_files:
        fields["input_files"] = list(request.input_files)
    return fields
