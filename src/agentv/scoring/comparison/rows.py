"""A row as comparisons need it: its case and place, its state, and its measures."""

from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct, field

from agentv.scoring.counting.tallies import JUDGED_STATES
from agentv.scoring.results.aggregation import row_state
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState
from agentv.types.usage import Usage

SCORE, PASSED = "score", "pass"
COST, LATENCY, TOKENS = "cost_usd", "latency_s", "tokens"
SPENDING = (COST, LATENCY, TOKENS)
_EVALUATOR = "evaluator:"


class Place(NamedTuple):
    """The position of a row in its run's results.jsonl: line number from 1, first byte, size in bytes."""

    line: int
    offset: int
    size: int


class ScoredRow(Struct, frozen=True):
    """One row.

    `measures` holds its known values by name: a score of 0..1 and whether it passed (1.0 or 0.0) if it was judged, one
    score for each evaluator that judged, cost in dollars, latency in seconds, tokens. `session` is the conversation
    that its case belongs to, if it is known: cases of one session are not independent.
    """

    slot: ResultKey
    state: RowState
    measures: Mapping[str, float] = field(default_factory=dict)
    place: Place | None = None
    session: str | None = None


def evaluator_measure(name: str) -> str:
    """Return the name of an evaluator's score among a row's measures."""
    return f"{_EVALUATOR}{name}"


def evaluator_of(measure: str) -> str | None:
    """Return the evaluator whose score a measure is, None for other measures."""
    return measure.removeprefix(_EVALUATOR) if measure.startswith(_EVALUATOR) else None


def judged_measures(state: RowState, score: float | None) -> dict[str, float]:
    """Return score and pass of a judged row; empty for any other, which must not count as 0."""
    if state not in JUDGED_STATES or score is None:
        return {}
    return {SCORE: score, PASSED: float(state == "pass")}


def tokens_used(*sides: Usage | None) -> float | None:
    """Return the tokens of target and judges together; None when neither reported any."""
    known = [each.total or each.input + each.output for each in sides if each is not None]
    return float(sum(known)) if known else None


def scored_row(result: CaseResult) -> ScoredRow:
    """Return the parts of a row that comparisons need."""
    state = row_state(result)
    measures = judged_measures(state, result.score)
    for each in result.evaluator_results:
        if each.status not in ("error", "skipped"):
            measures[evaluator_measure(each.name)] = each.score
    costs = {
        COST: result.cost_usd,
        LATENCY: None if result.duration_ms is None else result.duration_ms / 1000,
        TOKENS: tokens_used(result.target_usage, result.judge_usage),
    }
    if state not in ("error", "skipped"):
        measures |= {name: value for name, value in costs.items() if value is not None}
    return ScoredRow(result.slot, state, measures, session=result.session)
