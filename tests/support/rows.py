"""Rows for tests, from only the values that matter to the test."""

from datetime import UTC, datetime

from agentv.scoring.results.aggregation import row_status
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.usage import Usage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def make_row(
    case: str,
    *,
    score: float | None = 1.0,
    error: Failure | None = None,
    target: str = "t",
    trial: int = 0,
    tags: tuple[str, ...] = (),
    usage: Usage | None = None,
    cost_usd: float | None = None,
    duration_ms: float | None = None,
    is_skipped: bool = False,
) -> CaseResult:
    judged = score is not None and error is None
    evaluator = EvaluatorResult(
        name="tone",
        type="contains",
        score=score or 0.0,
        status="error" if error else "skipped" if is_skipped else "scored",
    )
    return CaseResult(
        run_id="r",
        timestamp=NOW,
        slot=ResultKey("evals/s.yaml", case, target, trial),
        dataset="s",
        status="error" if error else "skipped" if is_skipped else row_status(score or 0.0),
        score=score,
        verdict=verdict_of(score) if judged and score is not None else None,
        tags=tags,
        evaluator_results=(evaluator,),
        usage_by=UsageBy.of(Spent.of(usage, cost_usd)),
        duration_ms=duration_ms,
        error=error,
    )
