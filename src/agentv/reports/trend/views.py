"""Trends as text, sheet and JSON: a line of bars per suite and target, its latest value and its changes."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.reports.run.report_json import interval_to_json
from agentv.reports.text.paint import Paint, without_colour
from agentv.reports.text.printable import one_line
from agentv.reports.text.sheet import Part, Sheet
from agentv.reports.text.signs import UNICODE, Signs, sparkline
from agentv.reports.text.table import table
from agentv.reports.text.width import wrap
from agentv.reports.trend.words import RUN_HEAD, TrendWords
from agentv.scoring.comparison.trend import SeriesChange, TrendPoint, TrendSeries
from agentv.types.json_value import JsonObject

_WIDTH = 80
_INDENT = " " * 8


class TrendView(Struct, frozen=True):
    """The layout of trends as text. `width` None: lines are not wrapped, and bars fit 80 columns."""

    words: TrendWords
    width: int | None = _WIDTH
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def render(self, series: Sequence[TrendSeries], *, with_runs: bool = False) -> str:
        """Return all series, each with a table of its runs if requested."""
        blocks = [[*self._block(each), *(["", *self._runs(each)] if with_runs else [])] for each in series]
        return self.signs.escape_unsupported("\n\n".join("\n".join(block) for block in blocks) + "\n")

    def _block(self, series: TrendSeries) -> Iterator[str]:
        yield from (self.paint(line, "bold") for line in self._wrapped(self.words.title(series), ""))
        yield from self._bars(series)
        yield from self._labelled("runs", self.words.extent(series))
        yield from self._labelled("last", self.words.last(series))
        if series.last is not None:
            yield from self._wrapped(self.words.about(series.last), _INDENT)
        for change in series.changes:
            yield from self._labelled("change", self.words.change(series, change))
        if edits := self.words.edits(series):
            yield from self._labelled("edited", edits)
        for gap in self.words.gaps(series):
            yield from self._labelled("gap", gap)

    def _bars(self, series: TrendSeries) -> Iterator[str]:
        """Yield the bars and the marks below them; only the newest if not all fit."""
        points = series.points[-((self.width or _WIDTH) - len(_INDENT)) :]
        values = [None if each.measured is None else each.measured.value for each in points]
        yield f"{_INDENT}{sparkline(values, self.signs)}"
        first = len(series.points) - len(points)
        changed = {change.at - first for change in series.changes}
        marks = "".join(
            "^" if number in changed else "|" if point.is_suite_changed else " " for number, point in enumerate(points)
        ).rstrip()
        if marks:
            yield f"{_INDENT}{marks}"

    def _runs(self, series: TrendSeries) -> Iterator[str]:
        """Yield a table of the points and notes on some of them."""
        yield from table([RUN_HEAD, *map(self.words.row, series.points)], self.width, self.paint)
        for note in self.words.notes(series):
            yield from self._wrapped(note, "")

    def _labelled(self, label: str, text: str) -> Iterator[str]:
        first, *others = self._wrapped(text, _INDENT)
        yield f"{label:<{len(_INDENT)}}{first.removeprefix(_INDENT)}"
        yield from others

    def _wrapped(self, text: str, indent: str) -> list[str]:
        shown = one_line(text)
        lines = [shown] if self.width is None else wrap(shown, max(self.width - len(indent), 1))
        return [f"{indent}{line}" for line in lines]


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
    run, found = point.run, point.measured
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
        "value": None if found is None else found.value,
        "judged": None if found is None else found.judged,
        "interval": None if found is None else interval_to_json(found.interval),
        "difference": point.difference,
        "gap": point.gap,
        "suite_edited": point.is_suite_changed,
        "runs": point.runs,
    }


def _change_to_json(series: TrendSeries, change: SeriesChange) -> JsonObject:
    return {
        "run_id": series.points[change.at].run.run_id,
        "before": change.before,
        "after": change.after,
        "p": change.p,
    }


def trend_sheet(series: TrendSeries, words: TrendWords) -> Sheet:
    """Return a series as a sheet: its bars, latest value, changes and runs."""
    values = [None if point.measured is None else point.measured.value for point in series.points]
    rows = (RUN_HEAD, *map(words.row, series.points))
    return Sheet(
        words.title(series),
        f"{sparkline(values, UNICODE)}  {words.last(series)}",
        (Part("", notes=tuple(_notes(series, words))), Part("runs", rows, notes=tuple(words.notes(series)))),
    )


def _notes(series: TrendSeries, words: TrendWords) -> Iterator[str]:
    yield words.extent(series)
    if series.last is not None:
        yield words.about(series.last)
    for change in series.changes:
        yield f"change: {words.change(series, change)}"
    if edits := words.edits(series):
        yield f"edited: {edits}"
