"""The words and numbers of trends, the same in every format."""

from datetime import datetime

from agentv.reports.amounts import (
    count_text,
    money_text,
    percent_interval_text,
    percent_text,
    score_interval_text,
    score_text,
    seconds_text,
)
from agentv.reports.comparison_rows import difference_text
from agentv.scoring.run_sums import MetricKey
from agentv.scoring.trend import TrendPoint, TrendRun
from agentv.types.intervals import Interval

_COMMIT = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_MANY_DAYS = 60


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


def age_text(since: datetime, now: datetime) -> str:
    """Return how long ago something was, in its largest unit: `3 h ago`."""
    seconds = max((now - since).total_seconds(), 0)
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min ago"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h ago"
    days = int(seconds // _DAY_S)
    return f"{count_text(days, 'day')} ago" if days < _MANY_DAYS else f"{since:%Y-%m-%d}"


def commit_text(run: TrendRun) -> str:
    """Return the short commit, `*` behind it when files had been changed since; `-` without one."""
    return "-" if run.commit is None else f"{run.commit[:_COMMIT]}{'*' if run.is_dirty else ''}"


def marks_of(point: TrendPoint) -> list[str]:
    """Return what is to be known of a point beside its number."""
    run = point.run
    marks = [f"[{tag}]" for tag in run.tags]
    if run.parents:
        marks.append(f"merged from {count_text(len(run.parents), 'run')}")
    if run.shard is not None:
        marks.append(f"part {run.shard}")
    if point.measured is not None and run.state != "finished":
        marks.append("being written" if run.state == "running" else f"{run.state} before its end")
    if errors := (point.counts.get("error", 0) if point.measured is not None else 0):
        marks.append(count_text(errors, "error"))
    if point.is_suite_changed:
        marks.append("suite edited")
    if point.runs > 1:
        marks.append(f"newest of {count_text(point.runs, 'run')}")
    return marks
