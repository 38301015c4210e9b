"""Adapter for evaluators with the signature `evaluate(input, criteria)`, as the criteria API takes them."""

from collections.abc import Awaitable, Sequence
from inspect import iscoroutinefunction

from agentv.types.criteria.aggregated_result import CriteriaEvaluator
from agentv.types.evaluation import EvaluationContext, EvaluationResult, Evaluator


class AdaptedCriteriaEvaluator:
    """An adapter that calls an evaluator with the context as an EvaluationInput, and the criteria."""

    names_its_criteria = True

    def __init__(self, wrapped: CriteriaEvaluator) -> None:
        self.kind = wrapped.type
        self.name = getattr(wrapped, "name", wrapped.type)
        self.weight = getattr(wrapped, "weight", 1.0)
        # Calling a coroutine function only makes the coroutine, so it needs no thread.
        self.inline = iscoroutinefunction(wrapped.evaluate)
        self._wrapped = wrapped

    def evaluate(
        self, context: EvaluationContext
    ) -> Sequence[EvaluationResult] | Awaitable[Sequence[EvaluationResult]]:
        """Return the evaluator's own results, one for each criterion that it judges."""
        return self._wrapped.evaluate(context.to_input(), context.criteria)


def adapted(given: object) -> object:
    """Wrap an evaluator with the signature `evaluate(input, criteria)`; return anything else unchanged."""
    if isinstance(given, Evaluator | type) or not isinstance(given, CriteriaEvaluator):
        return given
    return AdaptedCriteriaEvaluator(given)
