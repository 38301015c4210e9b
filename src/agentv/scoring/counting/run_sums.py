"""Sums of a run's rows of one suite and target, small enough to store, so that rows need not be read again."""

from collections.abc import Mapping
from typing import TypeAlias

from msgspec import Struct, field

from agentv.scoring.counting.summary import Summary
from agentv.scoring.statistics.intervals import mean_interval, rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import Interval

MetricKey: TypeAlias = tuple[str, str | None, str | None]
"""A metric as a gate writes it: name, argument, field."""

PERCENTILES = ("p50", "p95", "p99")


class MetricValue(Struct, frozen=True):
    """The value of a metric, with its interval, the number of judged rows, and for rates and means their moments."""

    value: float
    judged: int
    interval: Interval | None = None
    moments: ClusterMoments | None = None


class RunSums(Struct, frozen=True):
    """The counts by state, sums over cases, cost and latencies of one suite and target in one run."""

    counts: Mapping[str, int]
    scores: ClusterMoments
    passes: ClusterMoments
    cost_usd: float | None
    """None if a price is unknown."""
    evaluators: Mapping[str, tuple[ClusterMoments, ClusterMoments]] = field(default_factory=dict)
    """The moments of scores and of passes, by the evaluator's name."""
    latencies: Mapping[str, tuple[float, Interval | None]] = field(default_factory=dict)
    """The percentiles in seconds, with their interval, under the keys `p50`, `p95` and `p99`."""

    @classmethod
    def of(cls, summary: Summary) -> "RunSums":
        """Return the sums of a summary."""
        latencies = {}
        for name in PERCENTILES:
            seconds = summary.measure(name, "duration_s", None)
            if seconds is not None:
                latencies[name] = (seconds, summary.interval(name, "duration_s", None))
        return cls(
            counts=dict(summary.all.counts),
            scores=summary.moments("mean", None, None),
            passes=summary.moments("pass_rate", None, None),
            cost_usd=summary.cost_usd,
            evaluators={
                name: (summary.moments("evaluator", name, "mean"), summary.moments("evaluator", name, "pass_rate"))
                for name in sorted(summary.names("evaluator"))
            },
            latencies=latencies,
        )

    @property
    def judged(self) -> int:
        """The number of judged rows."""
        return self.scores.rows

    def measure(self, metric: MetricKey) -> MetricValue | None:
        """Return a metric with its interval, as a report on these rows shows it; None when nothing was measured."""
        match metric:
            case ("mean", _, _):
                return _mean(self.scores)
            case ("pass_rate", _, _):
                return _rate(self.passes)
            case ("evaluator", name, part):
                found = self.evaluators.get(name or "")
                if found is None:
                    return None
                return _rate(found[1]) if part == "pass_rate" else _mean(found[0])
            case ("cost_usd", _, _):
                return None if self.cost_usd is None else MetricValue(self.cost_usd, self.judged)
            case (name, unit, _):
                units_per_s = 1000 if unit == "duration_ms" else 1
                latency = self.latencies.get(name)
                return None if latency is None else _duration(*latency, self.judged, units_per_s)


def _mean(moments: ClusterMoments) -> MetricValue | None:
    return MetricValue(moments.mean, moments.rows, mean_interval(moments), moments) if moments.rows else None


def _rate(moments: ClusterMoments) -> MetricValue | None:
    return MetricValue(moments.mean, moments.rows, rate_interval(moments), moments) if moments.rows else None


def _duration(seconds: float, interval: Interval | None, judged: int, units_per_s: int) -> MetricValue:
    if interval is not None:
        interval = Interval(interval.low * units_per_s, interval.high * units_per_s, interval.method, interval.level)
    return MetricValue(seconds * units_per_s, judged, interval)
