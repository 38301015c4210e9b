"""Summary of a run's rows for gates and reports, up to date after every row."""

import math
from collections.abc import Collection, Iterable, Sequence

from agentv.scoring.counting.durations import Durations, percentile_us
from agentv.scoring.counting.groups import ALWAYS_BY
from agentv.scoring.counting.row_counts import RowCounts
from agentv.scoring.counting.tallies import (
    Tally,
    latency_interval,
    pooled,
    pooled_interval,
    pooled_moments,
    target_summary,
    trial_moments,
)
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.records.result import CaseResult
from agentv.types.summaries import EvaluatorSummary, GroupSummary, Interval, TargetSummary


class Summary:
    """Adds up rows as they finish, and computes what gates and reports need.

    `suites` are also counted separately, for their own gates. `by` names the kinds of groups that are counted, `named`
    the groups that always get a tally of their own (scoring.groups). `has_targets` says that several targets may answer
    a case, so that their rows form one cluster.
    """

    def __init__(
        self,
        suites: Iterable[str] = (),
        *,
        by: Iterable[str] = ALWAYS_BY,
        named: Collection[tuple[str, str]] = (),
        has_targets: bool = True,
    ) -> None:
        kinds = tuple(by)
        self._suites = {suite: Summary(by=kinds, named=named, has_targets=has_targets) for suite in suites}
        self._counts = RowCounts(kinds, named, has_targets=has_targets)

    def add(self, result: CaseResult, *, has_trials: bool = True) -> None:
        """Count one finished row.

        `has_trials` False promises that each target gets the case only once: then no state is stored for the case.
        """
        self._counts.add(result, has_trials=has_trials)
        if self._suites and result.slot.suite in self._suites:
            self._suites[result.slot.suite].add(result, has_trials=has_trials)

    @property
    def counts(self) -> RowCounts:
        """The counts of every row so far."""
        self._counts.settle()
        return self._counts

    @property
    def all(self) -> Tally:
        """The counts of all rows together."""
        return self.counts.all

    def of_suite(self, suite: str) -> "Summary":
        """Return the counts of one of the `suites`."""
        return self._suites[suite]

    @property
    def flaky(self) -> tuple[str, ...]:
        """Cases whose trials have different verdicts, as `id (target)`."""
        return self.counts.trials.flaky

    @property
    def cost_usd(self) -> float | None:
        """The total cost of targets and judges; None when a price is unknown."""
        parts = [
            part for tally in self.counts.targets.values() for part in (tally.target.cost_usd, tally.judge.cost_usd)
        ]
        return None if None in parts else math.fsum(part for part in parts if part is not None)

    def targets(self) -> tuple[TargetSummary, ...]:
        """Return one summary per target, in the order of their first rows."""
        return tuple(target_summary(name, tally) for name, tally in self.counts.targets.items())

    def evaluators(self) -> tuple[EvaluatorSummary, ...]:
        """Return one summary per evaluator; the same name with another type is another evaluator."""
        return tuple(
            EvaluatorSummary(
                name=name,
                type=type_,
                judged=tally.judged,
                mean_score=tally.mean,
                errors=tally.counts["error"],
                mean_interval=tally.mean_interval,
                pass_rate=tally.pass_rate,
                pass_rate_interval=tally.pass_rate_interval,
            )
            for (name, type_), tally in self.counts.evaluators.items()
        )

    def groups(self) -> tuple[GroupSummary, ...]:
        """Return one summary per counted group, in order of first appearance."""
        return self.counts.groups.summaries()

    def measure(self, name: str, argument: str | None, field: str | None) -> float | None:
        """Return the value of a gate's metric (scoring.gates), None when there is nothing to measure."""
        match name:
            case "errors":
                return float(self.all.counts["error"])
            case "cost_usd":
                return self.cost_usd
            case "p50" | "p95" | "p99":
                found_us = percentile_us(self._latencies(), _share(name))
                return None if found_us is None else found_us / _per_unit(argument)
            case "pass_at" | "pass_hat":
                moments = self._trial_moments(name, argument)
                return moments.mean if moments.rows else None
            case _:
                return pooled(self._tallies(name, argument or ""), field or name)

    def interval(self, name: str, argument: str | None, field: str | None) -> Interval | None:
        """Return the 95 % interval of what `measure` returns; None with too few cases, or for a metric without one.

        Metrics with an interval: rates and means over judged rows, percentiles, pass@k and pass^k.
        """
        match name:
            case "errors" | "error_rate" | "cost_usd":
                return None
            case "p50" | "p95" | "p99":
                return latency_interval(self._latencies(), _share(name), per_unit=_per_unit(argument))
            case "pass_at" | "pass_hat":
                return mean_interval(self._trial_moments(name, argument))
            case _:
                return pooled_interval(self._tallies(name, argument or ""), field or name)

    def names(self, kind: str) -> Collection[str]:
        """Return the counted evaluators, targets, tags, datasets or criteria that rows have."""
        match kind:
            case "target":
                return self.counts.targets.keys()
            case "evaluator":
                return {name for name, _ in self.counts.evaluators}
            case _:
                return self.counts.groups.names(kind)

    def moments(self, name: str, argument: str | None, field: str | None) -> ClusterMoments:
        """Return the sums over cases behind a rate or a mean over judged rows."""
        return pooled_moments(self._tallies(name, argument or ""), field or name)

    def left_out(self, kind: str, name: str) -> int:
        """Return the number of rows or results under that name that have an error."""
        return sum(tally.counts["error"] for tally in self._tallies(kind, name))

    def _trial_moments(self, name: str, k: str | None) -> ClusterMoments:
        return trial_moments(name, int(k or 1), [tally.rows for tally in self.counts.targets.values()])

    def _tallies(self, name: str, argument: str) -> Sequence[Tally]:
        """Return the tallies that a gate measures; evaluators of one name and different types are taken together."""
        match name:
            case "target":
                return [self.counts.targets[argument].rows] if argument in self.counts.targets else []
            case "evaluator":
                return [tally for (known, _), tally in self.counts.evaluators.items() if known == argument]
            case "mean" | "pass_rate" | "error_rate":
                return [self.all]
            case _:
                found = self.counts.groups.get(name, argument)
                return [] if found is None else [found]

    def _latencies(self) -> list[Durations]:
        return [tally.latencies for tally in self.counts.targets.values()]


def _share(percentile: str) -> float:
    """Return `p95` as 0.95."""
    return float(percentile.removeprefix("p")) / 100


def _per_unit(unit: str | None) -> float:
    """Return the number of microseconds in the unit of `duration_ms` or `duration_s`."""
    return 1_000 if unit == "duration_ms" else 1_000_000
