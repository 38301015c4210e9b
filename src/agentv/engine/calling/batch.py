"""Targets that answer many cases with one call: the batch goes first, single calls are the fallback."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from agentv.engine.calling.answer import Reply
from agentv.engine.calling.resilience import ResilientProvider
from agentv.engine.planning.plan import CaseTask
from agentv.engine.planning.prepared_case import Question, slot_of
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.recorder import RunRecorder
from agentv.execution.backends.local import LocalBackend
from agentv.execution.retry import is_retryable
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError, StorageError
from agentv.types.events import RowLeft
from agentv.types.failures import Failure
from agentv.types.provider import BatchApiProvider, BatchProvider, ProviderResponse
from agentv.types.records.answer import Answer, ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.targets import ResolvedTarget

if TYPE_CHECKING:
    from agentv.engine.calling.batch_api import Keep, NoteEvent


Answered: TypeAlias = tuple[Question, Answer]


class Batching(Struct, frozen=True):
    """How a target is asked for many cases at once. `ask` hands its answers to `keep`; `cut` makes the batches."""

    ask: "Callable[[Sequence[Question], Keep], Awaitable[None]]"
    cut: Callable[[Iterable[CaseTask]], Iterator[list[CaseTask]]]


def batching_of(target: ResolvedTarget, runner: CaseRunner, note: "NoteEvent") -> Batching | None:
    """Return how a target is asked for many cases at once, as it was set up; None means one call per case."""
    resilient = runner.runtime.provider(target)
    provider, size = resilient.provider, target.batch_size
    if isinstance(provider, BatchApiProvider) and provider.uses_batch_api:
        from agentv.engine.calling.batch_api import MOST_IN_BATCH, BatchApi  # noqa: PLC0415 - few targets are asked so

        return Batching(BatchApi(provider, resilient, runner.runtime, note).ask, partial(_cut, size or MOST_IN_BATCH))
    if target.provider_batching and isinstance(provider, BatchProvider) and provider.supports_batch:
        return Batching(partial(_ask_at_once, provider, resilient), partial(_cut_by_suite, size))
    return None


def _cut(size: int | None, tasks: Iterable[CaseTask]) -> Iterator[list[CaseTask]]:
    rest = iter(tasks)
    while batch := list(islice(rest, size)):
        yield batch


def _cut_by_suite(size: int | None, tasks: Iterable[CaseTask]) -> Iterator[list[CaseTask]]:
    """Cut tasks into batches of one suite and trial each: answers come by case id, which must stand once in one."""
    for _, group in groupby(tasks, key=lambda task: (task.suite.path, task.trial)):
        yield from _cut(size, group)


async def _ask_at_once(
    provider: BatchProvider, resilient: ResilientProvider, questions: Sequence[Question], keep: "Keep"
) -> None:
    requests = [question.request for question in questions]
    answers = await resilient.invoke_batch_within(provider, requests, total_s=questions[0].task.timeout_s)
    keep({question.slot: answers[question.case.id] for question in questions if question.case.id in answers})


async def work_off(
    batch: Sequence[CaseTask], batching: Batching, runner: CaseRunner, backend: LocalBackend, recorder: RunRecorder
) -> None:
    """Ask a whole batch, then judge what it answered, and ask by itself what it did not.

    When the run was stopped meanwhile, what is answered is in flight, and finished; the rest is left.
    """
    answered = await _answer(batching, batch, runner)

    async def finish(task: CaseTask) -> CaseResult:
        found = answered.get(slot_of(task))
        return await (runner.run(task) if found is None else runner.finish(*found))

    was_stopped = recorder.stop.state == "stopped"

    def left() -> Iterator[CaseTask]:
        for task in batch:
            slot = slot_of(task)
            if recorder.stop.reason is None or (was_stopped and slot in answered):
                yield task
            elif recorder.stop.state == "stopped":
                recorder.tell(RowLeft(slot))

    await backend.run(finish, left(), recorder.row)


async def _answer(batching: Batching, tasks: Sequence[CaseTask], runner: CaseRunner) -> dict[ResultKey, Answered]:
    """Ask a whole batch and keep every answer as soon as it is there, before any is judged.

    What is missing then, or failed in a way that may pass, is asked by itself: a failed batch costs no case, and is
    told.
    """
    questions = {
        slot_of(task): runner.open(task, task.case)
        for task in tasks
        if isinstance(task.case, EvalCase) and task.stored is None and not runner.has_nothing_to_judge(task)
    }
    if not questions:
        return {}
    clock = runner.runtime.clock
    started_at = clock()
    retry = tasks[0].target.retry
    kept: dict[ResultKey, Answered] = {}
    passing: dict[ResultKey, Failure] = {}

    def keep(answers: Mapping[ResultKey, ProviderResponse | Failure]) -> None:
        ended_at = clock()
        for slot, answer in answers.items():
            if isinstance(answer, Failure) and is_retryable(answer, retry):
                passing[slot] = answer
            else:
                kept[slot] = questions[slot], runner.keep(questions[slot], Reply(answer, started_at, ended_at))

    try:
        await batching.ask(list(questions.values()), keep)
    except ProviderError as error:
        if error.failure.kind != "budget":  # which stops the run
            why = f"{error.failure.kind}: {error.failure.message}"
            runner.tell(tasks[0], f"the batch failed ({why}); asking case by case")
        return kept
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - plug-in code: a batch that breaks falls back to single calls
        runner.tell(tasks[0], f"the batch failed ({type(error).__name__}: {error}); asking case by case")
        return kept
    if missing := {slot: question.case.id for slot, question in questions.items() if slot not in kept}:
        why = "; ".join(sorted({failure.message for failure in passing.values()}))
        names = ", ".join(missing.values())
        runner.tell(
            tasks[0],
            f"the batch has no answer for {names}{f' ({why})' if why else ''}; asking case by case for these",
        )
    return kept
