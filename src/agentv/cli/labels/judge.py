"""`agentv judge`: measure a judge's accuracy and consistency."""

from typing import Any

import click


@click.group("judge")
def command() -> None:
    """Measure a judge's agreement with human labels, and its consistency."""


@command.command("calibrate")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--evaluator", metavar="NAME", help="Evaluator to measure (default: all with labels).")
@click.option(
    "--criterion", metavar="NAME", help="Use the labels for this criterion (default: each that the evaluator scores)."
)
@click.option("--labels", metavar="FILE", help="Use the human labels in FILE instead of the imported ones.")
@click.option(
    "--random-sample",
    "is_random_sample",
    is_flag=True,
    help="The answers labelled in FILE are a random sample of the run's answers.",
)
@click.option("--by", type=click.Choice(["tag"]), help="Also show the results for each tag of the cases.")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write FILE (.html or .md); repeatable."
)
@click.option("--no-save", is_flag=True, help="Do not save the calibration.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole calibration report as one JSON object.")
def calibrate_command(run: str, **options: Any) -> int:
    """Compare a judge's verdicts with human labels.

    Prints agreement, kappa, the confusion matrix and the disagreements, and saves the judge's error rates in a small
    file in .agentv/calibrations. Commit this file: reports of runs with the same judge and judge prompt then also show
    a pass rate corrected for these errors. Nothing is saved if the labelled answers were picked: labels must be those
    of all answers, of answers drawn for review, or of a random sample (--random-sample).

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.labels.judging import CalibrateOptions, calibrate

    return calibrate(run, CalibrateOptions(**options))


@command.command("check")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--evaluator", "evaluators", multiple=True, metavar="NAME", help="Check only this judge; repeatable.")
@click.option(
    "--repeats",
    type=click.IntRange(min=1, max=100),
    default=3,
    show_default=True,
    metavar="N",
    help="Verdicts per answer.",
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Check only a random sample of N answers.")
@click.option("--seed", type=int, default=0, show_default=True, metavar="S", help="Seed of the sample.")
@click.option("--budget-usd", type=click.FloatRange(min=0, min_open=True), metavar="X", help="Spend at most X dollars.")
@click.option(
    "-o", "--output", "outputs", multiple=True, metavar="FILE", help="Also write FILE (.html or .md); repeatable."
)
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt, which is shown only on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole report of the check as one JSON object.")
def check_command(run: str, **options: Any) -> int:
    """Judge stored answers repeatedly and compare the verdicts.

    Targets are not called, and the results are not changed. Prints how often a judge repeats its verdict, how much its
    scores vary, how many pairwise comparisons change when the answers are swapped, and whether longer answers get
    higher scores. The report is also saved in the run's folder, as judge-check.json.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.labels.judging import CheckOptions, check

    return check(run, CheckOptions(**options))
