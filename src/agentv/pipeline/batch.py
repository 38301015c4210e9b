"""Targets that answer many cases with one call: the batch goes first, single calls are the fallback."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice

from agentv.pipeline.answer import Prepared, make_question
from agentv.pipeline.plan import CaseTask
from agentv.pipeline.toolbox import Toolbox
from agentv.types.cases import EvalCase
from agentv.types.errors import ProviderError
from agentv.types.protocols import Clock
from agentv.types.provider import BatchProvider
from agentv.types.targets import ResolvedTarget


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What a batch brought, by case id, and what people should know about it. Empty: ask one by one."""

    prepared: Mapping[str, Prepared]
    notes: tuple[str, ...] = ()


def batch_provider(toolbox: Toolbox, target: ResolvedTarget) -> BatchProvider | None:
    """Return the target's provider when it was asked to batch and can; None means one call per case."""
    provider = toolbox.provider(target).provider
    if target.provider_batching and isinstance(provider, BatchProvider) and provider.supports_batch:
        return provider
    return None


def batches(tasks: Iterable[CaseTask], size: int | None) -> Iterator[list[CaseTask]]:
    """Cut tasks into batches: one suite and trial each, at most `size` cases, no id twice."""
    for _, group in groupby(tasks, key=lambda task: (task.suite.path, task.trial)):
        left = iter(group)
        while batch := list(islice(left, size)):
            yield batch


async def answer_batch(provider: BatchProvider, tasks: list[CaseTask], *, clock: Clock) -> BatchOutcome:
    """Ask a whole batch at once. A failed batch is said and costs no case: the fallback is one call per case."""
    requests = [
        make_question(task, task.case, names_files=False).request for task in tasks if isinstance(task.case, EvalCase)
    ]
    if not requests:
        return BatchOutcome({})
    name = tasks[0].target.name
    started_at = clock()
    try:
        answers = await provider.invoke_batch(requests)
    except ProviderError as error:
        note = f"{name}: the batch failed ({error.failure.kind}: {error.failure.message}); asking case by case"
        return BatchOutcome({}, (note,))
    except Exception as error:  # noqa: BLE001 - plug-in code: a batch that breaks falls back to single calls
        note = f"{name}: the batch failed ({type(error).__name__}: {error}); asking case by case"
        return BatchOutcome({}, (note,))
    ended_at = clock()
    prepared = {case_id: Prepared(answer, started_at, ended_at) for case_id, answer in answers.items()}
    missing = [request.eval_case_id for request in requests if request.eval_case_id not in answers]
    if missing:
        note = f"{name}: the batch left out {', '.join(missing)}; asking case by case for these"
        return BatchOutcome(prepared, (note,))
    return BatchOutcome(prepared)
