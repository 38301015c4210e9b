"""Several criteria in one reply: each is read on its own scale, and an error in one leaves the others unaffected."""

import json
import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentv.scoring.judge_replies.replies import (
    CriteriaReply,
    ReplyRules,
    UnusableReplyError,
    criteria_score,
    parse_criteria,
)
from agentv.scoring.results.criteria import UNBOUNDED_ADVICE
from agentv.types.evaluation import EvaluationScore
from agentv.types.scales import EvaluationCriteria

NONCE = "6f1c"
RULES = ReplyRules(NONCE, is_code=True)
SCALES = {
    "binary": EvaluationCriteria("binary"),
    "pass/fail": EvaluationCriteria("pass/fail", scale="pass/fail"),
    "likert5": EvaluationCriteria("likert5", scale="likert5"),
    "numeric": EvaluationCriteria("numeric", scale="numeric"),
    "0 to 10": EvaluationCriteria("0 to 10", scale="numeric", min=0, max=10),
    "percent": EvaluationCriteria("percent", scale="percent"),
    "labels": EvaluationCriteria("labels", scale="labels", labels=("poor", "fair", "good")),
    "numbered": EvaluationCriteria("numbered", scale="labels", labels=("1", "2", "3")),
    "custom": EvaluationCriteria("custom", scale="mood"),
}


def entry(name: str, score: object, reasoning: str = "so it is") -> dict[str, object]:
    return {"name": name, "score": score, "reasoning": reasoning}


def reply_of(*entries: dict[str, object]) -> CriteriaReply:
    text = json.dumps({"nonce": NONCE, "criteria": list(entries), "overall_reasoning": "all in all"})
    return parse_criteria(text, RULES, names=SCALES)


def scored(criterion: str, score: object) -> EvaluationScore:
    return criteria_score([SCALES[criterion]], [reply_of(entry(criterion, score))])


@pytest.mark.parametrize(
    ("criterion", "said", "value", "score"),
    [
        ("binary", True, 1.0, True),
        ("binary", 1, 1.0, True),
        ("binary", "no", 0.0, False),
        ("pass/fail", "Pass", 1.0, "pass"),
        ("pass/fail", False, 0.0, "fail"),
        ("likert5", 4, 0.75, 4),
        ("likert5", "4", 0.75, 4),
        ("likert5", "4/5", 0.75, 4),
        ("likert5", True, 1.0, 5),
        ("numeric", 0.85, 0.85, 0.85),
        ("numeric", "85%", 0.85, 0.85),
        ("0 to 10", "7", 0.7, 7),
        ("percent", 85, 0.85, 85),
        ("percent", "85%", 0.85, 85),
        ("labels", "Fair", 0.5, "fair"),
        ("numbered", 3, 1.0, "3"),
        ("custom", "cheerful", None, "cheerful"),
    ],
)
def test_a_score_is_read_on_its_own_scale(criterion: str, said: object, value: float | None, score: object) -> None:
    (result,) = scored(criterion, said).results
    assert (result.error, result.reasoning) == (None, "so it is")
    assert result.value == (value if value is None else pytest.approx(value))
    assert result.score == (score if isinstance(score, str) else pytest.approx(score))


@pytest.mark.parametrize(
    ("criterion", "said", "why"),
    [
        ("binary", 0.5, "0.5 is not 0 or 1, as the scale binary demands"),
        ("likert5", 6, "6 is outside 1 to 5 (likert5)"),
        ("likert5", "very good", "'very good' cannot be read on the scale likert5"),
        ("numeric", -1, f"-1 is outside 0 to 1 (numeric){UNBOUNDED_ADVICE}"),
        ("numeric", 85, f"85 is outside 0 to 1 (numeric){UNBOUNDED_ADVICE}"),
        ("numeric", 1.2, f"1.2 is outside 0 to 1 (numeric){UNBOUNDED_ADVICE}"),
        ("0 to 10", 11, "11 is outside 0 to 10 (0 to 10)"),
        ("labels", "superb", "'superb' is not one of the labels poor, fair, good"),
        ("labels", 2, "'2' is not one of the labels poor, fair, good"),
        ("likert5", None, "the judge gave no score"),
        ("likert5", [4], "the judge gave [4.0], which is not a score"),
        ("likert5", math.inf, "inf is outside 1 to 5 (likert5)"),
    ],
)
def test_a_score_off_its_scale_is_an_error_that_says_so(criterion: str, said: object, why: str) -> None:
    score = scored(criterion, said)
    (result,) = score.results
    assert (result.score, result.value, result.error) == (None, None, why)
    assert score.error is not None
    assert (score.error.kind, score.error.message) == ("judge_error", f"{criterion}: {why}")


@pytest.mark.parametrize("said", ["cheerful", True, "yes", 3])
def test_scores_on_text_scales_alone_are_stored_and_nothing_is_scored(said: object) -> None:
    score = scored("custom", said)
    (result,) = score.results
    assert (result.score, result.value, result.error) == (said, None, None)
    assert (score.status, score.verdict, score.error) == ("skipped", None, None)


def test_the_score_is_the_weighted_mean_over_the_criteria() -> None:
    criteria = [EvaluationCriteria("facts", weight=3.0), EvaluationCriteria("tone", scale="likert5")]
    text = json.dumps({"criteria": [entry("facts", True), entry("tone", 3)], "overall_reasoning": "all in all"})
    read = parse_criteria(text, RULES, names=["facts", "tone"])
    score = criteria_score(criteria, [read])
    assert score.score == pytest.approx((3 * 1.0 + 1 * 0.5) / 4)
    assert (score.hits, score.misses) == (("facts: so it is",), ("tone: so it is",))
    assert (score.reasoning, score.expected_aspect_count, score.error) == ("all in all", 2, None)


@pytest.mark.parametrize(
    ("entries", "why"),
    [
        ([], "the judge did not answer it"),
        ([entry("likert5", 4), entry("likert5", 2)], "the judge answered it twice, differently"),
        ([entry("likert5", 4), entry("likert5", True)], "the judge answered it twice, differently"),
    ],
)
def test_what_is_wrong_with_one_criterion_leaves_the_others_alone(entries: list[dict[str, object]], why: str) -> None:
    read = reply_of(entry("binary", True), *entries)
    score = criteria_score([SCALES["binary"], SCALES["likert5"]], [read])
    met, broken = score.results
    assert (met.value, met.error) == (1.0, None)
    assert (broken.value, broken.error) == (None, why)
    assert score.status == "error"


def test_the_same_answer_twice_is_one() -> None:
    read = reply_of(entry("likert5", 4), entry("likert5", "4/5"))
    assert criteria_score([SCALES["likert5"]], [read]).score == 0.75


def test_several_opinions_are_voted_on_and_their_spread_is_kept() -> None:
    replies = [
        reply_of(entry("likert5", mark, f"mark {mark}"), entry("custom", mood))
        for mark, mood in ((1, "calm"), (4, "gay"), (5, "calm"))
    ]
    score = criteria_score([SCALES["likert5"], SCALES["custom"]], replies, vote="median")
    likert, custom = score.results
    assert (likert.score, likert.value, likert.reasoning) == (4, 0.75, "mark 4")
    assert likert.metadata is not None
    assert likert.metadata["spread"]["values"] == [0.0, 0.75, 1.0]  # type: ignore[index,call-overload]
    assert (custom.score, custom.metadata) == ("calm", {"opinions": ["calm", "gay", "calm"]})


def test_an_invalid_opinion_breaks_the_panel_on_its_criterion_only() -> None:
    replies = [reply_of(entry("likert5", 4), entry("binary", True)), reply_of(entry("binary", True))]
    likert, binary = criteria_score([SCALES["likert5"], SCALES["binary"]], replies).results
    assert (likert.error, binary.value) == ("the judge did not answer it", 1.0)


@pytest.mark.parametrize("reply", ["", "{}", '{"criteria": []}', '{"criteria": [{"name": "other", "score": 1}]}'])
def test_a_reply_that_answers_no_criterion_is_no_verdict(reply: str) -> None:
    with pytest.raises(UnusableReplyError):
        parse_criteria(reply, RULES, names=SCALES)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
ENTRIES = st.lists(st.fixed_dictionaries({"name": st.sampled_from(list(SCALES)), "score": ANYTHING}), min_size=1)


@given(st.lists(ENTRIES, min_size=1, max_size=3), st.sampled_from(["mean", "median", "majority", "min"]))
@example([[{"name": "custom", "score": False}]], "mean")
def test_any_score_is_in_0_to_1_or_on_a_custom_scale_or_an_error(replies: list[list[Any]], vote: Any) -> None:
    read = [parse_criteria(json.dumps({"criteria": entries}), RULES, names=SCALES) for entries in replies]
    score = criteria_score(list(SCALES.values()), read, vote=vote)
    assert 0.0 <= score.score <= 1.0
    for result in score.results:
        placed = result.value is not None and 0.0 <= result.value <= 1.0
        kept = result.scale == "mood" and isinstance(result.score, str | float | bool) and result.value is None
        assert [placed or kept, result.error is not None].count(True) == 1
