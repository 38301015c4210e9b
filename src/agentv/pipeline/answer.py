"""The answer stage: ask a target, or say in one well-named failure why it did not answer."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from agentv.pipeline.capture import Cleaner
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.prompt import build_prompt
from agentv.pipeline.resilience import ResilientProvider
from agentv.pipeline.toolbox import Toolbox
from agentv.scoring.identity import answer_key, question_key, target_key
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError
from agentv.types.evaluation import PromptInputs
from agentv.types.failures import Failure
from agentv.types.provider import CallRecord, ProviderRequest, ProviderResponse
from agentv.types.results import Answer, Slot

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


@dataclass(frozen=True, slots=True)
class Prepared:
    """An answer that a batch brought, and how long the batch took: from then to then it was waited for."""

    outcome: ProviderResponse | Failure
    started_at: datetime
    ended_at: datetime


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


async def answer_case(
    question: Question,
    *,
    toolbox: Toolbox,
    prepared: Prepared | None = None,
    on_retry: OnRetry | None = None,
) -> Answer:
    """Return the target's answer. `prepared` is what a batch already brought for this case.

    Never raises for a failure of the target: that is the answer's `error`.
    """
    task = question.task
    provider = toolbox.provider(task.target)
    calls: tuple[CallRecord, ...] = ()
    if prepared is None:
        started_at = toolbox.clock()
        outcome, calls = await _ask(provider, question, on_retry)
        prepared = Prepared(outcome, started_at, toolbox.clock())
    started_at, ended_at, outcome = prepared.started_at, prepared.ended_at, prepared.outcome
    cleaner = Cleaner(task.target.secrets, task.suite.redact)
    answer = Answer(
        slot=question.slot,
        answer_key=answer_key(question_key(question.case), target_key(task.target), task.trial),
        text="",
        started_at=started_at,
        ended_at=ended_at,
        duration_ms=(ended_at - started_at).total_seconds() * 1000,
        generation=task.generation,
        attempt=max(0, len(calls) - 1) if provider.counts_attempts else 0,
        calls=calls,
    )
    if isinstance(outcome, Failure):
        return replace(answer, error=cleaner.failure(outcome))
    response = cleaner.response(outcome)
    for note in response.notes:
        toolbox.note(f"target {task.target.name!r}: {note}")
    return _with_response(answer, response, repaired=cleaner.repaired)


async def _ask(
    provider: ResilientProvider, question: Question, on_retry: OnRetry | None
) -> tuple[ProviderResponse | Failure, tuple[CallRecord, ...]]:
    timeout_s = question.task.timeout_s
    try:
        response = await provider.invoke_within(question.request, total_s=timeout_s, on_retry=on_retry)
    except ProviderError as error:
        return error.failure, error.calls
    except Exception as error:  # noqa: BLE001 - plug-in code: its fault is this row's result, never the run's end
        return Failure("plugin_error", f"{type(error).__name__}: {error}"), ()
    return response, response.calls


def _with_response(answer: Answer, response: ProviderResponse, *, repaired: bool) -> Answer:
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
        repaired=repaired,
    )
