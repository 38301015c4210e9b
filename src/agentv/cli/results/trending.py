"""What `agentv trend` does: find the runs in the index, make series of them, and print these."""

from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.indexed import run_index
from agentv.cli.results.sheets import refuse_unwritable, write_sheets
from agentv.cli.screen import terminal_style
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.trend_runs import WantedPlaces, load_trend_runs, refuse_unknown
from agentv.loading.files.places import find_home
from agentv.reports.text.printable import one_line, printable_json
from agentv.reports.trend.views import TrendView, trend_sheet, trend_to_json
from agentv.reports.trend.words import TrendWords
from agentv.scoring.comparison.trend import TrendSeries, find_series, parse_metric
from agentv.types.messages_json import pretty_json


class TrendOptions(Struct, frozen=True, kw_only=True):
    """Which trends are asked for, and how they are shown."""

    last: int
    metric: str
    suites: tuple[str, ...]
    targets: tuple[str, ...]
    by_commit: bool
    with_runs: bool
    outputs: tuple[str, ...]
    as_json: bool
    verbose: bool


def trend(asked: TrendOptions) -> int:
    """Print the trends; returns the exit code."""
    metric = parse_metric(asked.metric)
    refuse_unwritable(asked.outputs)
    home = find_home(Path.cwd())
    wanted = WantedPlaces(asked.suites, asked.targets)
    with run_index(home, verbose=asked.verbose) as index:
        last = None if asked.by_commit else asked.last
        listed = index.runs()
        runs = load_trend_runs(listed, index.sums, wanted=wanted, last=last)
    refuse_unknown(wanted, metric, listed, runs)
    for unread in (each for each in listed if each.run is None):
        click.echo(f"left out: {one_line(unread.problem or unread.run_id)}", err=True)
    series = find_series(runs, metric, last=asked.last, by_commit=asked.by_commit)
    has_commits = any(point.run.commit for each in series for point in each.points)
    words = TrendWords(asked.metric, metric, make_clock()(), "commit" if asked.by_commit and has_commits else "run")
    write_sheets(asked.outputs, [trend_sheet(each, words) for each in series])
    if asked.as_json:
        click.echo(printable_json(pretty_json(trend_to_json(series, asked.metric))))
    elif series:
        _print(series, words, asked)
    else:
        click.echo(f"no such run with a row is stored in {home}; `agentv run` makes one")
    for output in asked.outputs:
        click.echo(f"wrote   {one_line(output)}", err=asked.as_json)
    return 0


def _print(series: Sequence[TrendSeries], words: TrendWords, asked: TrendOptions) -> None:
    style = terminal_style()
    view = TrendView(words, style.width, style.signs, style.paint)
    click.echo(view.render(series, with_runs=asked.with_runs), nl=False)
