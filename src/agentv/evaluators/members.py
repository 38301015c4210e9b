"""Runs a composite's members where no run does it: one after another, each one's fault its own."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from agentv.evaluators.isolation import config_of, isolated_score
from agentv.scoring.evaluator_results import to_result
from agentv.types.cases import EvaluatorConfig, EvaluatorLike
from agentv.types.errors import EvaluatorError
from agentv.types.evaluation import EvaluationContext, EvaluatorResult


class ScoreMembers(Protocol):
    """Judges one context with several evaluators; `EvaluatorTools.score` is one."""

    async def __call__(
        self, context: EvaluationContext, evaluators: tuple[EvaluatorLike, ...]
    ) -> tuple[EvaluatorResult, ...]:
        """Return one result per evaluator, in order."""


def member_name(member: EvaluatorLike) -> str:
    """Return a member's name; an object without one is called by its kind. While a file is read it is a mapping."""
    if isinstance(member, Mapping):
        return str(member.get("name", member.get("type")))
    return config_of(member).name


async def score_objects(context: EvaluationContext, evaluators: Sequence[EvaluatorLike]) -> tuple[EvaluatorResult, ...]:
    """Judge with evaluators given as objects. A config needs a run to be made into one, which is said as its error."""
    return tuple([await _score_one(context, evaluator) for evaluator in evaluators])


async def _score_one(context: EvaluationContext, evaluator: EvaluatorLike) -> EvaluatorResult:
    config = config_of(evaluator)

    def make() -> object:
        if isinstance(evaluator, EvaluatorConfig):
            raise EvaluatorError(f"{config.name!r} is no evaluator object; only a run can make one of a config")
        return evaluator

    score = await isolated_score(make, context, config, timeout_s=None)
    return to_result(score, config)
