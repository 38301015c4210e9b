"""From rows to a report: one pass, constant memory but for four bytes a row of its duration."""

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from agentv.scoring.durations import Durations, percentile_us
from agentv.scoring.trial_verdicts import TrialVerdicts
from agentv.types.evaluation import EvaluatorResult
from agentv.types.results import CaseResult, EvaluatorSummary, RowState, TargetSummary
from agentv.types.usage import Usage

HISTOGRAM_BINS = 10
FAILING_KEPT = 10
JUDGED_STATES: tuple[RowState, ...] = ("pass", "borderline", "fail")


def row_state(result: CaseResult) -> RowState:
    """Return which of the five disjoint states a row is in: why there is no verdict, or the verdict."""
    if result.status in ("error", "skipped"):
        return result.status
    return result.verdict or "fail"


@dataclass(slots=True)
class Tally:
    """Counts and score sum of one group of rows."""

    counts: Counter[str] = field(default_factory=Counter)
    score_sum: float = 0.0

    def add(self, state: RowState, score: float | None) -> None:
        """Count one row."""
        self.counts[state] += 1
        if state in JUDGED_STATES and score is not None:
            self.score_sum += score

    @property
    def rows(self) -> int:
        """All rows."""
        return self.counts.total()

    @property
    def judged(self) -> int:
        """Rows that were cleanly judged: the denominator of every rate and mean."""
        return sum(self.counts[state] for state in JUDGED_STATES)

    @property
    def mean(self) -> float | None:
        """Mean score of the judged rows."""
        return self.score_sum / self.judged if self.judged else None

    @property
    def pass_rate(self) -> float | None:
        """Share of the judged rows whose verdict is pass."""
        return self.counts["pass"] / self.judged if self.judged else None

    @property
    def error_rate(self) -> float | None:
        """Share of all rows that have no result."""
        return self.counts["error"] / self.rows if self.rows else None


@dataclass(slots=True)
class _Spending:
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


@dataclass(slots=True)
class _TargetTally:
    rows: Tally = field(default_factory=Tally)
    latencies: Durations = field(default_factory=Durations)
    target: _Spending = field(default_factory=_Spending)
    judge: _Spending = field(default_factory=_Spending)
    saved_usd: float = 0.0


@dataclass(slots=True)
class _EvaluatorTally:
    judged: int = 0
    score_sum: float = 0.0
    errors: int = 0


class Summary:
    """Adds up rows as they finish, and answers what gates and reports ask.

    `suites` are counted apart as well, for gates of their own.
    """

    def __init__(self, suites: Iterable[str] = ()) -> None:
        self._suites = {suite: Summary() for suite in suites}
        self.all = Tally()
        self.histogram = [0] * HISTOGRAM_BINS
        self.failing: list[CaseResult] = []
        self.failing_total = 0
        self._targets: dict[str, _TargetTally] = {}
        self._evaluators: dict[tuple[str, str], _EvaluatorTally] = {}
        self._tags: dict[str, Tally] = {}
        self._trials = TrialVerdicts()

    def add(self, result: CaseResult, *, latency_s: float | None = None) -> None:
        """Count one finished row. `latency_s` is how long the target took to answer."""
        if result.slot.suite in self._suites:
            self._suites[result.slot.suite].add(result, latency_s=latency_s)
        state = row_state(result)
        self.all.add(state, result.score)
        target = self._targets.setdefault(result.slot.target, _TargetTally())
        target.rows.add(state, result.score)
        if latency_s is not None and state != "error":
            target.latencies.add(latency_s)
        target.target.add(result.target_usage, result.target_cost_usd, called=_is_answered(result))
        unpriced = any(map(_has_unpriced_call, result.evaluator_results))
        target.judge.add(result.judge_usage, None if unpriced else result.judge_cost_usd, called=unpriced)
        target.saved_usd += _saved_usd(result)
        for tag in result.tags:
            self._tags.setdefault(tag, Tally()).add(state, result.score)
        for evaluator in result.evaluator_results:
            self._add_evaluator(evaluator)
        if state in JUDGED_STATES and result.score is not None:
            edges = [n / HISTOGRAM_BINS for n in range(1, HISTOGRAM_BINS)]
            self.histogram[bisect_right(edges, result.score)] += 1
        if state not in ("pass", "skipped"):
            self.failing_total += 1
            if len(self.failing) < FAILING_KEPT:
                self.failing.append(result)

    def add_trial(self, result: CaseResult) -> None:
        """Remember a row's verdict, to find cases whose trials disagree; call it only when there are trials."""
        self._trials.add(result.slot, row_state(result))

    def of_suite(self, suite: str) -> "Summary":
        """Return the counts of one of the suites that are counted apart."""
        return self._suites[suite]

    def _add_evaluator(self, evaluator: EvaluatorResult) -> None:
        tally = self._evaluators.setdefault((evaluator.name, evaluator.type), _EvaluatorTally())
        if evaluator.status == "error":
            tally.errors += 1
        elif evaluator.status != "skipped":
            tally.judged += 1
            tally.score_sum += evaluator.score

    @property
    def flaky(self) -> tuple[str, ...]:
        """Cases whose trials have different verdicts, as `id (target)`."""
        return self._trials.flaky

    @property
    def cost_usd(self) -> float | None:
        """What everything cost, targets and judges; None when a price is unknown."""
        parts = [part for tally in self._targets.values() for part in (tally.target.cost_usd, tally.judge.cost_usd)]
        return None if None in parts else math.fsum(part for part in parts if part is not None)

    def targets(self) -> tuple[TargetSummary, ...]:
        """Return one summary per target, in the order they first finished a row."""
        return tuple(_target_summary(name, tally) for name, tally in self._targets.items())

    def evaluators(self) -> tuple[EvaluatorSummary, ...]:
        """Return one summary per evaluator: those of one name and different types are different ones."""
        return tuple(
            EvaluatorSummary(
                name=name,
                type=type_,
                judged=tally.judged,
                mean_score=tally.score_sum / tally.judged if tally.judged else None,
                errors=tally.errors,
            )
            for (name, type_), tally in self._evaluators.items()
        )

    def _evaluator_mean(self, name: str) -> float | None:
        tallies = [tally for (known, _), tally in self._evaluators.items() if known == name]
        judged = sum(tally.judged for tally in tallies)
        return sum(tally.score_sum for tally in tallies) / judged if judged else None

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric (scoring.gates), None when there is nothing to measure."""
        match name:
            case "mean" | "pass_rate" | "error_rate":
                return _of_tally(self.all, name)
            case "errors":
                return float(self.all.counts["error"])
            case "cost_usd":
                return self.cost_usd
            case "tag":
                return _of_tally(self._tags.get(argument or ""), field)
            case "target":
                found = self._targets.get(argument or "")
                return _of_tally(found.rows if found else None, field)
            case "evaluator":
                return self._evaluator_mean(argument or "") if field == "mean" else None
            case _:
                tallies = [tally.latencies for tally in self._targets.values()]
                found_us = percentile_us(tallies, float(name.removeprefix("p")) / 100)
                return None if found_us is None else found_us / (1_000 if argument == "duration_ms" else 1_000_000)


def _is_answered(result: CaseResult) -> bool:
    """Whether the target gave an answer, whatever became of its judgement."""
    return result.error is None or result.error.stage == "evaluator"


def _saved_usd(result: CaseResult) -> float:
    """Return how much of a row's cost was not billed, because its answer or a judge's reply came from the cache."""
    answer = result.target_cost_usd if result.cached else None
    return (answer or 0.0) + saved_by_judges(result)


def saved_by_judges(result: CaseResult | EvaluatorResult) -> float:
    """Return how many dollars of a row's judges were not billed, because their replies came from the cache."""
    calls = result.judge_calls if isinstance(result, EvaluatorResult) else ()
    own = math.fsum(call.cost_usd or 0.0 for call in calls if call.cached)
    return own + math.fsum(map(saved_by_judges, result.evaluator_results))


def _has_unpriced_call(result: EvaluatorResult) -> bool:
    """Whether an evaluator, or a member of it, asked a judge at a cost that nobody knows."""
    unpriced = any(call.cost_usd is None and not call.cached for call in result.judge_calls)
    return unpriced or any(map(_has_unpriced_call, result.evaluator_results))


def _of_tally(tally: Tally | None, name: str | None) -> float | None:
    if tally is None:
        return None
    return {"mean": tally.mean, "pass_rate": tally.pass_rate, "error_rate": tally.error_rate}[name or "mean"]


def _target_summary(name: str, tally: _TargetTally) -> TargetSummary:
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
    )


def _percentile_s(latencies: Durations, share: float) -> float | None:
    found_us = percentile_us([latencies], share)
    return None if found_us is None else found_us / 1_000_000
