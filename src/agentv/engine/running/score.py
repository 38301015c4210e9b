"""The score stage: evaluators score one context, one after another, each isolated from the errors of the others."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.calling.runtime import Runtime
from agentv.engine.planning.judges import embeds_for_money, judge_targets, needs_judge
from agentv.engine.planning.targets import KnownTargets
from agentv.evaluators.isolation import config_of, isolated_score
from agentv.scoring.results.aggregation import to_result
from agentv.scoring.results.criteria import weight_in
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.evaluation import EvaluationContext, EvaluatorResult
from agentv.types.json_value import JsonObject
from agentv.types.protocols import SharedParts
from agentv.types.provider import Embedder, Provider

DEFAULT_EVALUATOR_TIMEOUT_S = 60.0


class SuiteTools(Struct, frozen=True):
    """The tools of one suite's evaluators: its judges and embedders by name, stored answers, and other evaluators."""

    runtime: Runtime
    known: KnownTargets
    timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    only_free: bool = False

    @property
    def shared(self) -> SharedParts:
        """Parts shared by all evaluators of the process."""
        return self.runtime.shared

    def judge(self, target_name: str) -> Provider:
        """Return the named target as a judge."""
        return self.runtime.provider(self.known.get(target_name))

    def embedder(self, model: str | JsonObject) -> Embedder:
        """Return an embedder: of a target by name, or of one given inline."""
        return self.runtime.embedder(self.known.embedding_target(model))

    async def recorded_answer(self, run: str, context: EvaluationContext, *, base_dir: str) -> str:
        """Return the answer of a stored run to the context's case."""
        return await self.runtime.recorded.text(run, context, base_dir=base_dir)

    def make_evaluator(self, evaluator: EvaluatorLike) -> object:
        """Return an evaluator: a given object, or one made from a config. Its warnings become notes of the run."""
        made = self.runtime.evaluator(evaluator, self) if isinstance(evaluator, EvaluatorConfig) else evaluator
        for warning in getattr(made, "warnings", ()):
            self.runtime.note(f"evaluator {config_of(evaluator).name!r}: {warning}")
        return made

    async def score(
        self, context: EvaluationContext, evaluators: Sequence[EvaluatorLike]
    ) -> tuple[EvaluatorResult, ...]:
        """Score one context with several evaluators, in order."""
        return await score_context(context, evaluators, tools=self)


async def score_context(
    context: EvaluationContext, evaluators: Sequence[EvaluatorLike], *, tools: SuiteTools
) -> tuple[EvaluatorResult, ...]:
    """Return one result per evaluator, in order. Never raises for an evaluator's own failure."""
    runtime, due = tools.runtime, []
    for evaluator in evaluators:
        config = config_of(evaluator)
        if context.criteria:
            config = replace(config, weight=weight_in(context.criteria, config))
        is_skipped = tools.only_free and costs_money(config, runtime, tools.known)
        make = None if is_skipped else partial(tools.make_evaluator, evaluator)
        due.append(DueEvaluator(config, make, config.timeout_s or tools.timeout_s))
    return await run_evaluators(context, due, seconds=lambda: runtime.clock().timestamp())


class DueEvaluator(Struct, frozen=True):
    """An evaluator that is about to judge: its config, what makes it (None: it is skipped), and its deadline."""

    config: EvaluatorConfig
    make: Callable[[], object] | None
    timeout_s: float


async def run_evaluators(
    context: EvaluationContext,
    evaluators: Sequence[DueEvaluator],
    *,
    seconds: Callable[[], float],
    concurrency: int = 1,
) -> tuple[EvaluatorResult, ...]:
    """Return one result per evaluator, in order: the judging loop of cases, given answers and single calls.

    At most `concurrency` evaluators judge at once. A failure of one of them is its result. `seconds` is the clock that
    times them.
    """
    if concurrency <= 1:
        return tuple([await _run_evaluator(context, each, seconds) for each in evaluators])
    results: list[EvaluatorResult | None] = [None] * len(evaluators)
    positions = iter(range(len(evaluators)))

    async def work() -> None:
        for position in positions:
            results[position] = await _run_evaluator(context, evaluators[position], seconds)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(min(concurrency, len(evaluators))):
            tasks.create_task(work())
    return tuple(result for result in results if result is not None)


async def _run_evaluator(
    context: EvaluationContext, due: DueEvaluator, seconds: Callable[[], float]
) -> EvaluatorResult:
    config = due.config
    if due.make is None:
        return EvaluatorResult(name=config.name, type=config.type, score=0.0, status="skipped", weight=0.0)
    started = seconds()
    score = await isolated_score(due.make, context, config, timeout_s=due.timeout_s)
    return to_result(score, config, duration_ms=(seconds() - started) * 1000)


def costs_money(config: EvaluatorConfig, runtime: Runtime, known: KnownTargets) -> bool:
    """Return True if an evaluator may cost money: by its type, or because it calls a judge or a paid model."""
    specs = runtime.specs.evaluators
    if config.type not in specs:
        return False
    settings = runtime.settings(config)
    calls_model = needs_judge(settings) or any(judge_targets(settings)) or embeds_for_money(settings, known)
    return specs.get(config.type).cost == "paid" or calls_model
