"""How the results of an eval file change from run to run: a chart for each target."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from agentv.engine.stored.trend_runs import WantedPlaces, left_out_parts, load_trend_runs, refuse_unknown
from agentv.reports.document.html import HtmlRenderer
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element
from agentv.reports.trend import TrendWords, trend_document, trend_to_json
from agentv.scoring.comparison.trend import TrendSeries, find_series, parse_metric
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.view.address import BadAddressError, Query, path_to
from agentv.view.elements import choice_links, filter_chips
from agentv.view.library import UnknownRunError
from agentv.view.pages.page import Page, Request
from agentv.view.pages.run import RUNS

_METRIC = "pass_rate"
_METRICS = {
    "pass_rate": "pass rate",
    "mean": "mean score",
    "cost_usd": "cost",
    "p50(duration_s)": "median latency",
    "p95(duration_s)": "95th percentile of latencies",
}
_LAST = 30
_MAX_LINKS = 10


def trend_page(request: Request) -> Page:
    """Return the trend of an eval file: by `metric`, of each `target`, over the `last` runs; `all=1` adds parts."""
    suite, query = request.names["suite"], request.query
    text = query.last("metric") or _METRIC
    try:
        metric = parse_metric(text)
    except ConfigError as error:
        raise BadAddressError(str(error)) from None
    wanted = WantedPlaces((suite,), query.all("target"))
    index = request.library.index()
    listed = tuple(reversed(request.library.runs()))
    with_parts = query.last("all") is not None
    runs = load_trend_runs(listed, index.sums, wanted=wanted, last=_LAST, with_parts=with_parts)
    try:
        refuse_unknown(wanted, metric, listed, runs)
    except UnknownNameError as error:
        raise UnknownRunError(str(error)) from None
    series = find_series(runs, metric, last=_LAST)
    words = TrendWords(_METRICS.get(text, text), metric, datetime.now(UTC))
    path = path_to("trend", suite)
    choices = [(None if value == _METRIC else value, name) for value, name in _METRICS.items()]
    left_out = 0 if with_parts else left_out_parts(listed, wanted).total()
    parts = [
        element("h1", f"Trend of {suite}", dir="auto"),
        choice_links(path, query, "metric", choices, label="Metric"),
        filter_chips(path, query.without("metric", "all")),
        *(_series(each, words) for each in series),
        *_notes(series, left_out, path, query),
    ]
    return Page(title=f"Trend of {suite}", parts=parts, data=trend_to_json(series, text), trail=(RUNS,))


def _series(series: TrendSeries, words: TrendWords) -> Html:
    document = trend_document(series, words, with_runs=True)
    blocks = [part for block in document.blocks for part in HtmlRenderer(3).block(block)]
    heading = element("h2", series.target, dir="auto")
    return element("section", heading, *blocks, _links(series))


def _links(series: TrendSeries) -> Html:
    """Return links to the newest runs of a series."""
    newest = [each.run for each in reversed(series.points)][:_MAX_LINKS]
    links = [
        element("li", element("a", run.name or f"{run.created_at:%Y-%m-%d %H:%M:%S}", href=path_to("r", run.run_id)))
        for run in newest
    ]
    head = element("li", "newest runs:")
    return element("nav", element("ul", head, *links, class_="choices"), aria_label=f"Newest runs with {series.target}")


def _notes(series: Sequence[TrendSeries], left_out: int, path: str, query: Query) -> Iterator[Html]:
    if not series:
        yield element("p", "No complete run of this eval file has results.", class_="notice")
    if left_out:
        show = element("a", "show them", href=query.with_value("all", "1").address(path))
        yield element("p", f"{count_text(left_out, 'partial run')} left out (some cases, shards, stopped); ", show)
