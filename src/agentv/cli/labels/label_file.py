"""Read human scores from a file, match them with the answers of a run, and show how far annotators agree."""

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.screen import print_documents, refuse_unknown_suffixes, write_documents
from agentv.engine.labels.label_rates import criteria_by_case
from agentv.engine.running.clock import make_clock
from agentv.loading.files.places import find_home
from agentv.reports.judge import AGREEMENT_SCHEMA, agreement_document, agreement_to_json
from agentv.reports.text.printable import one_line, printable_json
from agentv.scoring.counting.groups import no_tags_message
from agentv.scoring.judges.agreement import Metric
from agentv.scoring.judges.draws import as_random_sample
from agentv.scoring.judges.feedback import parse_feedback
from agentv.scoring.judges.labels import fit_labels, row_for_labels
from agentv.scoring.judges.report_card import (
    AnnotatorAgreement,
    CriterionLabels,
    annotator_agreement,
    criterion_labels,
)
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError, EvalFileError
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.problems import Problem
from agentv.types.records.label import Feedback, Label


def read_labels(stored: StoredRun, file: str, *, annotator: str | None, is_random_sample: bool = False) -> list[Label]:
    """Return the labels in a file; `-` is standard input. `annotator` is the default for scores that name none.

    With `is_random_sample`, labels without a draw are those of a random sample of the run's answers.

    Prints to standard error a note on each criterion that the cases do not define. Raises EvalFileError that lists
    every line that cannot be read, or else every line that makes no label: it does not match exactly one answer, names
    another run, has no annotator, or its score does not fit the criterion's scale.
    """
    labels = match_labels(stored, read_feedback(file), file, annotator=annotator)
    if not is_random_sample:
        return labels
    answers = sum(row_for_labels(row).answer_seq is not None for row in stored.results())
    return as_random_sample(labels, answers)


def match_labels(
    stored: StoredRun, feedback: Sequence[Feedback], file: str, *, annotator: str | None, reads_any_text: bool = False
) -> list[Label]:
    """Return the label of each score in `feedback`, which was read from `file`. Notes and errors: see `read_labels`.

    With `reads_any_text`, a score of a criterion that the cases do not define may be any text.
    """
    case_ids = {item.eval_id for item in feedback}
    criteria = criteria_by_case(stored, case_ids)
    clock = make_clock()
    found = fit_labels(
        feedback,
        map(row_for_labels, stored.results()),
        criteria,
        run_id=stored.run_id,
        annotator=annotator,
        now=clock(),
        reads_any_text=reads_any_text,
    )
    if found.problems:
        raise EvalFileError(file, found.problems)
    for note in found.notes:
        click.echo(f"note: {note}", err=True)
    return found.labels


def read_feedback(file: str) -> Sequence[Feedback]:
    """Return the scores in a file; `-` is standard input. Raises EvalFileError if the file or a line cannot be read."""
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise EvalFileError(file, (Problem(file, f"cannot be read: {error.strerror}"),)) from error
    found = parse_feedback(data, source=file)
    if found.problems:
        raise EvalFileError(file, found.problems)
    return found.feedback


_MAX_LISTED = 10
"""The maximum number of unreadable labels in a message."""


class AgreementOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv label agreement`."""

    labels: str | None = None
    criterion: str | None = None
    by: str | None = None
    metric: Metric | None = None
    outputs: tuple[str, ...] = ()
    as_json: bool = False


def show_agreement(reference: str, options: AgreementOptions) -> int:
    """Print the agreement of annotators on each labelled criterion, and write it to `outputs`; return the exit code."""
    refuse_unknown_suffixes(options.outputs)
    stored = open_run(find_run(find_home(Path.cwd()), reference))
    labels = _selected_labels(stored, options)
    if options.by == "tag" and not any(unit.tags for each in labels for unit in each.units):
        raise ConfigError(no_tags_message("labelled case"))
    results = [result for each in labels for result in _agreements(each, by_tag=options.by == "tag")]
    document = agreement_document(stored.run_id, results)
    write_documents(options.outputs, [document])
    if options.as_json:
        rows: list[JsonValue] = [agreement_to_json(each) for each in results]
        output = {"schema": AGREEMENT_SCHEMA, "run_id": stored.run_id, "agreement": rows}
        click.echo(printable_json(pretty_json(output)))
        return 0
    print_documents([document])
    for file in options.outputs:
        click.echo(f"Wrote {one_line(file)}")
    return 0


def _agreements(labels: CriterionLabels, *, by_tag: bool) -> list[AnnotatorAgreement]:
    tags = sorted({tag for unit in labels.units for tag in unit.tags}) if by_tag else []
    return [annotator_agreement(labels), *(annotator_agreement(labels, tag) for tag in tags)]


def _selected_labels(stored: StoredRun, options: AgreementOptions) -> list[CriterionLabels]:
    """Return the selected labels by criterion. Raises ConfigError if there are none, or some cannot be read."""
    labels: Sequence[Label]
    if options.labels is None:
        labels = list(stored.labels())
    else:
        feedback = read_feedback(options.labels)
        is_nominal = options.metric == "nominal"
        labels = match_labels(stored, feedback, options.labels, annotator=None, reads_any_text=is_nominal)
    if not labels:
        raise ConfigError(
            f"no labels found for run {stored.run_id}; import some with `agentv label {stored.run_id} --in FILE`, "
            "or give --labels FILE with scores"
        )
    if options.criterion is not None:
        known = ", ".join(repr(one_line(each)) for each in dict.fromkeys(label.criterion for label in labels))
        labels = [label for label in labels if label.criterion == options.criterion]
        if not labels:
            raise ConfigError(f"no label has the criterion {options.criterion!r}; labelled criteria: {known}")
    slots = {label.slot for label in labels}
    tags = {row.slot: row.tags for row in stored.results() if row.slot in slots}
    criteria = criteria_by_case(stored, {slot.eval_id for slot in slots})
    found, unreadable = criterion_labels(labels, tags, criteria, metric=options.metric)
    if unreadable:
        lines = [
            f"{one_line(each.label.slot.eval_id)}, {one_line(each.label.criterion)}, {one_line(each.label.annotator)}: "
            f"{each.message}"
            for each in unreadable[:_MAX_LISTED]
        ]
        more = [f"and {len(unreadable) - _MAX_LISTED:,} more"] if len(unreadable) > _MAX_LISTED else []
        raise ConfigError(
            "\n".join([*lines, *more, "use --metric nominal for labels that have no order, or choose a --criterion"])
        )
    return found
