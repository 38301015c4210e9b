"""The interval of kappa against statsmodels, and in simulations."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa, to_table

from agentv.scoring.judges.agreement import weighted_kappa
from agentv.scoring.judges.report_card import kappa_error, kappa_interval

SCORES = (0.0, 0.25, 0.5, 0.75, 1.0)
RUNS = 1000


def drawn(
    rng: random.Random, cases: int, *, scores: tuple[float, ...], alike: float
) -> tuple[list[float], list[float]]:
    people = [rng.choice(scores) for _ in range(cases)]
    return [each if rng.random() < alike else rng.choice(scores) for each in people], people


@pytest.mark.parametrize("scores", [(0.0, 1.0), SCORES], ids=["pass and fail", "five grades"])
@pytest.mark.parametrize("seed", range(5))
def test_kappa_error_of_single_answers_is_that_of_fleiss_et_al(scores: tuple[float, ...], seed: int) -> None:
    judge, people = drawn(random.Random(seed), 60, scores=scores, alike=0.6)
    table, _ = to_table([[scores.index(one), scores.index(other)] for one, other in zip(judge, people, strict=True)])
    theirs = cohens_kappa(table, wt="quadratic")
    assert weighted_kappa(judge, people) == pytest.approx(theirs.kappa, abs=1e-9)
    # statsmodels divides by n, a variance over clusters by n - 1.
    assert kappa_error(range(60), judge, people) == pytest.approx(theirs.std_kappa * math.sqrt(60 / 59), abs=1e-9)


@given(
    st.lists(st.tuples(st.sampled_from(SCORES), st.sampled_from(SCORES)), min_size=2, max_size=40), st.integers(2, 4)
)
def test_repeats_of_a_case_that_are_all_alike_make_kappa_no_surer(said: list[tuple[float, float]], times: int) -> None:
    judge, people = [one for one, _ in said], [other for _, other in said]
    once = kappa_error(range(len(said)), judge, people)
    often = kappa_error(list(range(len(said))) * times, judge * times, people * times)
    assert often == pytest.approx(once, abs=1e-9)


def test_two_who_always_agree_give_nothing_to_go_by() -> None:
    said = [0.0, 1.0] * 20
    assert kappa_interval(1.0, kappa_error(range(40), said, said), 40) is None
    assert kappa_error(range(40), [1.0] * 40, [1.0] * 40) is None
    assert kappa_error([1, 1], [0.0, 1.0], [1.0, 1.0]) is None


def held(cases: int, *, repeats: int, is_clustered: bool, runs: int = RUNS) -> float:
    """Return the coverage of the interval. A judge makes the same error on a case each time."""
    rng, inside = random.Random(cases + repeats), 0
    passing, right = 0.6, 0.85
    agree, judged = right, passing * right + (1 - passing) * (1 - right)
    chance = passing * judged + (1 - passing) * (1 - judged)
    truth = (agree - chance) / (1 - chance)
    for _ in range(runs):
        people = [float(rng.random() < passing) for _ in range(cases)]
        judge = [each if rng.random() < right else 1 - each for each in people]
        names = range(cases * repeats) if not is_clustered else [*range(cases)] * repeats
        error = kappa_error(names, judge * repeats, people * repeats)
        value = weighted_kappa(judge, people)
        interval = None if value is None else kappa_interval(value, error, len(set(names)))
        inside += interval is not None and interval.low <= truth <= interval.high
    return inside / runs


@pytest.mark.parametrize("repeats", [1, 3])
@pytest.mark.parametrize("cases", [50, 200])
def test_the_interval_holds_the_truth_in_93_to_97_percent(cases: int, repeats: int) -> None:
    assert 0.93 <= held(cases, repeats=repeats, is_clustered=True) <= 0.97


def test_an_interval_that_takes_repeats_for_cases_does_not() -> None:
    assert held(50, repeats=3, is_clustered=False, runs=300) < 0.8
