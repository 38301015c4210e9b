"""The numbers of a metric as text."""

from agentv.reports.amounts import (
    money_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
    seconds_text,
)
from agentv.reports.comparison_rows import difference_text
from agentv.scoring.run_sums import MetricKey
from agentv.types.intervals import Interval


class MetricWords:
    """How the numbers of one metric are written."""

    def __init__(self, metric: MetricKey) -> None:
        name, unit, field = metric
        self._kind = "rate" if (field or name) == "pass_rate" else "score"
        if name == "cost_usd":
            self._kind = "cost"
        elif name in ("p50", "p95", "p99"):
            self._kind = "time"
        self._per_s = 1000 if unit == "duration_ms" else 1

    def value(self, value: float) -> str:
        """Return one number."""
        match self._kind:
            case "rate":
                return percent_text(value)
            case "cost":
                return money_text(value)
            case "time":
                return seconds_text(value / self._per_s)
            case _:
                return score_text(value)

    def interval(self, interval: Interval | None) -> str:
        """Return an interval; empty for None."""
        if interval is None:
            return ""
        match self._kind:
            case "rate":
                return percent_interval_text(interval)
            case "time":
                return f"{self.value(interval.low)} to {self.value(interval.high)}"
            case _:
                return score_interval_text(interval)

    def difference(self, difference: float) -> str:
        """Return how far a number moved."""
        match self._kind:
            case "rate":
                return f"{difference_text(difference * 100, decimals=1)} pp"
            case "cost" | "time":
                sign = "+" if difference > 0 else "-" if difference < 0 else ""
                return f"{sign}{self.value(abs(difference))}"
            case _:
                return difference_text(difference)
