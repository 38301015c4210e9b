"""A score with who gave it, what it weighs and what it cost: the entry that a row keeps."""

from agentv.scoring.aggregation import verdict_of
from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationScore, EvaluatorResult
from agentv.types.records.fields import milliseconds
from agentv.types.usage import Usage, total_usage


def to_result(score: EvaluationScore, config: EvaluatorConfig, *, duration_ms: float | None = None) -> EvaluatorResult:
    """Return an evaluator's score as a row keeps it. Its verdict is None when nothing was judged."""
    is_judged = score.error is None and score.status != "skipped"
    usage, cost_usd = _spent(score) if score.judge_calls or score.members else (None, None)
    return EvaluatorResult(
        name=config.name,
        type=config.type,
        score=score.score,
        status=score.status,
        weight=config.weight,
        required=config.required,
        verdict=score.verdict or verdict_of(score.score) if is_judged else None,
        hits=score.hits,
        misses=score.misses,
        reasoning=score.reasoning,
        expected_aspect_count=score.expected_aspect_count,
        raw_aspects=score.raw_aspects,
        error=score.error,
        results=score.results,
        evaluator_provider_request=score.evaluator_raw_request,
        judge_calls=score.judge_calls,
        duration_ms=milliseconds(duration_ms),
        usage=usage,
        cost_usd=cost_usd,
        evaluator_results=score.members,
    )


def _spent(score: EvaluationScore) -> tuple[Usage | None, float | None]:
    """Return what the judges used and cost.

    The cost is None when one of them used tokens at an unknown price, or nothing was used.
    """
    calls = [(call.usage, call.cost_usd) for call in score.judge_calls]
    parts = calls + [(member.usage, member.cost_usd) for member in score.members]
    usage = total_usage(usage for usage, _ in parts)
    if any(usage is not None and cost is None for usage, cost in parts):
        return usage, None
    costs = [cost for _, cost in parts if cost is not None]
    return usage, sum(costs) if costs else None
