"""The score stage: evaluators score one context, each isolated from the errors of the others."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.judges import may_cost_money
from agentv.engine.planning.targets import KnownTargets
from agentv.evaluators.isolation import PreparedEvaluator, config_of, isolated_score
from agentv.scoring.results.aggregation import to_result
from agentv.scoring.results.criteria import weight_in
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.protocols import SharedParts
from agentv.types.provider import Embedder, Provider
from agentv.types.scales import EvaluationCriteria
from agentv.types.stored import to_ms

DEFAULT_EVALUATOR_TIMEOUT_S = 60.0


class SuiteTools(Struct, frozen=True):
    """The tools of one suite's evaluators: judges and embedders by name, stored answers, and other evaluators."""

    runtime: Runtime
    known: KnownTargets
    timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    only_free: bool = False
    """True if evaluators that cost money are skipped."""

    @property
    def shared(self) -> SharedParts:
        """Parts shared by all evaluators of the process."""
        return self.runtime.shared

    def judge(self, target_name: str) -> Provider:
        """Return the named target as a judge."""
        return self.runtime.provider(self.known.get(target_name))

    def embedder(self, model: str | JsonObject) -> Embedder:
        """Return the embedder of a target, which is named or given inline."""
        return self.runtime.embedder(self.known.embedding_target(model))

    async def recorded_answer(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        """Return the answer of a stored run to the context's case."""
        return await self.runtime.recorded_answers.text(run, context, base_dir=base_dir)

    def make_evaluator(self, evaluator: EvaluatorLike) -> object:
        """Return an evaluator: a given object, or one made from a config. Its warnings become notes of the run."""
        made = self.runtime.evaluator(evaluator, self) if isinstance(evaluator, EvaluatorConfig) else evaluator
        for warning in getattr(made, "warnings", ()):
            self.runtime.note(f"evaluator {config_of(evaluator).name!r}: {warning}")
        return made

    async def score(
        self, context: EvaluationContext, evaluators: Sequence[EvaluatorLike]
    ) -> tuple[EvaluatorResult, ...]:
        """Return one result per evaluator, in order. Never raises for an evaluator's own failure."""
        return await run_evaluators(context, self.prepare(evaluators, context.criteria))

    def prepare(
        self, evaluators: Iterable[EvaluatorLike], criteria: tuple[EvaluationCriteria, ...]
    ) -> tuple[PreparedEvaluator, ...]:
        """Return evaluators that are ready to judge any number of answers by these criteria."""
        return tuple(self._prepare_evaluator(evaluator, criteria) for evaluator in evaluators)

    def _prepare_evaluator(
        self, evaluator: EvaluatorLike, criteria: tuple[EvaluationCriteria, ...]
    ) -> PreparedEvaluator:
        config = config_of(evaluator)
        if criteria:
            config = replace(config, weight=weight_in(criteria, config))
        files = tuple(self.runtime.files_of(evaluator)) if isinstance(evaluator, EvaluatorConfig) else ()
        self.runtime.watched_files.add(files)
        return PreparedEvaluator(
            config,
            make=partial(self.make_evaluator, evaluator),
            timeout_s=config.timeout_s or self.timeout_s,
            is_skipped=self.only_free and costs_money(config, self.runtime, self.known),
            files=files,
            watched=self.runtime.watched_files,
        )


async def run_evaluators(
    context: EvaluationContext,
    evaluators: Sequence[PreparedEvaluator],
    *,
    concurrency: int = 1,
) -> tuple[EvaluatorResult, ...]:
    """Return one result per evaluator, in order.

    At most `concurrency` evaluators judge at once. An evaluator that fails gets a result with its error.
    """
    if concurrency <= 1:
        one_by_one = []
        for each in evaluators:  # a comprehension would be a coroutine of its own (bench/echo_cases.py)
            one_by_one.append(await _run_evaluator(context, each))  # noqa: PERF401
        return tuple(one_by_one)
    results: list[EvaluatorResult | None] = [None] * len(evaluators)
    positions = iter(range(len(evaluators)))

    async def work() -> None:
        for position in positions:
            results[position] = await _run_evaluator(context, evaluators[position])

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(concurrency, len(evaluators))):
            tasks.create_task(work())
    return tuple(result for result in results if result is not None)


async def _run_evaluator(context: EvaluationContext, evaluator: PreparedEvaluator) -> EvaluatorResult:
    config = evaluator.config
    if evaluator.is_skipped:
        return EvaluatorResult(name=config.name, type=config.type, score=0.0, status="skipped", weight=0.0)
    started = time.perf_counter()
    score = await isolated_score(evaluator, context)
    return to_result(score, config, duration_ms=to_ms(time.perf_counter() - started))


def costs_money(config: EvaluatorConfig, runtime: Runtime, known: KnownTargets) -> bool:
    """Return True if an evaluator may cost money: by its type, or because it calls a judge or a paid model."""
    specs = runtime.specs.evaluators
    if config.type not in specs:
        return False
    return may_cost_money(specs.get(config.type), runtime.settings(config), known)
