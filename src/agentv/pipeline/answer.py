"""The answer stage: ask a target, or say in one well-named failure why it did not answer."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import datetime

from agentv.execution.callables import raised_at
from agentv.pipeline.capture import Cleaner
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.prompt import build_prompt
from agentv.pipeline.toolbox import Toolbox
from agentv.scoring.identity import answer_key, question_key, target_key
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError
from agentv.types.evaluation import PromptInputs
from agentv.types.failures import Failure
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.provider import CachedFrom, CallRecord, ProviderRequest, ProviderResponse
from agentv.types.results import Answer, Slot
from agentv.types.usage import Usage, total_usage

OnRetry = Callable[[CallRecord, float], None]


@dataclass(frozen=True, slots=True)
class Question:
    """A case as one target is asked it."""

    task: CaseTask
    case: EvalCase
    prompt: PromptInputs
    request: ProviderRequest

    @property
    def slot(self) -> Slot:
        """Where the row belongs."""
        return slot_of(self.task)

    @property
    def key(self) -> str:
        """What makes an answer to it the same one as before."""
        return answer_key(question_key(self.case), target_key(self.task.target), self.task.trial)


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back for one question, or why nothing did, and when.

    `calls` are the tries it took; `usage` and `cost_usd` what they spent when none of them brought an answer.
    """

    outcome: ProviderResponse | Failure
    started_at: datetime
    ended_at: datetime
    calls: tuple[CallRecord, ...] = ()
    usage: Usage | None = None
    cost_usd: float | None = None


def slot_of(task: CaseTask) -> Slot:
    """Return where a task's row belongs in the plan."""
    return Slot(task.suite.path, task.case.id, task.target.name, task.trial)


def make_question(task: CaseTask, case: EvalCase, *, names_files: bool) -> Question:
    """Return what a target is asked for one task."""
    prompt = build_prompt(case, names_files=names_files)
    request = ProviderRequest(
        question=prompt.question,
        chat_prompt=prompt.chat_prompt,
        system_prompt=task.target.system_prompt,
        guidelines=prompt.guidelines,
        guideline_files=prompt.guideline_paths,
        input_files=prompt.file_paths,
        eval_case_id=case.id,
        eval_dir=task.suite.base_dir,
        trial=task.trial,
        metadata=case.metadata,
    )
    return Question(task, case, prompt, request)


async def ask(
    question: Question,
    *,
    toolbox: Toolbox,
    on_retry: OnRetry | None = None,
    before_repeat: Callable[[], Awaitable[None]] | None = None,
) -> Reply:
    """Ask the target. Never raises for a failure of the target: that is the reply's outcome."""
    provider = toolbox.provider(question.task.target)
    started_at = toolbox.clock()
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
    return Reply(outcome, started_at, toolbox.clock(), calls, lost, cost_usd)


def make_answer(question: Question, reply: Reply, *, cleaner: Cleaner, counts_attempts: bool) -> Answer:
    """Return the answer that a reply is, cleaned for keeping."""
    task, outcome = question.task, reply.outcome
    answer = Answer(
        slot=question.slot,
        answer_key=question.key,
        text="",
        started_at=reply.started_at,
        ended_at=reply.ended_at,
        duration_ms=(reply.ended_at - reply.started_at).total_seconds() * 1000,
        generation=task.generation,
        attempt=max(0, len(reply.calls) - 1) if counts_attempts else 0,
        calls=cleaner.clean(reply.calls),
    )
    if isinstance(outcome, Failure):
        answer = replace(answer, usage=reply.usage, cost_usd=reply.cost_usd, billed_usd=reply.cost_usd)
        return replace(answer, error=cleaner.clean(outcome))
    text: object = outcome.text
    if not isinstance(text, str):
        message = f"the answer's text is a {type(text).__name__}, not a string"
        return replace(answer, error=Failure("unexpected_shape", message))
    outcome = replace(outcome, calls=(), request=outcome.request or request_to_json(question.request))
    answer = _with_response(answer, cleaner.clean(outcome), cleaner)
    return answer if outcome.cached is None else _as_cached(answer, outcome.cached)


def _as_cached(answer: Answer, source: CachedFrom) -> Answer:
    """Return an answer that was not asked for again: it keeps how long it took and what it cost the first time."""
    cached: JsonObject = {"key": source.key, "at": source.at.isoformat(), "run_id": source.run_id}
    return replace(answer, cached=cached, billed_usd=0.0, duration_ms=source.duration_ms)


def request_to_json(request: ProviderRequest) -> JsonObject:
    """Return what a provider was asked, for the record; what is empty is left out."""
    chat = [{"role": turn.role, "content": turn.content} for turn in request.chat_prompt or ()]
    fields: dict[str, JsonValue] = {
        "system_prompt": request.system_prompt,
        "question": request.question,
        "chat_prompt": chat,
        "guidelines": request.guidelines,
        "guideline_files": list(request.guideline_files),
        "input_files": list(request.input_files),
    }
    return {key: value for key, value in fields.items() if value}


def _with_response(answer: Answer, response: ProviderResponse, cleaner: Cleaner) -> Answer:
    return replace(
        answer,
        text=response.text,
        output_messages=response.output_messages,
        trace=response.trace,
        finish_reason=response.finish_reason,
        session=response.session,
        usage=response.usage,
        cost_usd=response.cost_usd,
        billed_usd=response.cost_usd,
        first_token_ms=response.first_token_ms,
        exit_code=response.exit_code,
        log_paths=response.log_paths,
        request=response.request,
        repaired=cleaner.repaired,
    )
