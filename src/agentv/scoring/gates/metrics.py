"""The metrics of gates: their arguments, and whether they have an interval. docs/reference/gates.md lists them."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Unit: TypeAlias = Literal["share", "score", "difference", "number"]
"""`share` is 0..1 and shown in percent, `score` 0..1, `difference` -1..1, `number` a count, cost or duration."""

Takes: TypeAlias = Literal["nothing", "name", "duration", "trials"]
"""The argument in brackets after a metric."""

DURATIONS = ("duration_s", "duration_ms")
_UNIT_OF_FIELD: Mapping[str, Unit] = {"mean": "score", "pass_rate": "share", "difference": "difference"}
_RANGES: Mapping[Unit, tuple[float, float]] = {"share": (0, 1), "score": (0, 1), "difference": (-1, 1)}


class Metric(Struct, frozen=True):
    """One metric. A metric that takes a name has `fields`, the quantities measured for that name.

    `has_interval` says that `with 95%` is allowed.
    """

    unit: Unit = "number"
    takes: Takes = "nothing"
    fields: tuple[str, ...] = ()
    has_interval: bool = False

    def unit_of(self, field: str | None) -> Unit:
        """Return the unit of the metric, or of its field."""
        return self.unit if field is None else _UNIT_OF_FIELD[field]

    def forms(self, name: str) -> tuple[str, ...]:
        """Return the forms in which the metric can be written under this name."""
        match self.takes:
            case "name":
                return tuple(f"{name}(NAME).{field}" for field in self.fields)
            case "duration":
                return tuple(f"{name}({each})" for each in DURATIONS)
            case "trials":
                return (f"{name}(K)",)
            case "nothing":
                return (name,)


def range_of(unit: Unit) -> tuple[float, float] | None:
    """Return the lowest and highest value of a unit, None for an unbounded one."""
    return _RANGES.get(unit)


Metrics: TypeAlias = Mapping[str, Metric]
"""Metrics by name: those of one command."""

_MEAN = Metric("score", has_interval=True)
_SHARE = Metric("share", has_interval=True)
_GROUP = Metric(takes="name", fields=("mean", "pass_rate"), has_interval=True)
_PERCENTILE = Metric(takes="duration", has_interval=True)
_TRIALS = Metric("share", takes="trials", has_interval=True)
_NUMBER = Metric()

_OF_ROWS: Metrics = {
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "error_rate": Metric("share"),
    "errors": _NUMBER,
    "cost_usd": _NUMBER,
}
METRICS: Metrics = {
    **_OF_ROWS,
    **dict.fromkeys(("evaluator", "criterion", "tag", "dataset", "target", "prompt"), _GROUP),
    **dict.fromkeys(("p50", "p95", "p99"), _PERCENTILE),
    **dict.fromkeys(("pass_at", "pass_hat"), _TRIALS),
    "regressions": _NUMBER,
}
"""Metrics of a run; `regressions` only with a baseline."""

STREAM_METRICS: Metrics = {
    **_OF_ROWS,
    "criterion": _GROUP,
    **dict.fromkeys(("p50", "p95", "p99"), Metric(takes="duration")),
}
"""Metrics of a stream of existing answers, which has no targets and no tags."""

COMPARE_METRICS: Metrics = {
    "regressions": _NUMBER,
    "improvements": _NUMBER,
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "mean_difference": Metric("difference", has_interval=True),
    "pass_rate_difference": Metric("difference", has_interval=True),
    "evaluator": Metric(takes="name", fields=("mean", "difference"), has_interval=True),
}
"""Metrics of a comparison of two runs: their differences, and the results of the later one."""

TREND_METRICS: Metrics = {
    "mean": _MEAN,
    "pass_rate": _SHARE,
    "cost_usd": _NUMBER,
    **dict.fromkeys(("p50", "p95", "p99"), _PERCENTILE),
    "evaluator": _GROUP,
}
"""Metrics stored for every run, so that they can be followed over many runs."""
