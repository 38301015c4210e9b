"""Human labels and the judge's opinion of the same answer."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.stored import JUDGE, NOON, RESULT

from agentv.scoring.judges.labels import LabelledAnswers, judge_opinion, label_answers
from agentv.types.evaluation import EvaluationResult
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label
from agentv.types.records.result import CaseResult
from agentv.types.scales import EvaluationCriteria

ROW = replace(RESULT, answer_ref=AnswerRef(3))


def label(score: Any, **more: Any) -> Label:
    return replace(
        Label(
            slot=ROW.slot,
            answer_key="v1:aa",
            answer_ref=AnswerRef(3),
            criterion="tone",
            score=score,
            annotator="anna",
            time=NOON,
            reasoning="why",
        ),
        **more,
    )


def found(*labels: Label, row: CaseResult = ROW, criteria: tuple[EvaluationCriteria, ...] = ()) -> LabelledAnswers:
    known = {(row.slot.suite, row.slot.eval_id): criteria}
    return label_answers([row], labels, known, evaluator="tone", criterion="tone", label_criterion="tone")


def test_each_annotator_stands_beside_the_judge_with_his_reason() -> None:
    (answer,) = found(label(1), label(False, annotator="ben")).answers
    assert (answer.judge.value, answer.judge.passed, answer.judge.reasoning) == (1.0, True, "Friendly throughout.")
    assert [(each.annotator, each.value, each.reasoning) for each in answer.people] == [
        ("anna", 1.0, "why"),
        ("ben", 0.0, "why"),
    ]
    assert (answer.people_value, answer.people_passed) == (0.5, None)


def test_scores_are_placed_by_the_scale_of_their_criterion() -> None:
    (answer,) = found(label("4/5"), criteria=(EvaluationCriteria("tone", scale="likert5"),)).answers
    assert (answer.people_value, answer.people_passed) == (0.75, False)


def test_labels_of_an_earlier_answer_are_left_out() -> None:
    assert found(label(1, answer_ref=AnswerRef(2))).answers == []


def test_a_judge_that_failed_is_counted_apart() -> None:
    broken = replace(ROW, evaluator_results=(replace(JUDGE, status="error"),))
    assert (found(label(1), row=broken).answers, found(label(1), row=broken).unjudged) == ([], 1)


def test_scores_off_the_scale_are_reported() -> None:
    assert found(label("splendid")).unconverted == [
        "refund-7, anna: 'splendid' cannot be read on the scale numeric; define 'tone' under `criteria`, with its scale"
    ]


@pytest.mark.parametrize(("criterion", "expected"), [("warm", 0.2), ("clear", 1.0), ("tone", 1.0), ("other", None)])
def test_an_evaluator_of_several_criteria_has_an_opinion_on_each(criterion: str, expected: float | None) -> None:
    parts = (EvaluationResult("warm", 0.2, 0.2), EvaluationResult("clear", 1, 1.0), EvaluationResult("lost", None))
    row = replace(ROW, evaluator_results=(replace(JUDGE, results=parts),))
    opinion = judge_opinion(row, "tone", criterion)
    assert (None if opinion is None else opinion.value) == expected


def test_an_evaluator_with_one_criterion_is_known_by_that() -> None:
    row = replace(ROW, evaluator_results=(replace(JUDGE, results=(EvaluationResult("kind", True, 1.0),)),))
    opinion = judge_opinion(row, "tone", "kind")
    assert opinion is not None
    assert opinion.passed
