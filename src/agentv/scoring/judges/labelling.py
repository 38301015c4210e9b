"""Conversion of feedback on a run to labels: each score is matched with one answer, or reported as a problem."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct, field

from agentv.scoring.results.criteria import normalize
from agentv.types.criteria.scales import EvaluationCriteria
from agentv.types.errors import nearest
from agentv.types.problems import Problem
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.label import Feedback, Label
from agentv.types.records.result import CaseResult

SHOWN_ROWS = 6
"""The number of rows that a message lists."""


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
