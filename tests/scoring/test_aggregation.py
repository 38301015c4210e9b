import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.results.aggregation import (
    case_fields,
    case_verdict,
    evaluators_score,
    first_failed,
    row_status,
    weighted_mean,
)
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, verdict_of
from agentv.types.failures import Failure

UNIT = st.floats(0, 1)
WEIGHTS = st.floats(0, 1e308, allow_subnormal=False)
BROKEN = Failure("evaluator_error", "boom", stage="evaluator")


def result(score: float, **fields: Any) -> EvaluatorResult:
    return EvaluatorResult(**{"name": "a", "type": "contains", **fields, "score": score})


@given(st.lists(st.tuples(WEIGHTS, UNIT), min_size=1))
def test_weighted_mean_stays_within_the_values_that_weigh(pairs: Any) -> None:
    weighing = [value for weight, value in pairs if weight > 0] or [0.0]
    assert min(weighing) <= weighted_mean(pairs) <= max(weighing)


@given(st.lists(st.tuples(st.floats(0.001, 1000), UNIT), min_size=1), st.floats(0.001, 1000))
def test_weighted_mean_depends_on_proportions_only(pairs: Any, factor: Any) -> None:
    scaled = [(weight * factor, value) for weight, value in pairs]
    assert weighted_mean(scaled) == pytest.approx(weighted_mean(pairs), abs=1e-12)


@given(st.lists(st.tuples(st.floats(0.001, 1000), UNIT), min_size=1))
def test_weighted_mean_is_the_textbook_formula(pairs: Any) -> None:
    expected = sum(w * v for w, v in pairs) / sum(w for w, _ in pairs)
    assert weighted_mean(pairs) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.floats(0.001, 1000), UNIT), min_size=1), UNIT)
def test_a_weight_of_zero_changes_nothing(pairs: Any, value: Any) -> None:
    assert weighted_mean([*pairs, (0.0, value)]) == weighted_mean(pairs)


def test_all_weights_zero_give_zero() -> None:
    assert weighted_mean([(0.0, 1.0), (0.0, 0.5)]) == 0.0
    assert weighted_mean([]) == 0.0


def test_the_plain_formula_leaves_its_values_where_ours_does_not() -> None:
    pairs = [(0.1, 0.7)] * 3
    naive = sum(w * v for w, v in pairs) / sum(w for w, _ in pairs)
    assert naive != 0.7
    assert weighted_mean(pairs) == 0.7
    with pytest.raises(OverflowError):
        math.fsum([1e308, 1e308])
    assert weighted_mean([(1e308, 0.5), (1e308, 0.5)]) == 0.5


@pytest.mark.parametrize(
    ("score", "verdict"),
    [(1.0, "pass"), (0.8, "pass"), (0.7 + 0.1, "pass"), (0.79, "borderline"), (0.6, "borderline"), (0.59, "fail")],
)
def test_verdicts_follow_the_bands(score: Any, verdict: Any) -> None:
    assert verdict_of(score) == verdict


def test_a_row_passes_only_with_everything() -> None:
    assert row_status(1.0) == "pass"
    assert row_status(1.0 - 1e-10) == "pass"
    assert row_status(0.999) == "fail"


def test_evaluators_are_averaged_by_weight_and_skipped_ones_left_out() -> None:
    rows = [result(0.8, weight=3), result(0.4, weight=1), result(0.0, weight=9, status="skipped")]
    assert evaluators_score(rows) == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (result(0.9, required=True), "pass"),
        (result(0.7, required=True), "fail"),
        (result(0.7, required=0.7), "pass"),
        (result(0.69, required=0.7), "fail"),
        (result(0.0, required=True, status="skipped"), "pass"),
        (result(0.9, required=True, verdict="fail"), "fail"),
        (result(0.9, verdict="fail"), "pass"),
    ],
)
def test_a_required_evaluator_decides_the_case(row: Any, verdict: Any) -> None:
    assert case_verdict(0.9, [row]) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(1.0, "pass"), (0.0, "fail"), (None, "fail")])
def test_a_required_rubric_item_decides_the_case_even_inside_a_composite(value: Any, verdict: Any) -> None:
    item = EvaluationResult("amount", score=None, value=value, metadata={"required": True})
    rubric = result(0.9, results=(item,))
    assert case_verdict(0.9, [rubric]) == verdict
    assert case_verdict(0.9, [result(0.9, evaluator_results=(rubric,))]) == verdict


def test_an_error_counts_against_the_row_unless_it_weighs_nothing() -> None:
    broken = result(0.0, name="broken", error=BROKEN, status="error")
    fine = result(1.0)
    assert first_failed([fine, broken]) is broken
    assert first_failed([fine, result(0.0, error=BROKEN, weight=0.0)]) is None
    assert first_failed([fine, result(0.0, error=BROKEN, weight=0.0, required=0.0)]) is not None
    assert first_failed([result(0.5, evaluator_results=(fine, broken))]) is broken
    assert first_failed([result(0.5, weight=0.0, evaluator_results=(fine, broken))]) is None


def test_case_fields_join_several_evaluators_in_order() -> None:
    fields = case_fields(
        [
            result(1.0, name="a", hits=("h1",), reasoning="fine", expected_aspect_count=1),
            result(0.0, name="b", misses=("m1", "m2"), reasoning="bad", expected_aspect_count=2, raw_aspects=("x",)),
            result(0.5, name="c", expected_aspect_count=0),
        ]
    )
    assert fields.hits == ("h1",)
    assert fields.misses == ("m1", "m2")
    assert fields.reasoning == "a: fine | b: bad"
    assert fields.expected_aspect_count == 4
    assert fields.raw_aspects == ("x",)


def test_one_evaluator_speaks_without_its_name() -> None:
    assert case_fields([result(1.0, reasoning="fine")]).reasoning == "fine"
    assert case_fields([result(1.0)]).reasoning is None
