"""Answers with the opinions of a judge and of people on them."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field

from agentv.scoring.counting.row_kinds import evaluator_state
from agentv.scoring.results.criteria import normalize
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult


class Opinion(Struct, frozen=True):
    """A judgement of an answer: a value of 0..1, whether it is a pass, and the reasoning."""

    value: float
    passed: bool
    reasoning: str | None = None
    annotator: str = ""


class LabelledAnswer(Struct, frozen=True):
    """An answer with the judge's opinion and at least one opinion of people."""

    slot: ResultKey
    tags: tuple[str, ...]
    judge: Opinion
    people: tuple[Opinion, ...]

    @property
    def people_value(self) -> float:
        """The mean of people's values."""
        return math.fsum(each.value for each in self.people) / len(self.people)

    @property
    def people_passed(self) -> bool | None:
        """The majority verdict of people; None for a tie."""
        passes = sum(each.passed for each in self.people)
        return None if 2 * passes == len(self.people) else 2 * passes > len(self.people)


class LabelledAnswers(Struct):
    """The answers of one criterion that a judge and people judged, and the labels without a judge's opinion.

    `unjudged` counts answers that the judge did not judge, or failed on. `unplaced` are human scores that cannot be
    placed on 0..1, each with the reason.
    """

    answers: list[LabelledAnswer] = field(default_factory=list)
    unjudged: int = 0
    unplaced: list[str] = field(default_factory=list)


def judge_opinion(row: CaseResult, evaluator: str, criterion: str) -> Opinion | None:
    """Return an evaluator's opinion on a criterion, None if it judged nothing."""
    found = next((each for each in row.evaluator_results if each.name == evaluator), None)
    return None if found is None else result_opinion(found, criterion)


def result_opinion(result: EvaluatorResult, criterion: str) -> Opinion | None:
    """Return the opinion on a criterion in an evaluator's result, None if it judged nothing.

    The verdict is the evaluator's own if it judges only this criterion, otherwise the one of the value.
    """
    if evaluator_state(result) in ("error", "skipped"):
        return None
    return next(_opinions(result, criterion), None)


def judged_criterion(result: EvaluatorResult) -> str:
    """Return the criterion that an evaluator judges as a whole: its only one, otherwise one with its own name."""
    return result.results[0].criterion_name if len(result.results) == 1 else result.name


def _opinions(result: EvaluatorResult, criterion: str) -> Iterator[Opinion]:
    if criterion in (judged_criterion(result), result.name):
        yield Opinion(result.score, evaluator_state(result) == "pass", result.reasoning)
    for each in result.results:
        if each.criterion_name == criterion and each.value is not None and each.error is None:
            yield Opinion(each.value, verdict_of(each.value) == "pass", each.reasoning)


def label_answers(
    rows: Iterable[CaseResult],
    labels: Iterable[Label],
    criteria: Mapping[tuple[str, str], Sequence[EvaluationCriteria]],
    *,
    evaluator: str,
    criterion: str,
    labels_of: str,
) -> LabelledAnswers:
    """Return the answers on which both an evaluator and people have an opinion of a criterion.

    `labels_of` is the criterion that people's labels name. Labels of an earlier answer of a row are left out.
    `criteria` are those of each case, by suite and id.
    """
    by_answer: dict[tuple[ResultKey, int], list[Label]] = {}
    for label in labels:
        if label.criterion == labels_of:
            by_answer.setdefault((label.slot, label.answer_seq), []).append(label)
    found = LabelledAnswers()
    for row in rows:
        said = by_answer.get((row.slot, -1 if row.answer_seq is None else row.answer_seq))
        if said is None:
            continue
        known = criteria.get((row.slot.suite, row.slot.eval_id), ())
        people = tuple(_placed(said, known, found))
        judge = judge_opinion(row, evaluator, criterion)
        if judge is None:
            found.unjudged += 1
        elif people:
            found.answers.append(LabelledAnswer(row.slot, row.tags, judge, people))
    return found


def _placed(said: Iterable[Label], known: Sequence[EvaluationCriteria], found: LabelledAnswers) -> Iterator[Opinion]:
    """Yield people's opinions on 0..1; a criterion that the case does not define has scores from 0 to 1."""
    for label in said:
        defined = next((each for each in known if each.name == label.criterion), None)
        try:
            value = normalize(
                label.score,
                defined
                or EvaluationCriteria(
                    name=label.criterion, description="", scale="numeric", weight=1.0, min=0.0, max=1.0
                ),
            )
        except ValueError as error:
            hint = "" if defined else f"; define {label.criterion!r} under `criteria`, with its scale"
            found.unplaced.append(f"{label.slot.eval_id}, {label.annotator}: {error}{hint}")
            continue
        if value is None:
            found.unplaced.append(
                f"{label.slot.eval_id}, {label.annotator}: the scale of {label.criterion!r} has no order"
            )
            continue
        yield Opinion(value, verdict_of(value) == "pass", label.reasoning, label.annotator)
