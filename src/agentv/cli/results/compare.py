"""`agentv compare`: compare runs, with significance tests."""

from typing import Any

import click


@click.command("compare")
@click.argument("runs", nargs=-1, metavar="RUN...")
@click.option("--baseline", metavar="RUN", help="Compare with this run instead of the first one.")
@click.option(
    "--targets",
    nargs=2,
    metavar="A B",
    help="Compare results of the target named A with those of B, in one run or across two.",
)
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    metavar="X",
    help="Smallest change of a case's score that counts as a win or loss.",
)
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="Condition for exit code 0, e.g. 'regressions <= 0'; repeatable.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="With --gate: errors allowed before the exit code is 3.",
)
@click.option(
    "--list",
    "listed",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    metavar="N",
    help="Number of improved and of regressed cases to list.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the permutation tests.")
@click.option(
    "--format",
    type=click.Choice(["text", "json", "markdown", "agentv"]),
    default="text",
    show_default=True,
    help="Output format; agentv: an older JSON format that sets its own exit codes.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def command(runs: tuple[str, ...], *, gates: tuple[str, ...], as_json: bool, **given: Any) -> int:
    """Compare each run with the first one, case by case, with significance tests.

    RUN is a run id or its prefix, a name, a path, a tag, 'latest' or 'latest~1', or a file: a baseline, or results
    exported with -o results.jsonl.

    Exit codes without --gate: 0 compared, 3 no case has a score in both runs, 5 no case is in both runs. With --format
    agentv: 0 if the mean did not fall, else 1.
    """
    from agentv.cli.results.comparing import CompareOptions, compare

    if as_json:
        given["format"] = "json"
    return compare(runs, CompareOptions(gates=gates or None, **given))
