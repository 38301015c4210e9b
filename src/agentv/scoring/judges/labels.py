"""Labels of people: made from feedback on a run, and compared with the opinion of a judge on the same answer."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from agentv.scoring.counting.row_kinds import evaluator_state
from agentv.scoring.results.criteria import normalize
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import nearest
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.problems import Problem
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import Feedback, Label
from agentv.types.records.result import CaseResult

SHOWN_ROWS = 6
"""The number of rows that a message lists."""


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

    The verdict is the evaluator's own if it judges only this criterion, otherwise that of the value.
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

    `labels_of` is the name of the criterion in people's labels. Labels of an earlier answer of a row are left out.
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


class Judgeable(Struct, frozen=True):
    """The parts of a row that a label needs. Without `answer_seq` there is no answer to judge."""

    slot: ResultKey
    answer_key: str
    answer_seq: int | None

    @property
    def described(self) -> str:
        """The row's description in messages."""
        prompt = "" if self.slot.prompt is None else f" prompt {self.slot.prompt!r}"
        return f"target {self.slot.target!r}{prompt} trial {self.slot.trial} of {self.slot.suite}"


class Labelling(Struct):
    """The labels made from a file, and the problems of its other lines; `notes` are warnings about unusual labels."""

    labels: list[Label] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)


def judgeable(row: CaseResult) -> Judgeable:
    """Return the parts of a row that a label needs. Without an answer of its target it cannot be labelled."""
    answered = row.error is None or row.error.stage == "evaluator"
    return Judgeable(row.slot, row.answer_key, row.answer_seq if answered else None)


def fit_labels(
    feedback: Iterable[Feedback],
    rows: Iterable[Judgeable],
    criteria: Mapping[tuple[str, str], Sequence[EvaluationCriteria]],
    *,
    annotator: str | None,
    now: datetime,
) -> Labelling:
    """Return the labels of a run's rows. `annotator` signs unsigned feedback, `now` is the time of undated feedback.

    `criteria` are those of each case, by suite and id; a score of any other criterion is stored unchanged, with a note.
    """
    by_case: dict[str, list[Judgeable]] = {}
    for row in rows:
        by_case.setdefault(row.slot.eval_id, []).append(row)
    found = Labelling()
    for said in feedback:
        fitting = [row for row in by_case.get(said.eval_id, ()) if said.is_about(row.slot)]
        known = criteria.get((fitting[0].slot.suite, said.eval_id), ()) if fitting else ()
        wrong = _refused(said, fitting, by_case) or _unsigned(said, annotator) or _off_scale(said, known)
        if wrong is not None:
            found.problems.append(wrong)
            continue
        if (note := _unknown_criterion(said.criterion, known)) is not None:
            found.notes[note] = None
        row, who, when = fitting[0], said.annotator or annotator or "", said.time or now
        found.labels.append(
            Label(
                slot=row.slot,
                answer_key=row.answer_key,
                answer_ref=AnswerRef(row.answer_seq or 0),
                criterion=said.criterion,
                score=said.score,
                annotator=who,
                time=when,
                reasoning=said.reasoning,
            )
        )
    return found


def _refused(
    said: Feedback, fitting: Sequence[Judgeable], by_case: Mapping[str, Sequence[Judgeable]]
) -> Problem | None:
    """Return the problem if a score does not match exactly one answer, else None."""
    rows = by_case.get(said.eval_id)
    if rows is None:
        message = f"the run has no result of a case {said.eval_id!r}"
        return _problem(said, message, suggestion=nearest(said.eval_id, by_case))
    if not fitting:
        return _problem(
            said, f"no result of {said.eval_id!r} has that suite, target, prompt and trial", allowed=_listed(rows)
        )
    if len(fitting) > 1:
        message = f"it matches {len(fitting)} results of {said.eval_id!r}; select one by target, prompt, trial or suite"
        return _problem(said, message, allowed=_listed(fitting))
    if fitting[0].answer_seq is None:
        return _problem(said, f"the result of {said.eval_id!r} has no answer to judge")
    return None


def _listed(rows: Sequence[Judgeable]) -> str:
    more = f" and {len(rows) - SHOWN_ROWS} more" if len(rows) > SHOWN_ROWS else ""
    return f"there are: {', '.join(row.described for row in rows[:SHOWN_ROWS])}{more}"


def _unsigned(said: Feedback, annotator: str | None) -> Problem | None:
    if said.annotator or annotator:
        return None
    return _problem(said, "it has no annotator", allowed="give the line an `annotator`, or all lines by --annotator")


def _unknown_criterion(name: str, criteria: Sequence[EvaluationCriteria]) -> str | None:
    """Return a note on a criterion that a case with criteria does not define: it may be intended or mistyped."""
    names = [criterion.name for criterion in criteria]
    if not names or name in names:
        return None
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{name!r} is not a criterion of the cases, so its scores have no scale; there are: {', '.join(names)}{hint}"


def _off_scale(said: Feedback, criteria: Sequence[EvaluationCriteria]) -> Problem | None:
    defined = next((criterion for criterion in criteria if criterion.name == said.criterion), None)
    try:
        if defined is not None:
            normalize(said.score, defined)
    except ValueError as error:
        return _problem(said, str(error))
    return None


def _problem(said: Feedback, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> Problem:
    return Problem(said.location.path, message, said.location.line, 1, allowed=allowed, suggestion=suggestion)
