"""Targets that answer many cases with one call: the batch goes first, single calls are the fallback."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from typing import TypeAlias

from agentv.pipeline.answer import Question, Reply
from agentv.pipeline.case import CaseRunner
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.toolbox import Toolbox
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError
from agentv.types.provider import BatchProvider, ProviderResponse
from agentv.types.results import Answer, Slot
from agentv.types.targets import ResolvedTarget

Answered: TypeAlias = tuple[Question, Answer]


def batches(tasks: Iterable[CaseTask], size: int | None) -> Iterator[list[CaseTask]]:
    """Cut tasks into batches: one suite and trial each, at most `size` cases, so that no id stands twice in one."""
    for _, group in groupby(tasks, key=lambda task: (task.suite.path, task.trial)):
        while batch := list(islice(group, size)):
            yield batch


def batch_provider(toolbox: Toolbox, target: ResolvedTarget) -> BatchProvider | None:
    """Return a target's provider when it was asked to batch and can; None means one call per case."""
    provider = toolbox.provider(target).provider
    if target.provider_batching and isinstance(provider, BatchProvider) and provider.supports_batch:
        return provider
    return None


async def answer_batch(provider: BatchProvider, tasks: Sequence[CaseTask], runner: CaseRunner) -> dict[Slot, Answered]:
    """Ask a whole batch at once and keep every answer as soon as it is there, before any is judged.

    Whatever is missing then is asked by itself: a failed batch costs no case, and is told.
    """
    questions = [
        runner.open(task, task.case)
        for task in tasks
        if isinstance(task.case, EvalCase) and not runner.has_nothing_to_judge(task)
    ]
    if not questions:
        return {}
    target = tasks[0].target
    clock = runner.toolbox.clock
    started_at = clock()
    try:
        answers = await runner.toolbox.provider(target).invoke_batch_within(
            provider, [question.request for question in questions], total_s=tasks[0].timeout_s
        )
    except ProviderError as error:
        runner.tell(tasks[0], f"the batch failed ({error.failure.kind}: {error.failure.message}); asking case by case")
        return {}
    except Exception as error:  # noqa: BLE001 - plug-in code: a batch that breaks falls back to single calls
        runner.tell(tasks[0], f"the batch failed ({type(error).__name__}: {error}); asking case by case")
        return {}
    ended_at = clock()
    kept: dict[Slot, Answered] = {}
    for question in questions:
        answer = answers.get(question.case.id)
        if isinstance(answer, ProviderResponse):
            kept[question.slot] = question, runner.keep(question, Reply(answer, started_at, ended_at))
    missing = [question.case.id for question in questions if question.slot not in kept]
    if missing:
        runner.tell(tasks[0], f"the batch has no answer for {', '.join(missing)}; asking case by case for these")
    return kept
