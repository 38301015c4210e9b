"""Evaluators of the criteria door's own shape, `evaluate(input, criteria)`, made into evaluators like others."""

from collections.abc import Awaitable, Sequence
from inspect import iscoroutinefunction

from agentv.types.criteria.aggregated_result import CriteriaEvaluator
from agentv.types.evaluation import EvaluationContext, EvaluationResult, Evaluator


class AdaptedCriteriaEvaluator:
    """Hands an evaluator its context as an EvaluationInput, and its criteria beside it."""

    names_its_criteria = True

    def __init__(self, own: CriteriaEvaluator) -> None:
        self.kind = own.type
        self.name = getattr(own, "name", own.type)
        self.weight = getattr(own, "weight", 1.0)
        # Calling a coroutine function only makes the coroutine, so it needs no thread.
        self.inline = iscoroutinefunction(own.evaluate)
        self._own = own

    def evaluate(
        self, context: EvaluationContext
    ) -> Sequence[EvaluationResult] | Awaitable[Sequence[EvaluationResult]]:
        """Return the evaluator's own results, one for each criterion that it judges."""
        return self._own.evaluate(context.to_input(), context.criteria)


def adapted(given: object) -> object:
    """Return an evaluator for one of the criteria door's own shape; anything else is returned as it is."""
    if isinstance(given, Evaluator | type) or not isinstance(given, CriteriaEvaluator):
        return given
    return AdaptedCriteriaEvaluator(given)
