"""What one target's rows come to: counts, costs, and how long it took to answer."""

import math

from msgspec import Struct, field

from agentv.scoring.durations import Durations, percentile_interval_us, percentile_us
from agentv.scoring.tallies import Tally
from agentv.scoring.trial_rates import trial_summaries
from agentv.types.evaluation import EvaluatorResult
from agentv.types.intervals import Interval
from agentv.types.records.result import CaseResult
from agentv.types.results import RowState
from agentv.types.summaries import TargetSummary
from agentv.types.usage import Usage


class _Spending(Struct):
    """Usage and cost of some calls. One call whose cost nobody knows makes the sum unknown (None): it is not free."""

    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0

    def add(self, usage: Usage | None, cost_usd: float | None, *, called: bool) -> None:
        if usage is not None:
            self.usage += usage
        if cost_usd is not None and self.cost_usd is not None:
            self.cost_usd += cost_usd
        elif cost_usd is None and (called or usage is not None):
            self.cost_usd = None


class TargetTally(Struct):
    """Adds up the rows of one target."""

    rows: Tally = field(default_factory=Tally)
    latencies: Durations = field(default_factory=Durations)
    target: _Spending = field(default_factory=_Spending)
    judge: _Spending = field(default_factory=_Spending)
    saved_usd: float = 0.0
    """What was not billed, because an answer or a judge's reply came from the cache."""

    def add(self, result: CaseResult, state: RowState, case: int | None) -> None:
        """Add how long a row took and what it cost; into `rows` it comes with others of its kind."""
        if result.duration_ms is not None and state != "error":
            self.latencies.add(result.duration_ms / 1000, case)
        is_answered = result.error is None or result.error.stage == "evaluator"
        self.target.add(result.target_usage, result.target_cost_usd, called=is_answered)
        if result.cached:
            self.saved_usd += result.target_cost_usd or 0.0
        if _has_judge(result):
            self._spend_on_judges(result)

    def _spend_on_judges(self, result: CaseResult) -> None:
        unpriced = any(map(_has_unpriced_call, result.evaluator_results))
        self.judge.add(result.judge_usage, None if unpriced else result.judge_cost_usd, called=unpriced)
        self.saved_usd += saved_by_judges(result)


def target_summary(name: str, tally: TargetTally) -> TargetSummary:
    """Return what is told of a target."""
    return TargetSummary(
        target=name,
        counts=dict(tally.rows.counts),
        mean_score=tally.rows.mean,
        pass_rate=tally.rows.pass_rate,
        target_cost_usd=tally.target.cost_usd,
        judge_cost_usd=tally.judge.cost_usd,
        target_usage=tally.target.usage,
        judge_usage=tally.judge.usage,
        latency_median_s=_percentile_s(tally.latencies, 0.5),
        latency_p95_s=_percentile_s(tally.latencies, 0.95),
        saved_usd=tally.saved_usd,
        pass_rate_interval=tally.rows.pass_rate_interval,
        mean_interval=tally.rows.mean_interval,
        latency_median_interval=latency_interval([tally.latencies], 0.5),
        latency_p95_interval=latency_interval([tally.latencies], 0.95),
        trials=trial_summaries(tally.rows),
    )


def latency_interval(latencies: list[Durations], share: float, *, per_unit: float = 1_000_000) -> Interval | None:
    """Return the 95 % interval of a percentile of durations; a unit is that many microseconds."""
    bounds = percentile_interval_us(latencies, share)
    return None if bounds is None else Interval(bounds[0] / per_unit, bounds[1] / per_unit, "order-statistics")


def _percentile_s(latencies: Durations, share: float) -> float | None:
    found_us = percentile_us([latencies], share)
    return None if found_us is None else found_us / 1_000_000


def _has_judge(result: CaseResult) -> bool:
    """Whether more than rules may have judged a row. Where none has, as is usual, there is nothing to add up."""
    if result.judge_usage is not None or result.judge_cost_usd is not None:
        return True
    for each in result.evaluator_results:  # noqa: SIM110 - `any` takes twice as long over one or two
        if each.judge_calls or each.evaluator_results:
            return True
    return False


def saved_by_judges(result: CaseResult | EvaluatorResult) -> float:
    """Return how many dollars of a row's judges were not billed, because their replies came from the cache."""
    calls = result.judge_calls if isinstance(result, EvaluatorResult) else ()
    own = math.fsum(call.cost_usd or 0.0 for call in calls if call.cached)
    return own + math.fsum(map(saved_by_judges, result.evaluator_results))


def _has_unpriced_call(result: EvaluatorResult) -> bool:
    """Whether an evaluator, or a member of it, asked a judge at a cost that nobody knows."""
    unpriced = any(call.cost_usd is None and not call.cached for call in result.judge_calls)
    return unpriced or any(map(_has_unpriced_call, result.evaluator_results))
