"""Batches: calls of a target for many cases at once. Missing answers are requested case by case, where possible."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.answer import CallOutcome
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.planning.plan import AnswerToScore, CaseTask
from agentv.engine.planning.prepared_case import PreparedCase
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.open_case import OpenCase
from agentv.engine.running.recorder import RunRecorder
from agentv.execution.backends.local import LocalBackend
from agentv.execution.retry import is_retryable
from agentv.types.cases import EvalCase
from agentv.types.errors import StorageError
from agentv.types.events import RowLeft
from agentv.types.failures import Failure
from agentv.types.provider import BatchApiProvider, BatchProvider, ProviderError, ProviderResponse
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.targets import ResolvedTarget, RetryPolicy

if TYPE_CHECKING:
    from agentv.engine.calling.batch_api import NoteEvent, SaveAnswers


AnsweredCase: TypeAlias = tuple[OpenCase, Answer]


class Batching(Struct, frozen=True):
    """The batch calls of one target."""

    call: "Callable[[Sequence[PreparedCase], SaveAnswers], Awaitable[None]]"
    """Sends a batch and saves its answers."""
    split: Callable[[Iterable[CaseTask]], Iterator[list[CaseTask]]]
    """Splits tasks into batches."""
    has_fallback: bool = True
    """False if the target cannot be called case by case."""


def sends_batches(target: ResolvedTarget) -> bool:
    """Return True if a target is configured for batches; only its provider knows whether it can send them."""
    return target.provider_batching or getattr(target.settings, "batch_api", False)


def batching_of(target: ResolvedTarget, runner: CaseRunner, note: "NoteEvent") -> Batching | None:
    """Return the batch calls that a target is configured for, or None for one call per case."""
    resilient = runner.runtime.provider(target)
    provider, size = resilient.provider, target.batch_size
    if isinstance(provider, BatchApiProvider) and provider.uses_batch_api:
        from agentv.engine.calling.batch_api import MAX_BATCH_SIZE, BatchApi  # noqa: PLC0415 - few targets use it

        return Batching(
            BatchApi(provider, resilient, runner.runtime, note).call, partial(_split, size or MAX_BATCH_SIZE)
        )
    if target.provider_batching and isinstance(provider, BatchProvider) and provider.supports_batch:
        has_fallback = not getattr(provider, "only_batches", False)
        return Batching(partial(_invoke_batch, provider, resilient), partial(_split_by_suite, size), has_fallback)
    return None


def _split(size: int | None, tasks: Iterable[CaseTask]) -> Iterator[list[CaseTask]]:
    rest = iter(tasks)
    while batch := list(islice(rest, size)):
        yield batch


def _split_by_suite(size: int | None, tasks: Iterable[CaseTask]) -> Iterator[list[CaseTask]]:
    """Split tasks into batches within one suite, prompt and trial, where the case id identifies an answer."""
    for _, group in groupby(tasks, key=lambda task: (task.suite.path, task.slot.prompt, task.trial)):
        yield from _split(size, group)


async def _invoke_batch(
    provider: BatchProvider, resilient: ResilientProvider, cases: Sequence[PreparedCase], save: "SaveAnswers"
) -> None:
    requests = [prepared.request for prepared in cases]
    answers = await resilient.invoke_batch_within(provider, requests, total_s=cases[0].task.timeout_s)
    save({prepared.task.slot: answers[prepared.case.id] for prepared in cases if prepared.case.id in answers})


async def run_batch(
    batch: Sequence[CaseTask], batching: Batching, runner: CaseRunner, backend: LocalBackend, recorder: RunRecorder
) -> None:
    """Call a target with a batch, score its answers, and call it case by case for the answers that are missing.

    A case must not depend on another case of the batch. If the run was stopped during the call of the batch, answered
    cases are still scored, because they are paid for; the others are not started.
    """
    runnable = [task for task in batch if await runner.dependencies.failure(task) is None]
    answered = await _call_batch(batching, runnable, runner)

    async def finish(task: CaseTask) -> CaseResult:
        answered_case = answered.get(task.slot)
        if answered_case is None:
            return await runner.run(task)
        opened, answer = answered_case
        if runner.run_elsewhere is not None:
            return await runner.run(replace(task, stored=AnswerToScore(answer)))
        return await runner.finish(opened, answer)

    # After a stop during the call, all answers are scored; after a stop during the scoring, the rest is not.
    was_stopped = recorder.stop.state == "stopped"

    def remaining() -> Iterator[CaseTask]:
        for task in batch:
            key = task.slot
            if recorder.stop.reason is None or (was_stopped and key in answered):
                yield task
            elif recorder.stop.state == "stopped":
                recorder.emit(RowLeft(key))

    await backend.run(finish, remaining(), recorder.row)


async def _call_batch(
    batching: Batching, tasks: Sequence[CaseTask], runner: CaseRunner
) -> dict[ResultKey, AnsweredCase]:
    """Call a target with a batch and save every answer on arrival, before any is scored. Return the saved answers.

    Cases without an answer, or with a retryable failure, are omitted, so that the caller makes single calls for them.
    If the target answers in batches only, such cases are saved as failures. A failed batch is reported as a note.
    """
    cases = _open_cases(tasks, runner)
    if not cases:
        return {}
    clock = runner.runtime.clock
    started_at = clock()
    retry = tasks[0].target.retry
    saved: dict[ResultKey, AnsweredCase] = {}
    retryable: dict[ResultKey, Failure] = {}

    def save(answers: Mapping[ResultKey, ProviderResponse | Failure]) -> None:
        ended_at = clock()
        for key, answer in answers.items():
            if batching.has_fallback and isinstance(answer, Failure) and _may_help_alone(answer, retry):
                retryable[key] = answer
            else:
                saved[key] = cases[key], cases[key].save(CallOutcome(answer, started_at, ended_at))

    error = await _await_call(batching.call([opened.prepared for opened in cases.values()], save))
    if error is not None:
        failure = error.failure
        if failure.kind != "budget":  # a used-up budget stops the run
            runner.note(tasks[0], f"the batch failed ({failure.kind}: {failure.message}); {_consequence(batching)}")
        if not batching.has_fallback:
            for key, opened in cases.items():
                if key not in saved:
                    partial_response = error.partials.get(opened.prepared.case.id)
                    outcome = _failed_outcome(failure, partial_response, started_at, clock())
                    saved[key] = opened, opened.save(outcome)
        return saved
    if missing := {key: opened.prepared.case.id for key, opened in cases.items() if key not in saved}:
        messages = "; ".join(sorted({failure.message for failure in retryable.values()}))
        reasons = f" ({messages})" if messages else ""
        names = ", ".join(missing.values())
        runner.note(tasks[0], f"the batch has no answer for {names}{reasons}; {_consequence(batching)}")
        if not batching.has_fallback:
            save(dict.fromkeys(missing, Failure("malformed_reply", "the batch has no answer for this case")))
    return saved


def _may_help_alone(failure: Failure, policy: RetryPolicy) -> bool:
    """Return True if a call for a case alone may help after a failure in a batch.

    The cases of a batch share its time, so a call for one of them is no repetition of a call that ran out of time.
    """
    return is_retryable(failure, policy) or (failure.retryable and failure.kind == "target_timeout")


def _open_cases(tasks: Sequence[CaseTask], runner: CaseRunner) -> dict[ResultKey, OpenCase]:
    """Open the cases that a batch can answer: those with one request, which is not answered yet."""
    cases: dict[ResultKey, OpenCase] = {}
    for task in tasks:
        case = task.case
        if not isinstance(case, EvalCase) or case.is_conversation or task.stored is not None:
            continue
        if not runner.has_nothing_to_score(task):
            cases[task.slot] = runner.open(task, case)
    return cases


def _failed_outcome(
    failure: Failure, response: ProviderResponse | None, started_at: datetime, ended_at: datetime
) -> CallOutcome:
    """Return the outcome of one case of a failed batch; `response` is the incomplete response to the case."""
    usage, cost_usd = (None, None) if response is None else (response.usage, response.cost_usd)
    return CallOutcome(failure, started_at, ended_at, usage=usage, cost_usd=cost_usd, partial=response)


async def _await_call(call: Awaitable[None]) -> ProviderError | None:
    """Await a batch call and return its failure, or None if it succeeded."""
    try:
        await call
    except ProviderError as error:
        return error
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - plug-in code: a batch that breaks falls back to single calls
        return ProviderError(Failure("plugin_error", f"{type(error).__name__}: {error}"))
    return None


def _consequence(batching: Batching) -> str:
    """Return what happens to the cases without an answer."""
    return "calling case by case" if batching.has_fallback else "these cases fail: the target answers in batches only"
