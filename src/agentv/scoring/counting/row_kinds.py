"""The countable values of a finished row, without its case, so that equal rows are counted together."""

from typing import TypeAlias

from msgspec import Struct

from agentv.types.evaluation import EvaluatorResult, EvaluatorStatus, Verdict, verdict_of
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState

ScoredPart: TypeAlias = tuple[str, RowState, float | None]
"""A part of a row that is counted by itself, such as a criterion: its name, state and score."""


class RowKind(Struct, frozen=True, gc=False):
    """The values that a row is counted by.

    One is created for every row, so it must be fast to create and to hash.
    """

    state: RowState
    score: float | None
    suite: str
    target: str
    dataset: str
    tags: tuple[str, ...]
    evaluators: tuple[tuple[str, str, EvaluatorStatus, Verdict | None, float], ...]
    """The name, type, status, verdict and score of each evaluator."""
    criteria: tuple[tuple[str, float | None, bool], ...]
    """The name and value of each criterion, and whether it has an error."""
    prompt: str | None = None

    def scored_evaluators(self) -> list[tuple[str, str, RowState, float]]:
        """Return name, type, state and score of each evaluator."""
        return [
            (name, type_, _state(status, verdict, score), score)
            for name, type_, status, verdict, score in self.evaluators
        ]

    def scored_criteria(self) -> list[ScoredPart]:
        """Return the criteria with a value or an error; a criterion on a scale that cannot be averaged has neither."""
        return [
            (name, "error", None) if has_error or value is None else (name, verdict_of(value), value)
            for name, value, has_error in self.criteria
            if has_error or value is not None
        ]


def kind_of(row: CaseResult, state: RowState) -> RowKind:
    """Return the kind of a row; `state` is what aggregation.row_state returns for it."""
    evaluators, criteria = [], []
    for each in row.evaluator_results:
        evaluators.append((each.name, each.type, each.status, each.verdict, each.score))
        for criterion in each.results:
            criteria.append((criterion.criterion_name, criterion.value, criterion.error is not None))  # noqa: PERF401 - quicker for one or two
    slot = row.slot
    return RowKind(
        state=state,
        score=row.score,
        suite=slot.suite,
        target=slot.target,
        dataset=row.dataset,
        tags=row.tags,
        evaluators=tuple(evaluators),
        criteria=tuple(criteria),
        prompt=slot.prompt,
    )


def evaluator_state(result: EvaluatorResult) -> RowState:
    """Return the state of an evaluator's result, as one of the row states."""
    return _state(result.status, result.verdict, result.score)


def _state(status: EvaluatorStatus, verdict: Verdict | None, score: float) -> RowState:
    if status in ("error", "skipped"):
        return status
    return verdict or verdict_of(score)
