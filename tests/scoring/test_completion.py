import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.completion import to_score
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.failures import Failure
from agentv.types.scales import EvaluationCriteria

ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
    st.builds(EvaluationScore, score=st.floats()),
    st.builds(EvaluationResult, st.text(), st.one_of(st.floats(), st.booleans(), st.text())),
    st.lists(st.builds(EvaluationResult, st.sampled_from(["a", "b"]), st.one_of(st.floats(), st.text()))),
)


@given(ANYTHING, st.booleans())
def test_whatever_an_evaluator_returns_ends_as_a_finite_score(output: Any, negate: Any) -> None:
    score = to_score(output, name="x", kind="k", negate=negate)
    assert math.isfinite(score.score)
    assert 0.0 <= score.score <= 1.0
    assert score.expected_aspect_count >= 1
    assert score.results
    assert all(each.value is None or 0.0 <= each.value <= 1.0 for each in score.results)


@pytest.mark.parametrize(
    ("output", "expected"),
    [(True, 1.0), (False, 0.0), (1, 1.0), (0.25, 0.25), (Fraction(1, 4), 0.25), (1 + 1e-12, 1.0), (-1e-12, 0.0)],
)
def test_simple_values_become_scores(output: Any, expected: Any) -> None:
    score = to_score(output, name="tone", kind="mine")
    assert score.score == expected
    assert score.error is None
    assert score.results[0].criterion_name == "tone"
    assert score.results[0].evaluator_type == "mine"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (math.nan, "the score of 'tone' is nan; allowed: 0 to 1"),
        (math.inf, "the score of 'tone' is inf; allowed: 0 to 1"),
        (10**400, "the score of 'tone' is inf; allowed: 0 to 1"),
        (1.5, "the score of 'tone' is 1.5; allowed: 0 to 1"),
        (
            None,
            (
                "evaluator 'tone' returned nothing; allowed: an EvaluationScore, a number from 0 to 1, a bool, or "
                "EvaluationResults"
            ),
        ),
    ],
)
def test_what_is_no_score_is_an_error_of_the_evaluator(output: Any, message: Any) -> None:
    score = to_score(output, name="tone")
    assert score.score == 0.0
    assert score.error == Failure("evaluator_error", message, stage="evaluator")
    assert score.misses == (message,)
    assert score.status == "error"


def test_a_whole_score_keeps_what_it_says() -> None:
    given_score = EvaluationScore(0.5, hits=("a", "b"), misses=("c",), reasoning="why", verdict="fail")
    score = to_score(given_score, name="x")
    assert (score.score, score.hits, score.misses, score.verdict) == (0.5, ("a", "b"), ("c",), "fail")
    assert score.expected_aspect_count == 3


def test_negation_turns_the_score_and_its_reasons_but_never_an_error() -> None:
    score = to_score(EvaluationScore(0.25, hits=("has it",), misses=()), name="x", negate=True)
    assert (score.score, score.hits, score.misses) == (0.75, (), ("has it",))
    assert to_score(math.nan, name="x", negate=True).score == 0.0


def test_results_per_criterion_weigh_by_their_criteria() -> None:
    criteria = (
        EvaluationCriteria("tone", scale="likert5", weight=3),
        EvaluationCriteria("facts", scale="binary", weight=1),
    )
    output = [EvaluationResult("tone", 4), EvaluationResult("facts", False, reasoning="wrong year")]
    score = to_score(output, kind="mine", criteria=criteria)
    assert score.score == pytest.approx((3 * 0.75 + 1 * 0.0) / 4)
    assert score.hits == ("tone",)
    assert score.misses == ("facts: wrong year",)
    assert [each.value for each in score.results] == [0.75, 0.0]


def test_several_results_for_one_criterion_enter_as_their_mean_once() -> None:
    output = [EvaluationResult("a", 1.0), EvaluationResult("a", 0.0), EvaluationResult("b", 1.0)]
    assert to_score(output).score == pytest.approx(0.75)


def test_one_unreadable_result_makes_the_evaluator_an_error() -> None:
    score = to_score([EvaluationResult("a", True), EvaluationResult("b", "perhaps")])
    assert score.error is not None
    assert score.error.message == "b: 'perhaps' cannot be read on the scale binary"
    assert score.results[0].value == 1.0
    assert score.results[1].value is None


def test_a_value_is_reported_on_the_scale_of_its_criterion() -> None:
    criteria = (EvaluationCriteria("tone", scale="likert5"), EvaluationCriteria("ok", scale="pass/fail"))
    assert to_score(True, name="tone", criteria=criteria).results[0].score == 5
    assert to_score(0.0, name="ok", criteria=criteria).results[0].score == "fail"
    assert to_score(math.nan, name="tone", criteria=criteria).results[0].score is None
