"""The answer stage: ask a target, or say in one well-named failure why it did not answer."""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from msgspec import Struct

from agentv.engine.calling.capture import Cleaner
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.planning.prepared_case import Question
from agentv.execution.user_code import raised_at
from agentv.types.errors import ProviderError
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.protocols import Clock
from agentv.types.provider import CachedFrom, CallRecord, ProviderRequest, ProviderResponse
from agentv.types.records.answer import Answer
from agentv.types.usage import Usage, total_usage

OnRetry = Callable[[CallRecord, float], None]


class Reply(Struct, frozen=True):
    """What came back for one question, or why nothing did, and when.

    `calls` are the tries it took; `usage` and `cost_usd` what they spent when none of them brought an answer.
    """

    outcome: ProviderResponse | Failure
    started_at: datetime
    ended_at: datetime
    calls: tuple[CallRecord, ...] = ()
    usage: Usage | None = None
    cost_usd: float | None = None


async def ask(
    question: Question,
    provider: ResilientProvider,
    *,
    clock: Clock,
    on_retry: OnRetry | None = None,
    before_repeat: Callable[[], Awaitable[None]] | None = None,
) -> Reply:
    """Ask the target. Never raises for a failure of the target: that is the reply's outcome."""
    started_at = clock()
    outcome: ProviderResponse | Failure
    calls: tuple[CallRecord, ...] = ()
    lost: Usage | None = None
    try:
        outcome = await provider.invoke_within(
            question.request, total_s=question.task.timeout_s, on_retry=on_retry, before_repeat=before_repeat
        )
        calls = outcome.calls
    except ProviderError as error:
        outcome, calls = error.failure, error.calls
        lost = total_usage(call.usage for call in calls)
    except Exception as error:  # noqa: BLE001 - plug-in code: its fault is this row's result, never the run's end
        outcome = Failure("plugin_error", f"{type(error).__name__}: {error}{raised_at(error)}")
    # Waiting for a turn at the account is no part of how long the target took.
    started_at = calls[0].started_at if calls else started_at
    cost_usd = None if lost is None else provider.cost_of(lost)
    return Reply(outcome=outcome, started_at=started_at, ended_at=clock(), calls=calls, usage=lost, cost_usd=cost_usd)


def make_answer(
    question: Question, reply: Reply, *, cleaner: Cleaner, counts_attempts: bool, workspace: JsonObject | None = None
) -> Answer:
    """Return the answer that a reply is, with what it left in its workspace, cleaned for keeping."""
    outcome = reply.outcome
    text: object = "" if isinstance(outcome, Failure) else outcome.text
    if not isinstance(text, str):
        outcome = Failure("unexpected_shape", f"the answer's text is a {type(text).__name__}, not a string")
    attempt = max(0, len(reply.calls) - 1) if counts_attempts else 0
    if isinstance(outcome, Failure):
        return _unanswered(question, reply, attempt, cleaner.clean_all(outcome, reply.calls, workspace))
    request = outcome.request or request_to_json(question.request)
    said, request, workspace = cleaner.clean_all(outcome, request, workspace)
    source: CachedFrom | None = said.cached
    # One from the cache with how long it took and what it cost then. In order, not by name: so many names take longer
    # than all the rest.
    return Answer(
        slot=question.slot,
        answer_key=question.answer_key,
        text=said.text,
        started_at=reply.started_at,
        ended_at=reply.ended_at,
        duration_ms=_took_ms(reply) if source is None else source.duration_ms,
        generation=question.task.generation,
        attempt=attempt,
        output_messages=said.output_messages,
        trace=said.trace,
        finish_reason=said.finish_reason,
        session=said.session,
        usage=said.usage,
        cost_usd=said.cost_usd,
        billed_usd=said.cost_usd if source is None else 0.0,
        first_token_ms=None if said.first_token_ms is None else round(said.first_token_ms, 3),
        calls=said.calls,
        cached=None if source is None else _source_to_json(source),
        workspace=workspace,
        exit_code=said.exit_code,
        log_paths=said.log_paths,
        request=request,
        repaired=cleaner.repaired,
    )


def _unanswered(question: Question, reply: Reply, attempt: int, cleaned: tuple[Any, ...]) -> Answer:
    error, calls, workspace = cleaned
    return Answer(
        slot=question.slot,
        answer_key=question.answer_key,
        text="",
        started_at=reply.started_at,
        ended_at=reply.ended_at,
        duration_ms=_took_ms(reply),
        generation=question.task.generation,
        attempt=attempt,
        usage=reply.usage,
        cost_usd=reply.cost_usd,
        billed_usd=reply.cost_usd,
        calls=calls,
        workspace=workspace,
        error=error,
    )


def _took_ms(reply: Reply) -> float:
    return round((reply.ended_at - reply.started_at).total_seconds() * 1000, 3)


def _source_to_json(source: CachedFrom) -> JsonObject:
    return {"key": source.key, "at": source.at.isoformat(), "run_id": source.run_id}


def request_to_json(request: ProviderRequest) -> JsonObject:
    """Return what a provider was asked, for the record; what is empty is left out."""
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
