"""What `agentv judge calibrate` does: labels beside scores, the card, and the calibration that is kept."""

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.results.label_file import criteria_by_case, read_labels
from agentv.cli.results.sheets import print_sheets, refuse_unwritable, write_sheets
from agentv.cli.terminal import own_stdout
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.rejudge import find_setups
from agentv.engine.stored.stored_plan import load_stored_plan, working_folder
from agentv.loading.files.places import find_home
from agentv.reports.judge.card import CARD_SCHEMA, SHOWN, JudgeCard, card_sheet, card_to_json
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.scoring.judges.labelled import (
    LabelledAnswer,
    LabelledAnswers,
    judge_opinion,
    judged_criterion,
    label_answers,
)
from agentv.scoring.judges.report_card import ReportCard, disagreements, report_card
from agentv.storage.judgements.calibrations import save_calibration
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import AgentvError, ConfigError, UnknownNameError
from agentv.types.json_value import JsonValue
from agentv.types.messages_json import pretty_json
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.summaries import Calibration

_HUMAN = "human"
"""The evaluator that says what people say: no judge to be held against them."""


class CalibrateOptions(Struct, frozen=True, kw_only=True):
    """The options of the command, as given."""

    evaluator: str | None = None
    criterion: str | None = None
    labels: str | None = None
    by: str | None = None
    outputs: tuple[str, ...] = ()
    no_save: bool = False
    as_json: bool = False


class _Question(Struct, frozen=True):
    """Which judge is held against which labels: its criterion, and the one that labels name."""

    evaluator: str
    criterion: str
    labels_of: str


class _Labelled(Struct, frozen=True):
    """A run's labels with the rows that they are about."""

    stored: StoredRun
    labels: Sequence[Label]
    rows: Sequence[CaseResult]


def calibrate(reference: str, options: CalibrateOptions) -> int:
    """Print the card of each judge whose criterion people judged, and keep its calibration; returns the exit code."""
    refuse_unwritable(options.outputs)
    home = find_home(Path.cwd())
    stored = open_run(find_run(home, reference))
    labels = list(stored.labels()) if options.labels is None else read_labels(stored, options.labels, annotator=None)
    if not labels:
        raise ConfigError(
            f"run {stored.run_id} has no labels; `agentv label {stored.run_id} --in FILE` keeps them, or --labels FILE"
        )
    slots = {label.slot for label in labels}
    labelled = _Labelled(stored, labels, [row for row in stored.results() if row.slot in slots])
    cards: list[JudgeCard] = []
    files: list[str | None] = []
    for question in _questions(labelled, options):
        found = _answers(labelled, question)
        card = _card(labelled, question, found, by_tag=options.by == "tag")
        cards.append(card)
        files.append(
            None
            if options.no_save
            else _keep(home, labelled=labelled, question=question, answers=found.answers, card=card.card)
        )
    _tell(cards, files, options)
    return 0


def _tell(cards: Sequence[JudgeCard], files: Sequence[str | None], options: CalibrateOptions) -> None:
    write_sheets(options.outputs, [card_sheet(card) for card in cards])
    if options.as_json:
        told: list[JsonValue] = [
            {**card_to_json(card), "calibration": file} for card, file in zip(cards, files, strict=True)
        ]
        click.echo(printable_json(pretty_json({"schema": CARD_SCHEMA, "cards": told})))
        return
    print_sheets([card_sheet(card, most=SHOWN) for card in cards])
    for file in (*filter(None, files), *options.outputs):
        click.echo(f"wrote   {one_line(file)}")


def _questions(labelled: _Labelled, options: CalibrateOptions) -> list[_Question]:
    """Return which judges are asked for. Raises ConfigError, saying what there is, when none has labels."""
    evaluators = sorted({each.name for row in labelled.rows for each in row.evaluator_results if each.type != _HUMAN})
    if options.evaluator is not None and options.evaluator not in evaluators:
        raise UnknownNameError("evaluator", options.evaluator, known=evaluators)
    named = list(dict.fromkeys(label.criterion for label in labelled.labels))
    if options.criterion is not None and options.criterion not in named:
        raise ConfigError(f"no label is of {options.criterion!r}; people judged {_listed(named)}")
    found = list(dict.fromkeys(_all_questions(labelled, named, options)))
    if found:
        return found
    raise ConfigError(
        f"people judged {_listed(named)}, and no evaluator that is asked for judges that; the evaluators are "
        f"{_listed(evaluators)}: name both, as in --evaluator {evaluators[0] if evaluators else 'NAME'} "
        f"--criterion {named[0]}"
    )


def _all_questions(labelled: _Labelled, named: Sequence[str], options: CalibrateOptions) -> Iterator[_Question]:
    for row in labelled.rows:
        for result in row.evaluator_results:
            if result.type == _HUMAN or options.evaluator not in (None, result.name):
                continue
            if options.criterion is not None and options.evaluator is not None:
                criteria = {each.criterion_name for each in result.results}
                own = options.criterion if options.criterion in criteria else judged_criterion(result)
                yield _Question(result.name, own, options.criterion)
                continue
            for name in named:
                if options.criterion in (None, name) and judge_opinion(row, result.name, name) is not None:
                    yield _Question(result.name, name, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(one_line(name)) for name in names) or "none"


def _answers(labelled: _Labelled, question: _Question) -> LabelledAnswers:
    criteria = criteria_by_case(labelled.stored, {label.slot.eval_id for label in labelled.labels})
    found = label_answers(
        labelled.rows,
        labelled.labels,
        criteria,
        evaluator=question.evaluator,
        criterion=question.criterion,
        labels_of=question.labels_of,
    )
    if found.unplaced:
        more = f" (and {len(found.unplaced) - 1:,} more)" if len(found.unplaced) > 1 else ""
        raise ConfigError(f"a score of people cannot be placed: {found.unplaced[0]}{more}")
    return found


def _card(labelled: _Labelled, question: _Question, found: LabelledAnswers, *, by_tag: bool) -> JudgeCard:
    tags = sorted({tag for answer in found.answers for tag in answer.tags}) if by_tag else []
    remarks = []
    if found.unjudged:
        remarks.append(f"{count_text(found.unjudged, 'labelled answer')} on which the judge gave no verdict")
    return JudgeCard(
        run_id=labelled.stored.run_id,
        evaluator=question.evaluator,
        criterion=question.labels_of,
        card=report_card(found.answers),
        by_tag={tag: report_card([each for each in found.answers if tag in each.tags]) for tag in tags},
        apart=disagreements(found.answers),
        remarks=tuple(remarks),
    )


def _keep(
    home: Path, labelled: _Labelled, question: _Question, answers: Sequence[LabelledAnswer], card: ReportCard
) -> str | None:
    """Keep what was measured, for the set-up that it was measured on; says on standard error why it is not kept."""
    if not answers or not card.confusion.answers:
        return None
    slots = {each.slot for each in answers}
    rows = [row for row in labelled.rows if row.slot in slots]
    try:
        setups = _setups(labelled.stored, home, rows, question.evaluator)
    except AgentvError as error:
        click.echo(f"no calibration is kept: {error}", err=True)
        return None
    calibration = Calibration(
        evaluator=question.evaluator,
        criterion=question.criterion,
        setups=setups,
        run_id=labelled.stored.run_id,
        labelled_at=max(label.time for label in labelled.labels if label.criterion == question.labels_of),
        annotators=card.people.annotators,
        cases=card.cases,
        confusion=card.confusion,
        sensitivity=card.sensitivity.rate if card.can_correct else None,
        specificity=card.specificity.rate if card.can_correct else None,
        kappa=card.kappa.value,
    )
    return str(save_calibration(home, calibration))


def _setups(stored: StoredRun, home: Path, rows: Sequence[CaseResult], evaluator: str) -> tuple[str, ...]:
    """Return the set-ups that judged the rows. Raises ConfigError when one of them is not known any more."""
    cwd = working_folder(stored.run, stored.folder.resolve().parent.parent)
    with own_stdout(), chdir(cwd):  # eval files and what they name are called from there, as they were
        plan = load_stored_plan(stored.run, home, cwd=cwd, env=os.environ)
        found = find_setups(plan, rows, evaluator, clock=make_clock())
    if found.other:
        raise ConfigError(
            f"{count_text(found.other, 'labelled answer')} of {len(rows):,} {'was' if found.other == 1 else 'were'} "
            f"judged by another {evaluator!r} than the files describe now (its prompt, settings or judge were edited, "
            f"or its case); `agentv rescore {stored.run_id}` judges them again"
        )
    return found.setups
