"""Trends as a sheet, of which a page and Markdown are made."""

from collections.abc import Iterator

from agentv.reports.sheet import Part, Sheet
from agentv.reports.signs import UNICODE
from agentv.reports.sparkline import sparkline
from agentv.reports.trend_words import RUN_HEAD, TrendWords
from agentv.scoring.trend import TrendSeries


def trend_sheet(series: TrendSeries, words: TrendWords) -> Sheet:
    """Return one series: its bars and where it stands, what changed, and every run."""
    values = [None if point.measured is None else point.measured.value for point in series.points]
    rows = (RUN_HEAD, *map(words.row, series.points))
    return Sheet(
        words.title(series),
        f"{sparkline(values, UNICODE)}  {words.last(series)}",
        (Part("", notes=tuple(_told(series, words))), Part("runs", rows, notes=tuple(words.notes(series)))),
    )


def _told(series: TrendSeries, words: TrendWords) -> Iterator[str]:
    yield words.extent(series)
    if series.last is not None:
        yield words.about(series.last)
    for change in series.changes:
        yield f"change: {words.change(series, change)}"
    if edits := words.edits(series):
        yield f"edited: {edits}"
