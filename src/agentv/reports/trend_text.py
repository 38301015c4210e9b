"""Trends as text: a line of bars for each suite and target, where it stands, and where it changed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from agentv.reports.amounts import count_text
from agentv.reports.comparison_rows import chance_text
from agentv.reports.paint import Paint, without_colour
from agentv.reports.printable import one_line
from agentv.reports.signs import UNICODE, Signs
from agentv.reports.sparkline import sparkline
from agentv.reports.table import table
from agentv.reports.text_width import wrap
from agentv.reports.trend_words import MetricWords, age_text, commit_text, marks_of
from agentv.scoring.run_sums import MetricKey
from agentv.scoring.trend import SeriesChange, TrendPoint, TrendSeries

_WIDTH = 80
_INDENT = " " * 8
_GAPS_NAMED = 5
_HEAD = ("run", "commit", "value", "95 %", "change")


@dataclass(frozen=True, slots=True)
class TrendView:
    """How trends of a metric are shown. `width` None means that lines are not broken; bars keep to 80 columns."""

    metric_text: str
    metric: MetricKey
    now: datetime
    width: int | None = _WIDTH
    signs: Signs = UNICODE
    paint: Paint = without_colour

    def render(self, series: Sequence[TrendSeries], *, with_runs: bool = False) -> str:
        """Return all series, each with a table of its runs when that is asked for."""
        blocks = [[*self._block(each), *(["", *self._runs(each)] if with_runs else [])] for each in series]
        return self.signs.within("\n\n".join("\n".join(block) for block in blocks) + "\n")

    @property
    def _words(self) -> MetricWords:
        return MetricWords(self.metric)

    def _block(self, series: TrendSeries) -> Iterator[str]:
        head = f"{series.suite}, {series.target}: {self.metric_text}"
        yield from (self.paint(line, "bold") for line in self._wrapped(one_line(head), ""))
        yield from self._bars(series)
        yield from self._last(series)
        for change in series.changes:
            yield from self._labelled("change", self._change_text(series, change))
        edited = [point for point in series.points if point.is_suite_changed]
        if edited:
            told = ", ".join(point.run.run_id for point in edited[-_GAPS_NAMED:])
            yield from self._labelled("edited", f"the suite, in {told}: not comparable with the runs before")
        yield from self._gaps(series)

    def _bars(self, series: TrendSeries) -> Iterator[str]:
        """Yield the bars, and below them what is marked; the newest where not all fit."""
        room = (self.width or _WIDTH) - len(_INDENT)
        points = series.points[-room:]
        values = [None if each.measured is None else each.measured.value for each in points]
        yield f"{_INDENT}{sparkline(values, self.signs)}"
        first = len(series.points) - len(points)
        changed = {change.at - first for change in series.changes}
        marks = "".join(
            "^" if number in changed else "|" if point.is_suite_changed else " " for number, point in enumerate(points)
        ).rstrip()
        if marks:
            yield f"{_INDENT}{marks}"
        known = [value for value in values if value is not None]
        told = count_text(len(series.points), "run" if not any(p.runs > 1 for p in points) else "commit")
        if series.gaps:
            told += f", {count_text(series.gaps, 'gap')}"
        if known:
            told += f", {self._words.value(min(known))} to {self._words.value(max(known))}"
        yield from self._labelled("runs", told)

    def _last(self, series: TrendSeries) -> Iterator[str]:
        point = series.last
        if point is None or point.measured is None:
            yield from self._labelled("last", "no run was measured")
            return
        told = f"{self._words.value(point.measured.value)} of {point.measured.judged:,}"
        if point.measured.interval is not None:
            told += f" (95 %: {self._words.interval(point.measured.interval)})"
        if point.difference is not None:
            told += f", {self._words.difference(point.difference)} since the run before"
        yield from self._labelled("last", told)
        yield from self._wrapped(self._run_text(point), _INDENT)

    def _run_text(self, point: TrendPoint) -> str:
        run = point.run
        name = [run.name] if run.name else []
        told = [run.run_id, *name, age_text(run.created_at, self.now)]
        if run.commit is not None:
            told.append(f"commit {commit_text(run)}")
        return one_line(", ".join([*told, *marks_of(point)]))

    def _change_text(self, series: TrendSeries, change: SeriesChange) -> str:
        point, words = series.points[change.at], self._words
        back = len(series.points) - 1 - change.at
        ago = "the last run" if back == 0 else f"{count_text(back, 'run')} ago"
        commit = "" if point.run.commit is None else f", commit {commit_text(point.run)}"
        return (
            f"{words.value(change.before)} -> {words.value(change.after)} at {point.run.run_id}{commit}, {ago} "
            f"(p {chance_text(change.p)})"
        )

    def _gaps(self, series: TrendSeries) -> Iterator[str]:
        gaps = [point for point in series.points if point.gap is not None]
        for point in gaps[-_GAPS_NAMED:]:
            yield from self._labelled("gap", one_line(f"{point.run.run_id}: {point.gap}"))
        if len(gaps) > _GAPS_NAMED:
            yield from self._labelled("", f"and {len(gaps) - _GAPS_NAMED} more: --runs")

    def _runs(self, series: TrendSeries) -> Iterator[str]:
        """Yield a table of the points, and what is to be known of some of them."""
        yield from table([_HEAD, *map(self._row, series.points)], self.width, self.paint)
        for point in series.points:
            notes = ", ".join(marks_of(point) if point.gap is None else [*marks_of(point), point.gap])
            if notes:
                yield from self._wrapped(one_line(f"{point.run.run_id}: {notes}"), "")

    def _row(self, point: TrendPoint) -> tuple[str, ...]:
        words, found = self._words, point.measured
        about = (point.run.run_id, commit_text(point.run))
        if found is None:
            return (*about, "-", "-", "-")
        moved = "-" if point.difference is None else words.difference(point.difference)
        return (*about, f"{words.value(found.value)} of {found.judged:,}", words.interval(found.interval) or "-", moved)

    def _labelled(self, label: str, text: str) -> Iterator[str]:
        first, *others = self._wrapped(one_line(text), _INDENT)
        yield f"{label:<{len(_INDENT)}}{first.removeprefix(_INDENT)}"
        yield from others

    def _wrapped(self, text: str, indent: str) -> list[str]:
        if self.width is None:
            return [f"{indent}{text}"]
        return [f"{indent}{line}" for line in wrap(text, self.width - len(indent))]
