"""`agentv baseline`: save the scores of a run in a small file to commit and compare with."""

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from agentv.storage.run.scores import FoundScores

BASELINE_SAVED_SCHEMA = "agentv-baseline-saved-1"


def _warnings_of_parts(found: "FoundScores") -> "Iterator[str]":
    """Yield what shows that a run has only some of the cases; a later run is compared on no others."""
    from agentv.reports.text.printable import one_line
    from agentv.scoring.comparison.sides import INCOMPLETE
    from agentv.storage.run.likeness import selection_of

    if found.stored is None:
        return
    run, state, record = one_line(found.reference), found.side.state, found.stored.run
    if state == INCOMPLETE:
        yield f"warning: run {run} lacks planned results: the baseline has only its stored cases"
    elif state != "finished":
        yield f"run {run} is not finished: the baseline has only its finished cases"
    selection = selection_of(record.plan.get("options")) or (f"--shard {record.shard}" if record.shard else "")
    if selection:
        yield f"warning: run {run} was made with {one_line(selection)}: the baseline has only what this selected"


@click.group("baseline")
def command() -> None:
    """Save a run's scores in a small file that can be committed and used with --baseline."""


@command.command("save")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("-o", "--output", default="baseline.jsonl", show_default=True, metavar="FILE", help="File to write.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as one JSON object.")
def save_command(run: str, *, output: str, as_json: bool) -> int:
    """Write the scores of a run to a file.

    The first line describes the run and its targets. Each other line has the scores, pass rate, cost and other measures
    of one case and target, and a digest that shows whether the case was edited. Prompts and answers are not in the
    file. The lines are sorted, so that the same run always gives the same file.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    import json
    from pathlib import Path

    from agentv.cli.screen import warn_of_edits
    from agentv.loading.files.places import find_home
    from agentv.loading.files.text import open_atomically
    from agentv.reports.text.amounts import count_text
    from agentv.reports.text.printable import one_line
    from agentv.scoring.comparison.sides import SCORE
    from agentv.storage.run.score_file import baseline_lines
    from agentv.storage.run.scores import find_scores
    from agentv.types.errors import ConfigError

    is_default = click.get_current_context().get_parameter_source("output") is ParameterSource.DEFAULT
    if is_default and (Path(run).is_file() or Path(run).suffix in (".jsonl", ".json")):
        message = f"{run} is a file, not a run; to write the latest run to it: agentv baseline save -o {run}"
        raise ConfigError(one_line(message))
    found = find_scores(find_home(Path.cwd()), run)
    cases = len(found.side.cases)
    without_score = sum(found.side.mean(SCORE, name) is None for name in found.side.cases)
    if cases == without_score:
        message = f"run {one_line(found.reference)} has no score; a baseline needs results that were judged"
        raise ConfigError(message)
    if found.stored is not None:
        warn_of_edits(found.stored.run_id, found.side.edits)
    with open_atomically(Path(output)) as file:
        for line in baseline_lines(found.side):
            file.write(line.decode())
    for warning in _warnings_of_parts(found):
        click.echo(warning, err=True)
    if without_score:
        click.echo(f"warning: {count_text(without_score, 'case')} of {cases:,} without a score", err=True)
    if as_json:
        output_json = {"schema": BASELINE_SAVED_SCHEMA, "run_id": found.reference, "file": output, "cases": cases}
        click.echo(json.dumps(output_json, indent=2))
        return 0
    click.echo(f"Wrote {one_line(output)}: {count_text(cases, 'line')} of scores from run {one_line(found.reference)}")
    return 0
