"""`agentv score`: judge answers that a service logged, as they come."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentv.cli.scoring import ScoreOptions


@click.command("score")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="How answers are judged: evaluators, criteria, judge, gates (YAML or JSON).",
)
@click.option(
    "-o", "--output", metavar="FILE", help="Append every judgement to FILE as a line of JSON; - is standard output."
)
@click.option("--sample", metavar="SHARE|N", help="Judge a share of the lines (1%, 0.01), or N of them.")
@click.option("--sample-by", metavar="KEY", help="Draw by this key, so that those that share it stay together.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="What must be reached, instead of the config's gates, as in 'mean >= 0.8'; 'none' for no gate.",
)
@click.option("--only", type=click.Choice(["free"]), help="Leave out evaluators that cost money.")
@click.option("--judge", metavar="TARGET", help="Who answers for model judges, instead of the config's judge.")
@click.option("--workers", type=click.IntRange(min=1), default=8, show_default=True, metavar="N", help="Lines at once.")
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Lines without a clean judgement that may be.",
)
@click.option(
    "--display",
    type=click.Choice(["auto", "live", "plain", "json", "none"]),
    default="auto",
    show_default=True,
    help="How progress and the report are shown.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --display json: one object at the end.")
def command(files: tuple[str, ...], **given: Any) -> int:
    """Judge answers that exist already: JSON Lines of inputs, from FILEs (.gz too) or, with -, standard input.

    Lines are judged as they come; a stream need not end. Ctrl-C and SIGTERM finish what was begun.

    Exit code: 0 passed, 1 a gate failed, 2 nobody reads the output any more, 3 incomplete, 4 wrong usage or files,
    5 nothing selected, 130 and 143 by signal.
    """
    from agentv.cli.scoring import score_files

    return score_files(files, _make_options(given))


def _make_options(given: dict[str, Any]) -> "ScoreOptions":
    from agentv.cli.scoring import ScoreOptions
    from agentv.scoring.sampling import make_sample
    from agentv.types.errors import ConfigError

    gates = given.pop("gates")
    if "none" in gates and len(gates) > 1:
        raise ConfigError("--gate none turns the gate off and cannot stand beside another --gate")
    if given.pop("as_json"):
        given["display"] = "json"
    sample = make_sample(given.pop("sample"), by=given.pop("sample_by"), seed=given.pop("seed"))
    return ScoreOptions(gates=() if gates == ("none",) else gates or None, sample=sample, **given)
