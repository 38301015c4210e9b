"""Criteria evaluators for tests."""

from collections.abc import Sequence

from agentv import EvaluationCriteria, EvaluationInput, EvaluationResult


class Giving:
    """An evaluator that returns the same results for every answer."""

    type = "Giving"

    def __init__(self, *results: EvaluationResult) -> None:
        self.results = results

    def evaluate(self, _given: EvaluationInput, _criteria: Sequence[EvaluationCriteria]) -> Sequence[EvaluationResult]:
        return self.results


class Raising:
    """An evaluator that always raises."""

    type = "Raising"

    def evaluate(self, _given: EvaluationInput, _criteria: Sequence[EvaluationCriteria]) -> Sequence[EvaluationResult]:
        raise RuntimeError("out of order")
