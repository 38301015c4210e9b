"""`agentv review`: label a run's answers in the browser."""

from typing import Any

import click


class Share(click.ParamType[float]):
    """A share as a percentage or a fraction: `20%`, `20 %` or `0.2`."""

    name = "share"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return a share from 0 to 1. Raises click.BadParameter for anything else."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 <= number <= 1:
            self.fail(f"{value!r} is not a share; write a percentage such as 20%, or a number from 0 to 1", param, ctx)
        return number


class StratumCount(click.ParamType[tuple[str, int]]):
    """The number of answers of a stratum: `fail=50`."""

    name = "stratum=number"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        """Return the stratum and the number. Raises click.BadParameter for anything else."""
        if isinstance(value, tuple):
            return value
        name, _, number = str(value).rpartition("=")
        if not (name.strip() and number.strip().isascii() and number.strip().isdecimal()):
            self.fail(f"{value!r} is not NAME=NUMBER; for example fail=50", param, ctx)
        return name.strip(), int(number)


@click.command("review")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--sample", "n", type=click.IntRange(min=1), metavar="N", help="Answers to draw (default: up to 100).")
@click.option(
    "--stratify",
    type=click.Choice(["verdict", "target", "tag", "none"]),
    help="Draw within groups: the judge's verdicts, targets or tags.",
)
@click.option(
    "--stratum",
    "strata",
    type=StratumCount(),
    multiple=True,
    metavar="NAME=N",
    help="Draw N answers of this group; others share the rest.",
)
@click.option("--reviewer", "reviewers", multiple=True, metavar="NAME", help="A person who labels (default: you).")
@click.option("--overlap", type=Share(), metavar="SHARE", help="Share of the answers that all reviewers label.")
@click.option(
    "--golden",
    metavar="FILE",
    help="Labels with known verdicts, to see drift (default: of the run).",
)
@click.option(
    "--golden-every", type=click.IntRange(min=1), metavar="K", help="Insert a golden answer after K others (10)."
)
@click.option("--criterion", metavar="NAME", help="Criterion to label (default: the answer as a whole).")
@click.option("--queue", "name", metavar="NAME", help="Name of the queue (default: the criterion).")
@click.option("--pairs", metavar="RUN", help="Compare the answers with those of RUN, side by side.")
@click.option("--seed", type=int, metavar="N", help="Seed of the draw.")
@click.option("--no-blind", is_flag=True, help="Show the judge's verdict and the target beside each answer.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port to listen on (default: a free one).")
@click.option("--no-open", is_flag=True, help="Print the addresses without opening a browser.")
def command(run: str, *, port: int, no_open: bool, **options: Any) -> int:
    """Label a run's answers in the browser.

    Draws answers at random, stores with which probability each was drawn, and serves a page on which each reviewer
    labels them one by one, without seeing the judge, the target or other reviewers. Ctrl-C ends the review; the same
    command goes on with it. The labels correct the pass rate in `agentv show RUN` and in reports.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    from agentv.cli.labels.reviewing import ReviewOptions, review

    return review(run, ReviewOptions(**options), port=port, is_opened=not no_open)
