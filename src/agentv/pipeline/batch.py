"""Targets that answer many cases with one call: the batch goes first, single calls are the fallback."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from typing import TypeAlias

from agentv.pipeline.answer import Question, Reply
from agentv.pipeline.batch_api import BatchApi, NoteEvent
from agentv.pipeline.case import CaseRunner
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.resilience import ResilientProvider
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError, StorageError
from agentv.types.failures import Failure
from agentv.types.provider import BatchApiProvider, BatchProvider, ProviderResponse
from agentv.types.results import Answer, Slot
from agentv.types.targets import ResolvedTarget

Answered: TypeAlias = tuple[Question, Answer]
AskBatch: TypeAlias = Callable[[Sequence[Question]], Awaitable[Mapping[Slot, ProviderResponse | Failure]]]


def batches(tasks: Iterable[CaseTask], size: int | None) -> Iterator[list[CaseTask]]:
    """Cut tasks into batches: one suite and trial each, at most `size` cases, so that no id stands twice in one."""
    for _, group in groupby(tasks, key=lambda task: (task.suite.path, task.trial)):
        while batch := list(islice(group, size)):
            yield batch


def batch_asker(target: ResolvedTarget, runner: CaseRunner, note: NoteEvent) -> AskBatch | None:
    """Return how a target is asked for many cases at once, as it was set up; None means one call per case."""
    resilient = runner.toolbox.provider(target)
    provider = resilient.provider
    if isinstance(provider, BatchApiProvider) and provider.uses_batch_api:
        return BatchApi(provider, resilient, runner.toolbox, note).ask
    if target.provider_batching and isinstance(provider, BatchProvider) and provider.supports_batch:
        return partial(_ask_at_once, provider, resilient)
    return None


async def _ask_at_once(
    provider: BatchProvider, resilient: ResilientProvider, questions: Sequence[Question]
) -> Mapping[Slot, ProviderResponse | Failure]:
    """Ask with one call, whose answers come by case id: a batch holds each id once."""
    requests = [question.request for question in questions]
    answers = await resilient.invoke_batch_within(provider, requests, total_s=questions[0].task.timeout_s)
    return {question.slot: answers[question.case.id] for question in questions if question.case.id in answers}


async def answer_batch(ask: AskBatch, tasks: Sequence[CaseTask], runner: CaseRunner) -> dict[Slot, Answered]:
    """Ask a whole batch and keep every answer as soon as it is there, before any is judged.

    Whatever is missing then is asked by itself: a failed batch costs no case, and is told.
    """
    questions = [
        runner.open(task, task.case)
        for task in tasks
        if isinstance(task.case, EvalCase) and not runner.has_nothing_to_judge(task)
    ]
    if not questions:
        return {}
    clock = runner.toolbox.clock
    started_at = clock()
    try:
        answers = await ask(questions)
    except ProviderError as error:
        runner.tell(tasks[0], f"the batch failed ({error.failure.kind}: {error.failure.message}); asking case by case")
        return {}
    except StorageError:
        raise
    except Exception as error:  # noqa: BLE001 - plug-in code: a batch that breaks falls back to single calls
        runner.tell(tasks[0], f"the batch failed ({type(error).__name__}: {error}); asking case by case")
        return {}
    ended_at = clock()
    kept: dict[Slot, Answered] = {}
    for question in questions:
        answer = answers.get(question.slot)
        if isinstance(answer, ProviderResponse):
            kept[question.slot] = question, runner.keep(question, Reply(answer, started_at, ended_at))
    missing = [question.case.id for question in questions if question.slot not in kept]
    if missing:
        runner.tell(tasks[0], f"the batch has no answer for {', '.join(missing)}; asking case by case for these")
    return kept
