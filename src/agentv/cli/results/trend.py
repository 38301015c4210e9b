"""`agentv trend`: how suites and targets did from run to run."""

from typing import Any

import click


@click.command("trend")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="How many runs of each suite and target.",
)
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Only this suite, by its path or name.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Only this target.")
@click.option(
    "--metric",
    default="mean",
    show_default=True,
    metavar="METRIC",
    help="mean, pass_rate, cost_usd, p95(duration_s) or evaluator(NAME).mean.",
)
@click.option("--by", type=click.Choice(["run", "commit"]), default="run", show_default=True, help="A point for each.")
@click.option("--runs", "with_runs", is_flag=True, help="List every run below its trend.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write trend.html or trend.md.")
@click.option("--json", "as_json", is_flag=True, help="Print every point as one JSON object.")
@click.option("-v", "--verbose", is_flag=True, help="Say when the index cannot be used and the folders are read.")
def command(*, by: str, **given: Any) -> int:
    """Show how each suite and target did over its runs, oldest first, and where it changed.

    A run that did not execute is a gap, not a zero. A change is flagged where it is too clear to be chance.
    """
    from agentv.cli.results.trending import TrendOptions, trend

    return trend(TrendOptions(by_commit=by == "commit", **given))
