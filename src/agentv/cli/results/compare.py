"""`agentv compare`: what differs between runs, and whether it could be chance."""

from typing import Any

import click


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--baseline", metavar="RUN", help="What the runs are compared with, instead of the first of them.")
@click.option("--targets", nargs=2, metavar="A B", help="Compare target A with target B, of one run or of two.")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    metavar="X",
    help="How far a case's score must move to be a win or a loss.",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="What must hold, as in 'regressions <= 0' or 'mean_difference >= -0.02'.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="With --gate: cases without a result that are let pass.",
)
@click.option(
    "--list",
    "listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="How many improved, and how many regressed cases to list with their reasons.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of tests that draw.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "markdown", "agentv"]),
    default="text",
    show_default=True,
    help="How to print it; agentv is the older JSON, with exit code 0 iff the mean did not fall.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
def command(runs: tuple[str, ...], *, gates: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Compare runs with the first of them, case by case: better, worse, or not to be told apart.

    RUN is an id or the start of one, a name, a path, a tag, 'latest' or 'latest~1', or a file: a baseline, or rows that
    a run wrote with -o rows.jsonl. Without --gate the exit code is 0 whatever is found, 3 when no case was judged
    in both, and 5 when no case is in both.
    """
    from agentv.cli.results.comparing import CompareOptions, compare

    if as_json:
        given["format"] = "json"
    return compare(runs, CompareOptions(gates=gates or None, **given))
