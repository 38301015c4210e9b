"""Trends as documents and JSON: a line of bars per suite and target, its latest value and its changes."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from msgspec import Struct

from agentv.reports.compare.words import EDITED, unfinished_text
from agentv.reports.document.blocks import (
    Axis,
    Cell,
    Details,
    Document,
    Facts,
    Lines,
    Phrase,
    Quote,
    RunLine,
    RunPoint,
    Section,
    Table,
)
from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.amounts import (
    Unit,
    amount_text,
    bounds_text,
    count_text,
    difference_text,
    money_text,
    p_value_text,
)
from agentv.scoring.comparison.trend import SeriesChange, TrendPoint, TrendRun, TrendSeries
from agentv.scoring.counting.run_sums import MetricKey
from agentv.types.json_value import JsonObject
from agentv.types.summaries import Interval


class MetricFormat:
    """The format of a metric's numbers."""

    def __init__(self, metric: MetricKey) -> None:
        name, argument, field = metric
        self.unit: Unit = "share" if (field or name) == "pass_rate" else "score"
        if name == "cost_usd":
            self.unit = "usd"
        elif name in ("p50", "p95", "p99"):
            self.unit = "s"
        self._units_per_s = 1000 if argument == "duration_ms" else 1

    def in_unit(self, value: float) -> float:
        """Return a number of the metric in its `unit`."""
        return value / self._units_per_s if self.unit == "s" else value

    def value(self, value: float) -> str:
        """Return one number."""
        return money_text(value) if self.unit == "usd" else amount_text(self.in_unit(value), self.unit)

    def interval(self, interval: Interval | None) -> str:
        """Return an interval; empty for None."""
        if interval is None:
            return ""
        return bounds_text(self.in_unit(interval.low), self.in_unit(interval.high), self.unit)

    def difference(self, difference: float) -> str:
        """Return a difference with its sign."""
        match self.unit:
            case "share":
                return f"{difference_text(difference * 100, decimals=1)} pp"
            case "usd" | "s":
                sign = "+" if difference > 0 else "-" if difference < 0 else ""
                return f"{sign}{self.value(abs(difference))}"
            case _:
                return difference_text(difference)


RUN_HEADS = ("run", "commit", "value", "95 % CI", "change")
MAX_LISTED = 5
"""The maximum number of listed gaps and of listed edits; the table of runs has all of them."""

_COMMIT_LENGTH = 8
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400
_DATE_FROM_DAYS = 60


class TrendWords(Struct, frozen=True):
    """The sentences of trends of one metric."""

    metric_text: str
    """The metric as the user wrote it."""
    metric: MetricKey
    now: datetime
    """Ages are relative to this time."""
    noun: str = "run"
    """What a point is: a run or a commit."""

    @property
    def numbers(self) -> MetricFormat:
        """The format of the metric's numbers."""
        return MetricFormat(self.metric)

    def title(self, series: TrendSeries) -> str:
        """Return the title of a series: suite, target and metric."""
        return f"{series.suite}, {series.target}: {self.metric_text}"

    def extent(self, series: TrendSeries) -> str:
        """Return the number of points and the range of their values."""
        text = count_text(len(series.points), self.noun)
        if series.gaps:
            text += f", {count_text(series.gaps, 'gap')}"
        known = [each.measured.value for each in series.points if each.measured is not None]
        return f"{text}, {self.numbers.value(min(known))} to {self.numbers.value(max(known))}" if known else text

    def last(self, series: TrendSeries) -> str:
        """Return the latest value with denominator, interval and difference."""
        point, numbers = series.last, self.numbers
        if point is None or point.measured is None:
            return "no run has a value"
        text = f"{numbers.value(point.measured.value)} of {point.measured.judged:,}"
        if point.measured.interval is not None:
            text += f" (95 % CI: {numbers.interval(point.measured.interval)})"
        if point.difference is not None:
            text += f", {numbers.difference(point.difference)} since the previous {self.noun}"
            has_selection = any(each.run.selection for each in series.points)
            text += " with the same cases" if has_selection else ""
        return text

    def about(self, point: TrendPoint) -> str:
        """Return the run of a point with its age, commit and other marks."""
        run = point.run
        parts = [run.run_id, *([run.name] if run.name else []), age_text(run.created_at, self.now)]
        if run.commit is not None:
            parts.append(f"commit {commit_text(run)}")
        return ", ".join([*parts, *marks_of(point)])

    def change(self, series: TrendSeries, change: SeriesChange) -> str:
        """Return a change of the level: the values before and after, and the run."""
        point, numbers = series.points[change.at], self.numbers
        points_since = len(series.points) - 1 - change.at
        ago = f"{count_text(points_since, self.noun)} ago" if points_since else f"the last {self.noun}"
        commit = "" if point.run.commit is None else f", commit {commit_text(point.run)}"
        values = f"{numbers.value(change.before)} -> {numbers.value(change.after)}"
        return f"{values} at {point.run.run_id}{commit}, {ago} (p {p_value_text(change.p)})"

    def edits(self, series: TrendSeries) -> str:
        """Return the runs before which the suite was edited; empty if it was not edited."""
        edited = [point.run.run_id for point in series.points if point.is_suite_changed]
        if not edited:
            return ""
        more = f" and {len(edited) - MAX_LISTED} earlier" if len(edited) > MAX_LISTED else ""
        return f"before {', '.join(edited[-MAX_LISTED:])}{more}; values are not comparable with earlier runs"

    def gaps(self, series: TrendSeries) -> list[str]:
        """Return the newest gaps with their reasons."""
        gaps = [point for point in series.points if point.gap is not None]
        more = [f"and {len(gaps) - MAX_LISTED} earlier; --runs lists them"] if len(gaps) > MAX_LISTED else []
        return [*more, *(f"{point.run.run_id}: {point.gap}" for point in gaps[-MAX_LISTED:])]

    def row(self, point: TrendPoint) -> tuple[str, ...]:
        """Return a point as a table row, in the order of `RUN_HEADS`."""
        numbers, measured = self.numbers, point.measured
        about = (point.run.run_id, commit_text(point.run))
        if measured is None:
            return (*about, "-", "-", "-")
        difference = "-" if point.difference is None else numbers.difference(point.difference)
        value = f"{numbers.value(measured.value)} of {measured.judged:,}"
        return (*about, value, numbers.interval(measured.interval) or "-", difference)

    def notes(self, series: TrendSeries) -> Iterator[str]:
        """Yield the marks and gaps of points that have any."""
        for point in series.points:
            notes = [*marks_of(point), *([] if point.gap is None else [point.gap])]
            if notes:
                yield f"{point.run.run_id}: {', '.join(notes)}"


def age_text(since: datetime, now: datetime) -> str:
    """Return an age in its largest unit: `3 h ago`."""
    seconds = max((now - since).total_seconds(), 0)
    if seconds < _MINUTE_S:
        return "just now"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min ago"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h ago"
    days = int(seconds // _DAY_S)
    return f"{count_text(days, 'day')} ago" if days < _DATE_FROM_DAYS else f"{since:%Y-%m-%d}"


def commit_text(run: TrendRun) -> str:
    """Return the short commit, with `*` for uncommitted changes; `-` without one."""
    return "-" if run.commit is None else f"{run.commit[:_COMMIT_LENGTH]}{'*' if run.is_dirty else ''}"


def marks_of(point: TrendPoint) -> list[str]:
    """Return the marks of a point: tags, shard, selection, errors and so on."""
    run = point.run
    marks = [f"[{tag}]" for tag in run.tags]
    if run.parents:
        marks.append(f"merged from {count_text(len(run.parents), 'run')}")
    if run.shard is not None:
        marks.append(f"shard {run.shard}")
    if run.selection:
        marks.append(f"with {run.selection}")
    if point.measured is not None and run.state != "finished":
        marks.append(unfinished_text(run.state))
    if point.measured is not None and point.counts.get("error"):
        marks.append(count_text(point.counts["error"], "error"))
    if point.is_suite_changed:
        marks.append("suite edited")
    if run.edits:
        marks.append(EDITED)
    if point.runs > 1:
        marks.append(f"newest of {count_text(point.runs, 'run')}")
    return marks


TREND_SCHEMA = "agentv-trend-1"


def trend_to_json(series: Sequence[TrendSeries], metric: str) -> JsonObject:
    """Return all series of a metric, with every point."""
    return {"schema": TREND_SCHEMA, "metric": metric, "series": [_series_to_json(each) for each in series]}


def _series_to_json(series: TrendSeries) -> JsonObject:
    return {
        "suite": series.suite,
        "target": series.target,
        "points": [_point_to_json(point) for point in series.points],
        "changes": [_change_to_json(series, change) for change in series.changes],
    }


def _point_to_json(point: TrendPoint) -> JsonObject:
    run, measured = point.run, point.measured
    return {
        "run_id": run.run_id,
        "name": run.name,
        "created_at": run.created_at.isoformat(),
        "state": run.state,
        "commit": run.commit,
        "dirty": run.is_dirty,
        "tags": list(run.tags),
        "shard": run.shard,
        "selection": run.selection or None,
        "parents": list(run.parents),
        "counts": dict(point.counts),
        "value": None if measured is None else measured.value,
        "judged": None if measured is None else measured.judged,
        "interval": None if measured is None else interval_to_json(measured.interval),
        "difference": point.difference,
        "gap": point.gap,
        "suite_edited": point.is_suite_changed,
        "edits": list(run.edits),
        "runs": point.runs,
    }


def _change_to_json(series: TrendSeries, change: SeriesChange) -> JsonObject:
    return {
        "run_id": series.points[change.at].run.run_id,
        "before": change.before,
        "after": change.after,
        "p": change.p,
    }


def trend_document(series: TrendSeries, words: TrendWords, *, with_runs: bool) -> Document:
    """Return a series as a document: its line, latest value, changes, and on request its runs."""
    blocks = (Section("", (_line(series, words), Facts(tuple(_facts(series, words))))), _runs(series, words))
    return Document(Quote(words.title(series)), blocks if with_runs else blocks[:1])


def _line(series: TrendSeries, words: TrendWords) -> RunLine:
    """Return the points with the changes of their level and the edits of the suite."""
    changed = {change.at for change in series.changes}
    is_of_one_day = len({each.run.created_at.date() for each in series.points}) == 1
    date_format = "%H:%M" if is_of_one_day else "%Y-%m-%d"
    points = (
        _run_point(each, words, date_format, is_changed=number in changed) for number, each in enumerate(series.points)
    )
    return RunLine(Axis(words.metric_text, words.numbers.unit), tuple(points))


def _run_point(point: TrendPoint, words: TrendWords, date_format: str, *, is_changed: bool) -> RunPoint:
    numbers, measured = words.numbers, point.measured
    interval = None if measured is None else measured.interval
    run_id, _, value, bounds, _ = words.row(point)
    shown = (value if interval is None else f"{value} ({bounds})") if measured is not None else point.gap or ""
    return RunPoint(
        run_id,
        None if measured is None else numbers.in_unit(measured.value),
        None if interval is None else (numbers.in_unit(interval.low), numbers.in_unit(interval.high)),
        date=format(point.run.created_at, date_format),
        text=f"{run_id}: {shown}",
        is_changed=is_changed,
        is_edited=point.is_suite_changed,
    )


def _facts(series: TrendSeries, words: TrendWords) -> Iterator[tuple[str, Phrase]]:
    yield "runs", words.extent(series)
    yield "last", words.last(series)
    if series.last is not None:
        yield "", Quote(words.about(series.last))
    for change in series.changes:
        yield "change", words.change(series, change)
    if edits := words.edits(series):
        yield "edited", edits
    for gap in words.gaps(series):
        yield "gap", Quote(gap)


def _runs(series: TrendSeries, words: TrendWords) -> Details:
    rows: list[tuple[Cell, ...]] = [(Quote(run_id), *cells) for run_id, *cells in map(words.row, series.points)]
    blocks = (Table(RUN_HEADS, tuple(rows)), Lines(tuple(map(Quote, words.notes(series)))))
    return Details(f"{count_text(len(rows), words.noun)} in numbers", blocks)
