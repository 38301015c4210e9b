"""`agentv judge`: how far a judge can be trusted."""

from typing import Any

import click

_RUN_HELP = "RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'."


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
    """
    from agentv.cli.calibrating import CalibrateOptions, calibrate

    return calibrate(run, CalibrateOptions(**asked))
