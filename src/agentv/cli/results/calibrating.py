"""The implementation of `agentv judge calibrate`: match labels with scores, print the card, save the calibration."""

import os
from collections.abc import Iterator, Sequence
from contextlib import chdir
from pathlib import Path

import click
from msgspec import Struct

from agentv.cli.results.label_file import criteria_by_case, read_labels
from agentv.cli.running.scored import runner_of
from agentv.cli.screen import print_sheets, refuse_unwritable, write_sheets
from agentv.cli.terminal import own_stdout
from agentv.engine.criteria.stored_answers import find_given_setups
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.rejudge import find_setups
from agentv.engine.stored.stored_plan import load_stored_plan, working_folder
from agentv.loading.files.places import find_home
from agentv.reports.judge.card import CARD_SCHEMA, SHOWN, JudgeCard, card_sheet, card_to_json
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line, printable_json
from agentv.scoring.counting.groups import no_tags
from agentv.scoring.judges.labels import (
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
"""The type of evaluators that take their scores from human labels; they cannot be calibrated."""


class CalibrateOptions(Struct, frozen=True, kw_only=True):
    """The options of `agentv judge calibrate`."""

    evaluator: str | None = None
    criterion: str | None = None
    labels: str | None = None
    by: str | None = None
    outputs: tuple[str, ...] = ()
    no_save: bool = False
    as_json: bool = False


class _Pairing(Struct, frozen=True):
    """A judge and the labels to compare it with: the judge's criterion, and the criterion that the labels name."""

    evaluator: str
    criterion: str
    labels_of: str


class _Labelled(Struct, frozen=True):
    """A run's labels with the results that they are about."""

    stored: StoredRun
    labels: Sequence[Label]
    rows: Sequence[CaseResult]


def calibrate(reference: str, options: CalibrateOptions) -> int:
    """Print the card of each judge whose criterion has labels, and save its calibration; return the exit code."""
    refuse_unwritable(options.outputs)
    home = find_home(Path.cwd())
    stored = open_run(find_run(home, reference))
    labels = list(stored.labels()) if options.labels is None else read_labels(stored, options.labels, annotator=None)
    if not labels:
        raise ConfigError(
            f"run {stored.run_id} has no labels; import some with `agentv label {stored.run_id} --in FILE`, "
            "or give --labels FILE"
        )
    slots = {label.slot for label in labels}
    labelled = _Labelled(stored, labels, [row for row in stored.results() if row.slot in slots])
    if options.by == "tag" and not any(row.tags for row in labelled.rows):
        raise ConfigError(no_tags("labelled case"))
    cards: list[JudgeCard] = []
    files: list[str | None] = []
    for pairing in _pairings(labelled, options):
        found = _answers(labelled, pairing)
        card = _card(labelled, pairing, found, by_tag=options.by == "tag")
        cards.append(card)
        files.append(
            None
            if options.no_save
            else _save(home, labelled=labelled, pairing=pairing, answers=found.answers, card=card.card)
        )
    _report(cards, files, options)
    return 0


def _report(cards: Sequence[JudgeCard], files: Sequence[str | None], options: CalibrateOptions) -> None:
    write_sheets(options.outputs, [card_sheet(card) for card in cards])
    if options.as_json:
        output: list[JsonValue] = [
            {**card_to_json(card), "calibration": file} for card, file in zip(cards, files, strict=True)
        ]
        click.echo(printable_json(pretty_json({"schema": CARD_SCHEMA, "cards": output})))
        return
    print_sheets([card_sheet(card, most=SHOWN) for card in cards])
    for file in (*filter(None, files), *options.outputs):
        click.echo(f"Wrote {one_line(file)}")


def _pairings(labelled: _Labelled, options: CalibrateOptions) -> list[_Pairing]:
    """Return the selected judges with their labels. Raises ConfigError, naming what there is, if none has labels."""
    evaluators = sorted({each.name for row in labelled.rows for each in row.evaluator_results if each.type != _HUMAN})
    if options.evaluator is not None and options.evaluator not in evaluators:
        raise UnknownNameError("evaluator", options.evaluator, known=evaluators)
    named = list(dict.fromkeys(label.criterion for label in labelled.labels))
    if options.criterion is not None and options.criterion not in named:
        raise ConfigError(f"no label has the criterion {options.criterion!r}; labelled criteria: {_listed(named)}")
    found = list(dict.fromkeys(_all_pairings(labelled, named, options)))
    if found:
        return found
    raise ConfigError(
        f"no selected evaluator scores a labelled criterion; labelled criteria: {_listed(named)}; evaluators: "
        f"{_listed(evaluators)}. Give both, e.g. --evaluator {evaluators[0] if evaluators else 'NAME'} "
        f"--criterion {named[0]}"
    )


def _all_pairings(labelled: _Labelled, named: Sequence[str], options: CalibrateOptions) -> Iterator[_Pairing]:
    for row in labelled.rows:
        for result in row.evaluator_results:
            if result.type == _HUMAN or options.evaluator not in (None, result.name):
                continue
            if options.criterion is not None and options.evaluator is not None:
                criteria = {each.criterion_name for each in result.results}
                own = options.criterion if options.criterion in criteria else judged_criterion(result)
                yield _Pairing(result.name, own, options.criterion)
                continue
            for name in named:
                if options.criterion in (None, name) and judge_opinion(row, result.name, name) is not None:
                    yield _Pairing(result.name, name, name)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(one_line(name)) for name in names) or "none"


def _answers(labelled: _Labelled, pairing: _Pairing) -> LabelledAnswers:
    criteria = criteria_by_case(labelled.stored, {label.slot.eval_id for label in labelled.labels})
    found = label_answers(
        labelled.rows,
        labelled.labels,
        criteria,
        evaluator=pairing.evaluator,
        criterion=pairing.criterion,
        labels_of=pairing.labels_of,
    )
    if found.unplaced:
        more = f" (and {len(found.unplaced) - 1:,} more)" if len(found.unplaced) > 1 else ""
        raise ConfigError(f"a label cannot be matched: {found.unplaced[0]}{more}")
    return found


def _card(labelled: _Labelled, pairing: _Pairing, found: LabelledAnswers, *, by_tag: bool) -> JudgeCard:
    tags = sorted({tag for answer in found.answers for tag in answer.tags}) if by_tag else []
    remarks = []
    if found.unjudged:
        remarks.append(f"{count_text(found.unjudged, 'labelled answer')} on which the judge gave no verdict")
    return JudgeCard(
        run_id=labelled.stored.run_id,
        evaluator=pairing.evaluator,
        criterion=pairing.labels_of,
        card=report_card(found.answers),
        by_tag={tag: report_card([each for each in found.answers if tag in each.tags]) for tag in tags},
        disagreements=disagreements(found.answers),
        remarks=tuple(remarks),
    )


def _save(
    home: Path, labelled: _Labelled, pairing: _Pairing, answers: Sequence[LabelledAnswer], card: ReportCard
) -> str | None:
    """Save the calibration for the judge setups it was measured on; print to standard error why it is not saved."""
    if not answers or not card.confusion.answers:
        return None
    slots = {each.slot for each in answers}
    rows = [row for row in labelled.rows if row.slot in slots]
    try:
        setups = _setups(labelled.stored, home, rows, pairing.evaluator)
    except AgentvError as error:
        click.echo(f"calibration not saved: {error}", err=True)
        return None
    calibration = Calibration(
        evaluator=pairing.evaluator,
        criterion=pairing.criterion,
        setups=setups,
        run_id=labelled.stored.run_id,
        labelled_at=max(label.time for label in labelled.labels if label.criterion == pairing.labels_of),
        annotators=card.people.annotators,
        cases=card.cases,
        confusion=card.confusion,
        sensitivity=card.sensitivity.rate if card.can_correct else None,
        specificity=card.specificity.rate if card.can_correct else None,
        kappa=card.kappa.value,
    )
    return str(save_calibration(home, calibration))


def _setups(stored: StoredRun, home: Path, rows: Sequence[CaseResult], evaluator: str) -> tuple[str, ...]:
    """Return the judge setups that scored the results. Raises ConfigError if one is not known any more."""
    cwd = working_folder(stored.run, stored.folder.resolve().parent.parent)
    with own_stdout(), chdir(cwd):  # relative paths in eval files start from the folder of the original run
        if stored.are_given:
            found = find_given_setups(runner_of(stored), stored, rows, evaluator)
        else:
            plan = load_stored_plan(stored.run, home, cwd=cwd, env=os.environ)
            found = find_setups(plan, rows, evaluator, clock=make_clock())
    if found.other:
        raise ConfigError(
            f"{count_text(found.other, 'labelled answer')} of {len(rows):,} {'was' if found.other == 1 else 'were'} "
            f"scored by a different {evaluator!r} than the files describe now (its prompt, settings, judge or case "
            f"was edited); run `agentv rescore {stored.run_id}` first"
        )
    return found.setups
