"""A judge compared with people: rates, kappa, agreement among people, and advice."""

import pytest
from msgspec.structs import replace
from tests.support.stored import RESULT

from agentv.scoring.judges.agreement import cohen_kappa
from agentv.scoring.judges.labels import LabelledAnswer, Opinion
from agentv.scoring.judges.report_card import advice, disagreements, report_card
from agentv.types.records.answer import ResultKey


def answer(case: int, judge: float, *people: float, trial: int = 0) -> LabelledAnswer:
    opinions = tuple(Opinion(each, each >= 0.8, annotator=f"p{number}") for number, each in enumerate(people))
    slot = ResultKey("s.yaml", f"c-{case}", "agent", trial)
    return LabelledAnswer(slot, RESULT.tags, Opinion(judge, judge >= 0.8), opinions)


def test_answers_are_counted_by_what_the_judge_and_most_people_say() -> None:
    said = [answer(1, 1, 1), answer(2, 1, 0, 0, 1), answer(3, 0, 1), answer(4, 0, 0.5), answer(5, 1, 1, 0)]
    card = report_card(said)
    counts = card.confusion
    assert (counts.both_pass, counts.judge_alone, counts.people_alone, counts.both_fail) == (1, 1, 1, 1)
    assert (card.split, counts.answers) == (1, 4)


def test_rates_are_over_what_people_pass_and_what_they_fail() -> None:
    said = [answer(case, float(case % 10 > 0), float(case % 2)) for case in range(100)]
    card = report_card(said)
    assert card.sensitivity.rate is not None
    assert card.specificity.rate is not None
    assert (card.sensitivity.rate.value, card.specificity.rate.value) == (1.0, 0.2)
    kappa = cohen_kappa([each.judge.passed for each in said], [bool(each.people_passed) for each in said])
    assert card.kappa.value == pytest.approx(kappa)


def test_several_answers_to_a_case_make_no_rate_surer() -> None:
    once = [answer(case, float(case % 10 > 2), 1.0) for case in range(40)]
    often = [replace(each, slot=replace(each.slot, trial=trial)) for each in once for trial in range(3)]
    first, second = report_card(once).sensitivity, report_card(often).sensitivity
    assert first.rate is not None
    assert second.rate is not None
    assert second.rate.effective_n <= first.rate.effective_n


def test_people_among_themselves_are_the_most_that_a_judge_can_reach() -> None:
    said = [answer(1, 1, 1, 1), answer(2, 1, 0, 0), answer(3, 1, 1, 0), answer(4, 1, 1)]
    people = report_card(said).people
    assert (people.annotators, people.answers) == (2, 3)
    assert people.alike == pytest.approx(2 / 3)
    assert people.alpha == pytest.approx(0.4444444444444444)
    assert people.scale_alpha is None


def test_answers_of_one_kind_give_no_kappa_interval_and_no_correction() -> None:
    card = report_card([answer(case, 1.0, 1.0) for case in range(60)])
    assert (card.kappa.value, card.kappa.interval, card.can_correct) == (None, None, False)
    assert any("50 more fails" in line for line in advice(card))


def test_advice_is_empty_for_enough_answers_of_both_kinds() -> None:
    card = report_card([answer(case, float(case % 7 > 0), float(case % 2), float(case % 2)) for case in range(100)])
    assert advice(card) == []
    assert card.can_correct


def test_the_widest_disagreement_comes_first() -> None:
    said = [answer(1, 0.7, 0.8), answer(2, 1, 1), answer(3, 0, 1), answer(4, 1, 1, 0)]
    assert [each.slot.eval_id for each in disagreements(said)] == ["c-3", "c-1"]


def test_no_answer_at_all_is_a_card_too() -> None:
    card = report_card([])
    assert (card.cases, card.accuracy.rate, card.kappa.value) == (0, None, None)


def test_a_weighted_kappa_leaves_out_answers_on_which_people_are_split() -> None:
    said = [answer(case, case % 5 / 4, (case + case % 3 // 2) % 5 / 4) for case in range(60)]
    split = answer(99, 0.0, 1.0, 0.0)

    assert report_card([*said, split]).weighted == report_card(said).weighted
