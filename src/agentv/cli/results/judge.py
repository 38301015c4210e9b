"""`agentv judge`: how far a judge can be trusted."""

from typing import Any

import click


@click.group("judge")
def command() -> None:
    """Say how far a judge can be trusted: against people's labels, and against itself."""


@command.command("calibrate")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--evaluator", metavar="NAME", help="Only this evaluator; without, all whose criterion people judged.")
@click.option(
    "--criterion", metavar="NAME", help="The labels to hold against it; without, those of the judge's own criterion."
)
@click.option("--labels", metavar="FILE", help="People's scores, instead of those that `agentv label` kept.")
@click.option("--by", type=click.Choice(["tag"]), help="Also by tag.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write card.html or card.md.")
@click.option("--no-save", is_flag=True, help="Keep no calibration, so that no rate is corrected by it.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole card as one JSON object.")
def calibrate_command(run: str, **asked: Any) -> int:
    """Hold a judge's verdicts against people's labels: agreement, kappa, confusion, what they disagree on.

    The judge's measured mistakes are kept in .agentv/calibrations, a small file to commit; pass rates of the same
    judge with the same prompt are from then on also shown as they would be without these mistakes.

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.results.calibrating import CalibrateOptions, calibrate

    return calibrate(run, CalibrateOptions(**asked))


@command.command("check")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--evaluator", "evaluators", multiple=True, metavar="NAME", help="Only this judge; may be repeated.")
@click.option(
    "--repeats", type=click.IntRange(min=1, max=100), default=3, show_default=True, help="How often each is asked."
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Only N answers, chosen by chance.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Which chance that is.")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Spend X dollars at most.")
@click.option("-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write check.html or check.md.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole check as one JSON object.")
def check_command(run: str, **asked: Any) -> int:
    """Ask a run's judges again about its stored answers: no target is called, and the run stays as it is.

    Says how often a judge gives the same verdict, how far its scores scatter, how many comparisons of two answers
    change with their order, and whether longer answers get higher scores.
    """
    from agentv.cli.results.judge_checking import CheckOptions, check

    return check(run, CheckOptions(**asked))
