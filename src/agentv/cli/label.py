"""`agentv label`: keeps what people say of a run's answers with the run."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.storage import StoredRun
    from agentv.types.feedback import Feedback, Label

LABELS_SCHEMA = "agentv-labels-1"


@click.command("label")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option(
    "--in", "file", required=True, metavar="FILE", help="JSON Lines or CSV with the scores; - is standard input."
)
@click.option("--annotator", metavar="NAME", help="Who gave the scores that name nobody.")
@click.option("--json", "as_json", is_flag=True, help="Print what was kept as one JSON object.")
def command(run: str, file: str, annotator: str | None, *, as_json: bool) -> int:
    """Keep people's scores of a stored run's answers in its labels.jsonl.

    FILE has one score a line: eval_id, criterion, score, and, where there is one, annotator, reasoning, time, and
    suite, target and trial when the case has several rows. All lines are kept or, when one is wrong, none. An annotator
    who judges the same again corrects himself: the later score counts, the earlier stays in the file.
    """
    from pathlib import Path

    from agentv.loading import find_home
    from agentv.storage import find_run, open_run
    from agentv.storage.labels import LABELS_FILE, append_labels, current_labels
    from agentv.types.errors import ConfigError, EvalFileError

    stored = open_run(find_run(find_home(Path.cwd()), run))
    try:
        labels = _labels(stored, _feedback(file), annotator, file)
    except EvalFileError as error:
        raise ConfigError(f"{error}\nnothing was kept: all scores of a file are, or none") from error
    before = len(current_labels(stored.all_labels()))
    if labels:
        append_labels(stored.folder, labels, run_id=stored.run_id)
    corrected = before + len(labels) - len(current_labels(stored.all_labels()))
    kept = str(stored.folder / LABELS_FILE)
    if as_json:
        told = {"run_id": stored.run_id, "file": kept, "labels": len(labels), "corrections": corrected}
        click.echo(json.dumps({"schema": LABELS_SCHEMA, **told}))
        return 0
    people = len({label.annotator for label in labels})
    again = f", {corrected} of them about what the same person had judged already" if corrected else ""
    click.echo(f"kept {len(labels)} scores of {people} {'person' if people == 1 else 'people'}{again}: {kept}")
    return 0


def _feedback(file: str) -> "Sequence[Feedback]":
    """Return what a file says. Raises EvalFileError with every line that cannot be read."""
    from pathlib import Path

    from agentv.scoring.feedback import parse_feedback
    from agentv.types.errors import EvalFileError
    from agentv.types.problems import Problem

    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise EvalFileError(file, (Problem(file, f"cannot be read: {error.strerror}"),)) from error
    found = parse_feedback(data, source=file)
    if found.problems:
        raise EvalFileError(file, found.problems)
    return found.feedback


def _labels(stored: "StoredRun", feedback: "Sequence[Feedback]", annotator: str | None, file: str) -> "list[Label]":
    """Return the labels that feedback makes. Raises EvalFileError with every score that has no answer to go to."""
    from agentv.pipeline.clock import make_clock
    from agentv.scoring.labelling import fit_labels, judgeable
    from agentv.types.errors import EvalFileError
    from agentv.types.scales import EvaluationCriteria

    named = {said.eval_id for said in feedback}
    criteria = {
        (case.suite, case.eval_id): [EvaluationCriteria.from_dict(each) for each in case.criteria]
        for case in stored.cases()
        if case.eval_id in named
    }
    rows = map(judgeable, stored.results())
    clock = make_clock()
    found = fit_labels(feedback, rows, criteria, annotator=annotator, now=clock())
    if found.problems:
        raise EvalFileError(file, found.problems)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    return found.labels
