"""Agreement between annotators, against published examples and established packages."""

import doctest
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.judges import agreement
from agentv.scoring.judges.agreement import Label, Metric, Weights, cohen_kappa, krippendorff_alpha, weighted_kappa

# Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability", part D: four observers, twelve units, 7 gaps.
OBSERVERS: tuple[tuple[int | None, ...], ...] = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)
# Computed by scikit-learn 1.9.1 (cohen_kappa_score; the same in statsmodels 0.15.0) and krippendorff 0.9.0.
COMPUTED = json.loads((Path(__file__).parent.parent / "fixtures" / "agreement.json").read_text("utf-8"))

labels = st.integers(1, 5)
pairs = st.lists(st.tuples(labels, labels), min_size=1, max_size=30)
units = st.lists(st.lists(st.none() | labels, max_size=4), max_size=12)
metrics = st.sampled_from(get_args(Metric))
weights = st.sampled_from(get_args(Weights))


def split(judged: Sequence[tuple[int, int]]) -> tuple[list[int], list[int]]:
    return [one for one, _ in judged], [other for _, other in judged]


@pytest.mark.parametrize(("metric", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_own_example(metric: Metric, published: float) -> None:
    alpha = krippendorff_alpha(zip(*OBSERVERS, strict=True), metric=metric)
    assert alpha == pytest.approx(published, abs=0.0005)


def test_kappa_of_a_two_by_two_table_worked_by_hand() -> None:
    # 20 both yes, 15 both no, 5 and 10 apart: po = 0.7, pe = 0.5 * 0.6 + 0.5 * 0.4 = 0.5.
    first = ["yes"] * 20 + ["yes"] * 5 + ["no"] * 10 + ["no"] * 15
    second = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    assert cohen_kappa(first, second) == pytest.approx(0.4, abs=1e-9)


@pytest.mark.parametrize("case", COMPUTED)
def test_the_established_packages_say_the_same(case: dict[str, list[int]]) -> None:
    first, second, order = case["first"], case["second"], case["order"]
    assert cohen_kappa(first, second) == pytest.approx(case["kappa"], abs=1e-9)
    for how in get_args(Weights):
        assert weighted_kappa(first, second, weights=how, order=order) == pytest.approx(case[how], abs=1e-9)
        assert weighted_kappa(first, second, weights=how) == pytest.approx(case[how], abs=1e-9)
    for metric in get_args(Metric):
        alpha = krippendorff_alpha(case["units"], metric=metric)  # type: ignore[arg-type]
        assert alpha == pytest.approx(case[f"alpha_{metric}"], abs=1e-9)


@given(pairs, weights)
def test_no_coefficient_exceeds_one_and_the_order_of_annotators_is_none(
    judged: list[tuple[int, int]], how: Weights
) -> None:
    first, second = split(judged)
    for one, other in [
        (cohen_kappa(first, second), cohen_kappa(second, first)),
        (weighted_kappa(first, second, weights=how), weighted_kappa(second, first, weights=how)),
    ]:
        assert (one is None) == (other is None)
        assert one is None or (one == pytest.approx(other) and -1 <= one <= 1 + 1e-12)


@given(pairs)
def test_full_agreement_is_one_unless_only_one_label_was_given(judged: list[tuple[int, int]]) -> None:
    same = [one for one, _ in judged]
    expected = None if len(set(same)) == 1 else 1.0
    assert cohen_kappa(same, same) == expected
    assert weighted_kappa(same, same) == expected
    assert krippendorff_alpha([(each, each) for each in same]) == expected
    assert krippendorff_alpha([(each, each) for each in same], metric="interval") == expected


@given(units, metrics)
def test_alpha_does_not_ask_who_said_it_or_in_which_order(judged: list[list[int | None]], metric: Metric) -> None:
    alpha = krippendorff_alpha(judged, metric=metric)
    turned = krippendorff_alpha([[*reversed(unit), None] for unit in reversed(judged)], metric=metric)
    assert (alpha is None) == (turned is None)
    assert alpha is None or (alpha == pytest.approx(turned) and alpha <= 1.0)


@given(units, st.floats(0.001, 1000), st.floats(-1000, 1000))
def test_interval_alpha_knows_no_unit_of_measure(judged: list[list[int | None]], step: float, start: float) -> None:
    moved = [[None if label is None else start + step * label for label in unit] for unit in judged]
    before, after = krippendorff_alpha(judged, metric="interval"), krippendorff_alpha(moved, metric="interval")
    assert (before is None) == (after is None)
    assert before is None or before == pytest.approx(after, abs=1e-6)


@given(units)
def test_ordinal_alpha_sees_the_order_alone(judged: list[list[int | None]]) -> None:
    squared = [[None if label is None else label**3 for label in unit] for unit in judged]
    assert krippendorff_alpha(judged, metric="ordinal") == krippendorff_alpha(squared, metric="ordinal")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ([], []),
        ([None, "a"], ["a", None]),
        (["a", "a", "a"], ["a", "a", "a"]),
    ],
)
def test_kappa_of_nothing_or_of_one_label_is_not_defined(first: list[Label | None], second: list[Label | None]) -> None:
    assert cohen_kappa(first, second) is None
    assert weighted_kappa(first, second, order=["a", "b"]) is None


@pytest.mark.parametrize("judged", [[], [[1], [None, 2], []], [[3, 3], [3, 3, 3]]])
def test_alpha_of_nothing_or_of_one_label_is_not_defined(judged: list[list[int | None]]) -> None:
    for metric in get_args(Metric):
        assert krippendorff_alpha(judged, metric=metric) is None


def test_two_who_never_agree_are_below_chance() -> None:
    assert cohen_kappa([True, False], [False, True]) == -1.0
    assert weighted_kappa([True, False], [False, True]) == -1.0


def test_a_near_miss_costs_less_than_a_far_one_when_labels_have_an_order() -> None:
    order = ["poor", "fair", "good"]
    near = weighted_kappa(["poor", "fair", "good"], ["poor", "good", "good"], order=order)
    far = weighted_kappa(["poor", "fair", "good"], ["poor", "fair", "poor"], order=order)
    assert near is not None
    assert far is not None
    assert near > far


def test_labels_that_are_never_given_do_not_shorten_the_scale() -> None:
    assert weighted_kappa([1, 5, 1], [1, 5, 4]) == weighted_kappa([1, 5, 1], [1, 5, 4], order=[1, 2, 3, 4, 5])


def test_the_largest_numbers_have_an_alpha() -> None:
    assert krippendorff_alpha([(-1e308, -1e308), (1.7e308, 1.7e308)], metric="interval") == 1.0


def test_annotators_of_different_things_are_refused() -> None:
    with pytest.raises(ValueError, match="judged 2 and 1 items"):
        cohen_kappa(["a", "b"], ["a"])


def test_a_label_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="'good' is not a finite number; give `order`"):
        weighted_kappa(["good"], ["good"])
    with pytest.raises(ValueError, match="'worse' is not one of the labels bad, good"):
        krippendorff_alpha([("good", "worse")], metric="ordinal", order=["bad", "good"])


def test_a_misspelt_choice_is_refused_and_gives_no_number() -> None:
    misspelt: Any = "lin"
    with pytest.raises(ValueError, match="`weights` must be 'linear' or 'quadratic', not 'lin'"):
        weighted_kappa([1, 2, 4], [1, 2, 5], weights=misspelt)
    with pytest.raises(ValueError, match="`metric` must be 'nominal' or 'ordinal' or 'interval', not 'lin'"):
        krippendorff_alpha([(1, 2), (2, 2)], metric=misspelt)


@pytest.mark.parametrize("unit", [3, "fair"])
def test_labels_that_are_not_put_together_by_thing_are_refused(unit: Any) -> None:
    with pytest.raises(ValueError, match="each item must be a list of its labels, one for each annotator"):
        krippendorff_alpha([unit, unit])


def test_the_examples_in_the_docstrings_hold() -> None:
    assert doctest.testmod(agreement).failed == 0
