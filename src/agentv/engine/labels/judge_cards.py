"""Report cards of judges: the results of a run compared with its human labels."""

from collections.abc import Iterator, Sequence
from typing import Self

from msgspec import Struct

from agentv.engine.labels.label_rates import HUMAN, criteria_by_case
from agentv.reports.judge import JudgeCard
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import one_line
from agentv.scoring.judges.labels import LabelledAnswers, judge_opinion, judged_criterion, label_answers
from agentv.scoring.judges.report_card import disagreements, report_card
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError, UnknownNameError
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult


class Pairing(Struct, frozen=True):
    """A judge and the labels to compare it with: the criterion that the judge scores, and that of the labels."""

    evaluator: str
    criterion: str
    label_criterion: str


class LabelledRun(Struct, frozen=True):
    """A run's labels with the results that they are about."""

    stored: StoredRun
    labels: Sequence[Label]
    rows: Sequence[CaseResult]

    @classmethod
    def of(cls, stored: StoredRun, labels: Sequence[Label]) -> Self:
        """Return labels of a run with its results that have any."""
        slots = {label.slot for label in labels}
        return cls(stored, labels, [row for row in stored.results() if row.slot in slots])


def find_pairings(
    labelled: LabelledRun, *, evaluator: str | None = None, criterion: str | None = None
) -> list[Pairing]:
    """Return the selected judges with their labels; all of them if neither evaluator nor criterion is named.

    Raises ConfigError, with the known names, if there are none.
    """
    evaluators = sorted({each.name for row in labelled.rows for each in row.evaluator_results if each.type != HUMAN})
    if evaluator is not None and evaluator not in evaluators:
        raise UnknownNameError("evaluator", evaluator, known=evaluators)
    labelled_criteria = list(dict.fromkeys(label.criterion for label in labelled.labels))
    if criterion is not None and criterion not in labelled_criteria:
        raise ConfigError(
            f"no label has the criterion {criterion!r}; labelled criteria: {_names_text(labelled_criteria)}"
        )
    found = list(dict.fromkeys(_all_pairings(labelled, labelled_criteria, evaluator, criterion)))
    if found:
        return found
    raise ConfigError(
        "no selected evaluator scores a labelled criterion; labelled criteria: "
        f"{_names_text(labelled_criteria)}; evaluators: {_names_text(evaluators)}. Give both, e.g. "
        f"--evaluator {evaluators[0] if evaluators else 'NAME'} --criterion {labelled_criteria[0]}"
    )


def _all_pairings(
    labelled: LabelledRun, labelled_criteria: Sequence[str], evaluator: str | None, criterion: str | None
) -> Iterator[Pairing]:
    """Yield a pairing for each result of a judge on a labelled criterion; the same pairing may occur several times.

    If both evaluator and criterion are named, the two are compared even if the evaluator has no such criterion.
    """
    for row in labelled.rows:
        for result in row.evaluator_results:
            if result.type == HUMAN or evaluator not in (None, result.name):
                continue
            if criterion is not None and evaluator is not None:
                criteria = {each.criterion_name for each in result.results}
                judged = criterion if criterion in criteria else judged_criterion(result)
                yield Pairing(result.name, judged, criterion)
                continue
            for name in labelled_criteria:
                if criterion in (None, name) and judge_opinion(row, result.name, name) is not None:
                    yield Pairing(result.name, name, name)


def _names_text(names: Sequence[str]) -> str:
    return ", ".join(repr(one_line(name)) for name in names) or "none"


def labelled_answers(labelled: LabelledRun, pairing: Pairing) -> LabelledAnswers:
    """Return the answers that both the judge and people judged. Raises ConfigError for a label that has no score."""
    criteria = criteria_by_case(labelled.stored, {label.slot.eval_id for label in labelled.labels})
    found = label_answers(
        labelled.rows,
        labelled.labels,
        criteria,
        evaluator=pairing.evaluator,
        criterion=pairing.criterion,
        label_criterion=pairing.label_criterion,
    )
    if found.unconverted:
        more = f" (and {len(found.unconverted) - 1:,} more)" if len(found.unconverted) > 1 else ""
        raise ConfigError(f"a label cannot be converted to a score from 0 to 1: {found.unconverted[0]}{more}")
    return found


def make_card(labelled: LabelledRun, pairing: Pairing, found: LabelledAnswers, *, by_tag: bool) -> JudgeCard:
    """Return the report card of a judge, with `by_tag` also for each tag of the cases."""
    tags = sorted({tag for answer in found.answers for tag in answer.tags}) if by_tag else []
    remarks = []
    if len({answer.weight for answer in found.answers}) > 1:
        remarks.append("rates, kappa and alpha weight each answer by 1 / the probability with which it was drawn")
    if found.picked:
        remarks.append(f"{count_text(found.picked, 'labelled answer')} not counted: picked, while others were drawn")
    if found.unjudged:
        remarks.append(f"{count_text(found.unjudged, 'labelled answer')} on which the judge gave no verdict")
    return JudgeCard(
        run_id=labelled.stored.run_id,
        evaluator=pairing.evaluator,
        criterion=pairing.label_criterion,
        card=report_card(found.answers),
        by_tag={tag: report_card([each for each in found.answers if tag in each.tags]) for tag in tags},
        disagreements=disagreements(found.answers),
        remarks=tuple(remarks),
    )
