"""The score stage: evaluators judge one context, one after another, each isolated from the others' faults."""

import asyncio
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace

from agentv.execution.threads import call_in_thread
from agentv.pipeline.judges import judge_targets, needs_judge
from agentv.pipeline.targets import KnownTargets
from agentv.pipeline.toolbox import Toolbox
from agentv.scoring.completion import failed_score, score_of_failure, to_score
from agentv.scoring.evaluator_results import to_result
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import AgentvError, EvaluatorError, ProviderError
from agentv.types.evaluation import EvaluationContext, EvaluationScore, Evaluator, EvaluatorOutput, EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.protocols import SharedParts
from agentv.types.provider import Provider

DEFAULT_EVALUATOR_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class SuiteTools:
    """What evaluators of one suite may use: its judges by name, and each other."""

    toolbox: Toolbox
    known: KnownTargets
    timeout_s: float = DEFAULT_EVALUATOR_TIMEOUT_S
    only_free: bool = False

    @property
    def shared(self) -> SharedParts:
        """Parts shared by all evaluators of the process."""
        return self.toolbox.shared

    def judge(self, target_name: str) -> Provider:
        """Return the named target as a judge."""
        return self.toolbox.provider(self.known.get(target_name))

    async def score(
        self, context: EvaluationContext, evaluators: Sequence[EvaluatorLike]
    ) -> tuple[EvaluatorResult, ...]:
        """Judge one context with several evaluators, in order."""
        return await score_context(context, evaluators, tools=self)


async def score_context(
    context: EvaluationContext, evaluators: Sequence[EvaluatorLike], *, tools: SuiteTools
) -> tuple[EvaluatorResult, ...]:
    """Return one result per evaluator, in order. Never raises for an evaluator's own failure."""
    return tuple([await _score_one(context, evaluator, tools) for evaluator in evaluators])


async def _score_one(context: EvaluationContext, evaluator: EvaluatorLike, tools: SuiteTools) -> EvaluatorResult:
    config = _config_of(evaluator)
    if tools.only_free and _costs(config, tools):
        return EvaluatorResult(config.name, config.type, 0.0, status="skipped", weight=0.0)
    clock = tools.toolbox.clock
    started = clock()
    score = await _isolated(replace(context, evaluator=config), evaluator, config, tools)
    duration_ms = (clock() - started).total_seconds() * 1000
    return to_result(score, config, duration_ms=duration_ms)


def _config_of(evaluator: EvaluatorLike) -> EvaluatorConfig:
    """Return an evaluator's config; one given as an object may carry `name` and `weight`."""
    if isinstance(evaluator, EvaluatorConfig):
        return evaluator
    name, weight = getattr(evaluator, "name", None), getattr(evaluator, "weight", None)
    return EvaluatorConfig(
        name=name if isinstance(name, str) else evaluator.kind,
        type=evaluator.kind,
        weight=float(weight) if isinstance(weight, int | float) else 1.0,
    )


def _costs(config: EvaluatorConfig, tools: SuiteTools) -> bool:
    """Whether an evaluator may cost money: by its kind, or because its settings ask a judge."""
    specs = tools.toolbox.specs.evaluators
    if config.type not in specs:
        return False
    settings = tools.toolbox.settings(config)
    return specs.get(config.type).cost == "paid" or needs_judge(settings) or any(judge_targets(settings))


async def _isolated(
    context: EvaluationContext, evaluator: EvaluatorLike, config: EvaluatorConfig, tools: SuiteTools
) -> EvaluationScore:
    """Run one evaluator; whatever it raises becomes its own error."""
    timeout_s = config.timeout_s or tools.timeout_s
    try:
        live = tools.toolbox.evaluator(config, tools) if isinstance(evaluator, EvaluatorConfig) else evaluator
        if not isinstance(live, Evaluator):
            return failed_score(f"{type(live).__name__} is no evaluator: it needs `kind` and `evaluate(context)`")
        for warning in getattr(live, "warnings", ()):
            tools.toolbox.note(f"evaluator {config.name!r}: {warning}")
        output = await _run(live, context, timeout_s)
    except EvaluatorError as error:
        return score_of_failure(error.failure)
    except ProviderError as error:
        return failed_score(f"judge: {error.failure.message}", kind="judge_error")
    except TimeoutError:
        return failed_score(f"no judgement within {timeout_s:g} s", kind="deadline")
    except AgentvError as error:
        return failed_score(str(error), kind="config_error")
    except Exception as error:  # noqa: BLE001 - plug-in code: its fault is its own result, never the run's end
        return score_of_failure(_fault(error))
    return to_score(
        output, name=config.criterion or config.name, kind=config.type, criteria=context.criteria, negate=config.negate
    )


def _fault(error: Exception) -> Failure:
    """Return what a plug-in's exception says, with the line of its own code where it was raised."""
    where = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        where = f" ({code.co_filename}:{trace.tb_lineno})"
        trace = trace.tb_next
    return Failure(kind="evaluator_error", message=f"{type(error).__name__}: {error}{where}", stage="evaluator")


async def _run(evaluator: Evaluator, context: EvaluationContext, timeout_s: float) -> EvaluatorOutput:
    """Call an evaluator: quick ones of ours in place, coroutines under a deadline, other functions in a thread."""
    if getattr(evaluator, "inline", False) or inspect.iscoroutinefunction(evaluator.evaluate):
        output = evaluator.evaluate(context)
    else:
        output = await call_in_thread(evaluator.evaluate, context, timeout_s=timeout_s)
    if inspect.isawaitable(output):
        async with asyncio.timeout(timeout_s):
            output = await output
    return output
