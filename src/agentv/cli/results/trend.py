"""`agentv trend`: show how scores change from run to run."""

from typing import Any

import click


@click.command("trend")
@click.option(
    "--last",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    metavar="N",
    help="Number of runs per eval file and target.",
)
@click.option(
    "--suite", "suites", multiple=True, metavar="PATH", help="Show only this eval file (path or name); repeatable."
)
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Show only this target; repeatable.")
@click.option(
    "--metric",
    default="mean",
    show_default=True,
    metavar="METRIC",
    help="mean, pass_rate, cost_usd, p95(duration_s) or evaluator(NAME).mean.",
)
@click.option(
    "--by", type=click.Choice(["run", "commit"]), default="run", show_default=True, help="One point per run or commit."
)
@click.option("--runs", "with_runs", is_flag=True, help="Also list the runs of each trend.")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write FILE (.html or .md); repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="Print every point as one JSON object.")
@click.option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Also print a note when the index of runs is unusable, so that run folders are read.",
)
def command(*, by: str, **given: Any) -> int:
    """Show the trend of each eval file and target over its runs, oldest first, with significant changes marked.

    A run without results is shown as a gap, not as zero.
    """
    from agentv.cli.results.trending import TrendOptions, trend

    return trend(TrendOptions(by_commit=by == "commit", **given))
