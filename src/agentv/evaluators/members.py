"""Runs a composite's members where no run does it: one after another, each one's fault its own."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from agentv.execution.threads import call_in_thread
from agentv.scoring.completion import failed_score, score_of_failure, to_score
from agentv.scoring.evaluator_results import to_result
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, Evaluator, EvaluatorResult


class ScoreMembers(Protocol):
    """Judges one context with several evaluators; `EvaluatorTools.score` is one."""

    async def __call__(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        """Return one result per evaluator, in order."""


def member_name(member: EvaluatorLike) -> str:
    """Return a member's name; an object without one is called by its kind. While a file is read it is a mapping."""
    name = member.get("name") if isinstance(member, Mapping) else getattr(member, "name", None)
    return name if isinstance(name, str) else str(getattr(member, "kind", type(member).__name__))


async def score_objects(context: EvaluationContext, evaluators: Sequence[EvaluatorLike]) -> tuple[EvaluatorResult, ...]:
    """Judge with evaluators given as objects. A config needs a run to be made into one, which is said as its error."""
    return tuple([await _score_one(context, evaluator) for evaluator in evaluators])


async def _score_one(context: EvaluationContext, evaluator: EvaluatorLike) -> EvaluatorResult:
    config = evaluator if isinstance(evaluator, EvaluatorConfig) else _config_of(evaluator)
    score = await _isolated(evaluator, replace(context, evaluator=config))
    name = config.criterion or config.name
    complete = to_score(score, name=name, kind=config.type, criteria=context.criteria, negate=config.negate)
    return to_result(complete, config)


def _config_of(evaluator: EvaluatorLike) -> EvaluatorConfig:
    weight = getattr(evaluator, "weight", 1.0)
    return EvaluatorConfig(name=member_name(evaluator), type=str(getattr(evaluator, "kind", "")), weight=weight)


async def _isolated(evaluator: EvaluatorLike, context: EvaluationContext) -> object:
    if not isinstance(evaluator, Evaluator):
        return failed_score(f"{member_name(evaluator)!r} is no evaluator object; only a run can make one of a config")
    try:
        return await _run(evaluator, context)
    except EvaluatorError as error:
        return score_of_failure(error.failure)
    except Exception as error:  # noqa: BLE001 - a member's fault is its own result, never the composite's
        return failed_score(f"{type(error).__name__}: {error}")


async def _run(evaluator: Evaluator, context: EvaluationContext) -> object:
    if getattr(evaluator, "inline", False) or inspect.iscoroutinefunction(evaluator.evaluate):
        output = evaluator.evaluate(context)
    else:
        output = await call_in_thread(evaluator.evaluate, context, timeout_s=None)
    return await output if inspect.isawaitable(output) else output
