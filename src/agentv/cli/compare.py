"""`agentv compare`: what differs between runs, and whether it could be chance."""

import click


@click.command("compare")
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.option(
    "--threshold",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    metavar="X",
    help="How far a case's score must move to be a win or a loss.",
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed for tests that draw.")
def command(before: str, after: str, *, threshold: float, seed: int) -> int:
    """Compare run B with run A, case by case, and say whether it is better, worse, or not to be told.

    A and B are ids or the starts of them, names, paths, 'latest' or 'latest~1'.
    """
    from agentv.cli.comparing import compare

    return compare(before, after, threshold=threshold, seed=seed)
