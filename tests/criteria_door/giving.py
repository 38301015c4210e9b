"""Evaluators of the criteria door's own shape for tests."""

from collections.abc import Sequence

from agentv import EvaluationCriteria, EvaluationInput, EvaluationResult


class Giving:
    """Gives the same results for every answer."""

    type = "Giving"

    def __init__(self, *results: EvaluationResult) -> None:
        self.results = results

    def evaluate(self, _given: EvaluationInput, _criteria: Sequence[EvaluationCriteria]) -> Sequence[EvaluationResult]:
        return self.results


class Raising:
    """Is out of order."""

    type = "Raising"

    def evaluate(self, _given: EvaluationInput, _criteria: Sequence[EvaluationCriteria]) -> Sequence[EvaluationResult]:
        raise RuntimeError("out of order")
