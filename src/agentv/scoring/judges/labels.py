"""Labels of people: made from feedback on a run, and compared with the opinion of a judge on the same answer."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from agentv.scoring.counting.row_kinds import evaluator_state
from agentv.scoring.judges.draws import label_weights
from agentv.scoring.results.criteria import normalize
from agentv.types.errors import nearest
from agentv.types.evaluation import EvaluatorResult, verdict_of
from agentv.types.problems import Problem
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import OVERALL, Feedback, HumanScore, Label
from agentv.types.records.result import CaseResult
from agentv.types.scales import EvaluationCriteria

READABLE_FORMS = "a number from 0 to 1, 4/5, 85 %, yes, no, pass, fail, true or false"
"""The forms in which a label of a criterion without a definition can be read."""

MAX_SHOWN_ROWS = 6
"""The number of rows that a message lists."""


def label_value(score: HumanScore, criterion: EvaluationCriteria | None) -> float | None:
    """Return a score as 0..1, by the scale of its criterion; without a criterion by its form: 4/5, 85 %, yes, 0.8.

    None on a custom scale, which has no order. Raises ValueError that lists the readable forms.
    """
    if criterion is not None:
        return normalize(score, criterion)
    try:
        return normalize(score, EvaluationCriteria("label", scale="numeric", min=0.0, max=1.0))
    except ValueError:
        raise ValueError(
            f"{score!r} cannot be read; it must be {READABLE_FORMS}, or define the criterion, with its scale, under "
            "`criteria` of the eval file"
        ) from None


class Opinion(Struct, frozen=True):
    """A judgement of an answer by a judge or a person: a value of 0..1, whether it is a pass, and the reasoning."""

    value: float
    passed: bool
    reasoning: str | None = None
    annotator: str = ""


class LabelledAnswer(Struct, frozen=True):
    """An answer with the opinions of the judge and of at least one person."""

    slot: ResultKey
    tags: tuple[str, ...]
    judge: Opinion
    people: tuple[Opinion, ...]
    weight: float = 1.0
    """1 / the probability with which the answer was drawn, up to a common factor."""

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
    """The answers that both a judge and people judged by one criterion, and what could not be compared."""

    answers: list[LabelledAnswer] = field(default_factory=list)
    unjudged: int = 0
    """The number of labelled answers without an opinion of the judge."""
    unconverted: list[str] = field(default_factory=list)
    """A message for each human score that cannot be converted to 0..1."""
    picked: int = 0
    """The number of labelled answers that were picked, and are left out because others were drawn."""
    is_drawn: bool = False
    """True if the answers were drawn at random."""


def judge_opinion(row: CaseResult, evaluator: str, criterion: str) -> Opinion | None:
    """Return an evaluator's opinion on a criterion in a row, None without one."""
    found = next((each for each in row.evaluator_results if each.name == evaluator), None)
    return None if found is None else result_opinion(found, criterion)


def result_opinion(result: EvaluatorResult, criterion: str) -> Opinion | None:
    """Return the opinion on a criterion in an evaluator's result, None without one.

    It is the evaluator's own score and verdict if the criterion is the evaluator's only one or has its name, otherwise
    the value of the criterion, with the verdict that follows from it.
    """
    if evaluator_state(result) in ("error", "skipped"):
        return None
    return next(_opinions(result, criterion), None)


def judged_criterion(result: EvaluatorResult) -> str:
    """Return the criterion of an evaluator's own score: its only criterion, otherwise one named like the evaluator."""
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
    label_criterion: str,
) -> LabelledAnswers:
    """Return the answers on which both an evaluator and people have an opinion of a criterion.

    `label_criterion` is the criterion's name in the labels. Labels of an earlier answer of a row are ignored, and if
    some answers were drawn, those that were picked. `criteria` are those of each case, by suite and id.
    """
    counted = [label for label in labels if label.criterion == label_criterion and not label.golden]
    weights = label_weights(counted)
    by_answer: dict[tuple[ResultKey, int], list[Label]] = {}
    for label in counted:
        if not label.is_skip:
            by_answer.setdefault((label.slot, label.answer_seq), []).append(label)
    found = LabelledAnswers(is_drawn=bool(weights))
    for row in rows:
        name = (row.slot, -1 if row.answer_seq is None else row.answer_seq)
        people_labels = by_answer.get(name)
        if people_labels is None:
            continue
        if weights and name not in weights:
            found.picked += 1
            continue
        known = criteria.get((row.slot.suite, row.slot.eval_id), ())
        people = tuple(_people_opinions(people_labels, known, found))
        judge = judge_opinion(row, evaluator, criterion)
        if judge is None:
            found.unjudged += 1
        elif people:
            found.answers.append(LabelledAnswer(row.slot, row.tags, judge, people, weights.get(name, 1.0)))
    return found


def _people_opinions(
    labels: Iterable[Label], known: Sequence[EvaluationCriteria], found: LabelledAnswers
) -> Iterator[Opinion]:
    """Yield the opinions in labels; a criterion that the case does not define has scores from 0 to 1."""
    for label in labels:
        defined = next((each for each in known if each.name == label.criterion), None)
        try:
            criterion = defined or EvaluationCriteria(label.criterion, scale="numeric", min=0.0, max=1.0)
            value = normalize(label.score, criterion)
        except ValueError as error:
            hint = "" if defined else f"; define {label.criterion!r} under `criteria`, with its scale"
            found.unconverted.append(f"{label.slot.eval_id}, {label.annotator}: {error}{hint}")
            continue
        if value is None:
            found.unconverted.append(
                f"{label.slot.eval_id}, {label.annotator}: the scale of {label.criterion!r} has no order"
            )
            continue
        yield Opinion(value, verdict_of(value) == "pass", label.reasoning, label.annotator)


class RowForLabels(Struct, frozen=True):
    """The parts of a row that a label needs. `answer_seq` is None if the row has no answer to label."""

    slot: ResultKey
    answer_key: str
    answer_seq: int | None
    run_id: str = ""

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


def row_for_labels(row: CaseResult) -> RowForLabels:
    """Return the parts of a row that a label needs."""
    answered = row.error is None or row.error.stage == "evaluator"
    return RowForLabels(row.slot, row.answer_key, row.answer_seq if answered else None, row.run_id)


def fit_labels(
    feedback: Iterable[Feedback],
    rows: Iterable[RowForLabels],
    criteria: Mapping[tuple[str, str], Sequence[EvaluationCriteria]],
    *,
    run_id: str,
    annotator: str | None,
    now: datetime,
    reads_any_text: bool = False,
) -> Labelling:
    """Return the labels of the rows of run `run_id`; `annotator` and `now` are for feedback without annotator or time.

    `criteria` are those of each case, by suite and id. A score of another criterion must have a form that is readable
    without a scale, unless `reads_any_text`; a case with criteria then gets a note, as the name may be mistyped.
    """
    by_case: dict[str, list[RowForLabels]] = {}
    for row in rows:
        by_case.setdefault(row.slot.eval_id, []).append(row)
    found = Labelling()
    for each in feedback:
        matching = [row for row in by_case.get(each.eval_id, ()) if each.is_about(row.slot)]
        known = criteria.get((matching[0].slot.suite, each.eval_id), ()) if matching else ()
        problem = (
            _match_problem(each, matching, by_case)
            or _run_problem(each, matching[0], run_id)
            or _answer_problem(each, matching[0])
            or _annotator_problem(each, annotator)
            or _scale_problem(each, known, reads_any_text=reads_any_text)
        )
        if problem is not None:
            found.problems.append(problem)
            continue
        if (note := _unknown_criterion(each.criterion, known)) is not None:
            found.notes[note] = None
        row = matching[0]
        found.labels.append(
            Label(
                slot=row.slot,
                answer_key=row.answer_key,
                answer_ref=AnswerRef(row.answer_seq or 0),
                criterion=each.criterion,
                score=each.score,
                annotator=each.annotator or annotator or "",
                time=each.time or now,
                reasoning=each.reasoning,
                label_id=each.label_id,
                verdict=each.verdict,
                note=each.note,
                category=each.category,
                seconds=each.seconds,
                blind=each.blind,
                shown=each.shown,
                draw=each.draw,
                golden=each.golden,
            )
        )
    return found


def _match_problem(
    feedback: Feedback, matching: Sequence[RowForLabels], by_case: Mapping[str, Sequence[RowForLabels]]
) -> Problem | None:
    """Return the problem if feedback does not match exactly one row with an answer, else None."""
    rows = by_case.get(feedback.eval_id)
    if rows is None:
        message = f"the run has no result of a case {feedback.eval_id!r}"
        return _problem(feedback, message, suggestion=nearest(feedback.eval_id, by_case))
    if not matching:
        return _problem(
            feedback,
            f"no result of {feedback.eval_id!r} has that suite, target, prompt and trial",
            allowed=_listed(rows),
        )
    if len(matching) > 1:
        message = (
            f"it matches {len(matching)} results of {feedback.eval_id!r}; select one by target, prompt, trial or suite"
        )
        return _problem(feedback, message, allowed=_listed(matching))
    if matching[0].answer_seq is None:
        return _problem(feedback, f"the result of {feedback.eval_id!r} has no answer to judge")
    return None


def _run_problem(feedback: Feedback, row: RowForLabels, run_id: str) -> Problem | None:
    """Return the problem if feedback names a run other than `run_id` and that of the row, which may be a merged one."""
    if feedback.run_id is None or feedback.run_id in (run_id, row.run_id):
        return None
    message = f"it is a score of an answer in run {feedback.run_id!r}, not in {run_id!r}"
    return _problem(feedback, message, allowed="import it into its own run, or remove its `run_id`")


def _answer_problem(feedback: Feedback, row: RowForLabels) -> Problem | None:
    """Return the problem if feedback names another answer than that of the row."""
    if feedback.answer_key in (None, row.answer_key):
        return None
    message = f"it is a label of another answer of {feedback.eval_id!r}, {feedback.answer_key!r}"
    return _problem(feedback, message, allowed=f"the run has the answer {row.answer_key!r}; label that one")


def _listed(rows: Sequence[RowForLabels]) -> str:
    more = f" and {len(rows) - MAX_SHOWN_ROWS} more" if len(rows) > MAX_SHOWN_ROWS else ""
    return f"there are: {', '.join(row.described for row in rows[:MAX_SHOWN_ROWS])}{more}"


def _annotator_problem(feedback: Feedback, annotator: str | None) -> Problem | None:
    if feedback.annotator or annotator:
        return None
    return _problem(
        feedback, "it has no annotator", allowed="give the line an `annotator`, or use --annotator for all lines"
    )


def _unknown_criterion(name: str, criteria: Sequence[EvaluationCriteria]) -> str | None:
    """Return a note on a criterion that a case with criteria does not define, as it may be mistyped; else None."""
    names = [criterion.name for criterion in criteria]
    if not names or name in (OVERALL, *names):
        return None
    near = nearest(name, names)
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{name!r} is not a criterion of the cases, so its scores have no scale; there are: {', '.join(names)}{hint}"


def _scale_problem(
    feedback: Feedback, criteria: Sequence[EvaluationCriteria], *, reads_any_text: bool
) -> Problem | None:
    defined = next((criterion for criterion in criteria if criterion.name == feedback.criterion), None)
    if feedback.is_skip or (defined is None and reads_any_text):
        return None
    try:
        value = label_value(feedback.score, defined)
    except ValueError as error:
        if defined is not None:
            return _problem(feedback, str(error))
        near = nearest(feedback.criterion, [criterion.name for criterion in criteria])
        message = f"{feedback.score!r} cannot be read; it must be {READABLE_FORMS}"
        advice = f"or define {feedback.criterion!r} under `criteria`, with its scale"
        return _problem(feedback, message, allowed=advice, suggestion=near)
    return _contradiction(feedback, value)


def _contradiction(feedback: Feedback, value: float | None) -> Problem | None:
    """Return the problem if the verdict of feedback is not that of its score, which is `value` on 0..1."""
    if feedback.verdict is None or value is None or (feedback.verdict == "pass") == (verdict_of(value) == "pass"):
        return None
    message = f"its verdict is {feedback.verdict!r}, but its score {feedback.score!r} is {value:g} on 0 to 1"
    return _problem(feedback, message, allowed="a score of 0.8 or more is a pass; give one of the two")


def _problem(feedback: Feedback, message: str, *, allowed: str | None = None, suggestion: str | None = None) -> Problem:
    return Problem(feedback.location.path, message, feedback.location.line, 1, allowed=allowed, suggestion=suggestion)
