import pytest

from agentv.scoring.judge_replies.replies import RubricCheck, RubricReply
from agentv.scoring.judge_replies.rubrics import make_items, rubric_score, with_marks_off_scale
from agentv.types.cases import RubricItem

RULE = RubricItem("rule", "Mentions the 30-day rule")
AMOUNT = RubricItem("amount", "States the amount", weight=2, required=True)
TONE = RubricItem("tone", "Is polite", scale="likert5")


def reply(**checks: bool | float | None) -> RubricReply:
    made = {
        item: RubricCheck(satisfied=value) if isinstance(value, bool) else RubricCheck(satisfied=None, mark=value)
        for item, value in checks.items()
    }
    return RubricReply(made)


def test_the_score_is_the_weight_met_of_all_items() -> None:
    score = rubric_score((RULE, AMOUNT), [reply(rule=False, amount=True)])
    assert score.score == pytest.approx(2 / 3)
    assert score.hits == ("[amount] States the amount",)
    assert score.misses == ("[rule] Mentions the 30-day rule",)
    assert score.expected_aspect_count == 2
    assert (score.verdict, score.must_fail) == ("borderline", False)


def test_an_item_left_out_or_contradicted_is_not_met_and_named() -> None:
    said = RubricReply({"rule": RubricCheck(satisfied=True)}, contradicted=frozenset({"rule"}))
    score = rubric_score((RULE, AMOUNT), [said])
    assert score.score == 0.0
    assert score.misses == (
        "[rule] Mentions the 30-day rule: the judge answered it twice, differently",
        "[amount] States the amount: the judge gave no usable answer",
    )


@pytest.mark.parametrize(("said", "verdict"), [(reply(rule=True, amount=True), "pass"), (reply(rule=True), "fail")])
def test_a_required_item_unmet_or_unanswered_makes_the_verdict_fail(said: RubricReply, verdict: str) -> None:
    assert rubric_score((RULE, AMOUNT), [said]).verdict == verdict


def test_reasons_follow_their_item() -> None:
    said = RubricReply({"rule": RubricCheck(satisfied=True, reasoning="says 30 days")}, reasoning="good")
    score = rubric_score((RULE,), [said])
    assert score.hits == ("[rule] Mentions the 30-day rule: says 30 days",)
    assert score.reasoning == "good"


@pytest.mark.parametrize(("mark", "value", "met"), [(5, 1.0, True), (4, 0.75, True), (3, 0.5, False), (1, 0.0, False)])
def test_a_graded_item_enters_as_its_share(mark: float, value: float, met: bool) -> None:
    score = rubric_score((TONE,), [reply(tone=mark)])
    assert score.score == value
    assert bool(score.hits) is met
    assert score.results[0].score == mark


@pytest.mark.parametrize("mark", [0, 6, 0.5])
def test_a_mark_off_the_scale_is_an_error_of_its_item(mark: float) -> None:
    read = with_marks_off_scale(reply(tone=mark), (TONE,))
    assert read.off_scale == f"[tone] {mark:g} is outside 1 to 5"
    score = rubric_score((TONE,), [read])
    assert score.misses == (f"[tone] Is polite: {mark:g} is outside 1 to 5",)
    (result,) = score.results
    assert (result.score, result.value, result.error) == (None, None, f"{mark:g} is outside 1 to 5")


def test_a_graded_item_is_not_answered_by_true() -> None:
    assert rubric_score((TONE,), [reply(tone=True)]).score == 0.0


def test_several_replies_vote_on_each_item() -> None:
    replies = [reply(rule=True, amount=True), reply(rule=True, amount=False), reply(rule=False, amount=False)]
    assert rubric_score((RULE, AMOUNT), replies, vote="majority").score == pytest.approx(1 / 3)
    assert rubric_score((RULE, AMOUNT), replies, vote="min").score == 0.0
    assert rubric_score((RULE,), replies).score == pytest.approx(2 / 3)


def test_plain_texts_become_items_called_by_their_place() -> None:
    assert make_items(("Says hello", AMOUNT, "Says goodbye")) == (
        RubricItem("rubric-1", "Says hello"),
        AMOUNT,
        RubricItem("rubric-3", "Says goodbye"),
    )


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ((AMOUNT, AMOUNT), "two rubric items have the id 'amount'"),
        ((" ",), "every rubric item needs an id and a description"),
        ((RubricItem("a", "b", weight=float("nan")),), "the weight of rubric item 'a' must be a finite number"),
        ((RubricItem("a", "b", weight=-1),), "the weight of rubric item 'a' must be a finite number"),
    ],
)
def test_rubrics_that_mean_nothing_are_refused(items: tuple[RubricItem | str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_items(items)
