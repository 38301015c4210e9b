"""Read human scores from a file and match them with the answers of a run."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from agentv.engine.running.clock import make_clock
from agentv.scoring.judges.feedback import parse_feedback
from agentv.scoring.judges.labels import fit_labels, judgeable
from agentv.storage.run.stored import StoredRun
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import EvalFileError
from agentv.types.problems import Problem
from agentv.types.records.label import Feedback, Label


def read_labels(stored: StoredRun, file: str, *, annotator: str | None) -> list[Label]:
    """Return the labels in a file; `-` is standard input. `annotator` is the default for scores that name none.

    Prints notes on suspicious lines to standard error. Raises EvalFileError listing every line that cannot be read or
    matches no answer.
    """
    return match_labels(stored, read_feedback(file), file, annotator=annotator)


def match_labels(stored: StoredRun, feedback: Sequence[Feedback], file: str, *, annotator: str | None) -> list[Label]:
    """Return the labels of scores that were read from a file, as read_labels does."""
    named = {score.eval_id for score in feedback}
    criteria = criteria_by_case(stored, named)
    clock = make_clock()
    found = fit_labels(feedback, map(judgeable, stored.results()), criteria, annotator=annotator, now=clock())
    if found.problems:
        raise EvalFileError(file, found.problems)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    return found.labels


def criteria_by_case(stored: StoredRun, named: set[str]) -> dict[tuple[str, str], list[EvaluationCriteria]]:
    """Return the criteria of the cases with these ids, by suite and id."""
    return {
        (case.suite, case.eval_id): [EvaluationCriteria.from_dict(each) for each in case.criteria]
        for case in stored.cases()
        if case.eval_id in named
    }


def read_feedback(file: str) -> Sequence[Feedback]:
    """Return the scores in a file; `-` is standard input. Raises EvalFileError for lines that cannot be read."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise EvalFileError(file, (Problem(file, f"cannot be read: {error.strerror}"),)) from error
    found = parse_feedback(data, source=file)
    if found.problems:
        raise EvalFileError(file, found.problems)
    return found.feedback
