"""The permutation test against a count of all sign patterns."""

import itertools
import math
import random
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentv.scoring.statistics.sign_flips import DRAWS, SignFlips, _counted_share, _drawn_share, permutation_test


def p_of(differences: Sequence[float]) -> float:
    return permutation_test(differences, random.Random(0)).p


def counted(differences: Sequence[float]) -> float:
    """Count every pattern of signs, one by one."""
    observed = abs(sum(differences)) - 1e-9
    patterns = itertools.product((1, -1), repeat=len(differences))
    as_far = [abs(sum(sign * each for sign, each in zip(signs, differences, strict=True))) for signs in patterns]
    return sum(each >= observed for each in as_far) / len(as_far)


fractions = st.sampled_from([-1, -2 / 3, -0.5, -1 / 3, -0.25, -0.1, 0, 0.05, 0.1, 0.3, 1 / 3, 0.5, 2 / 3, 1])


@given(st.lists(fractions, max_size=10))
def test_p_is_the_share_of_sign_patterns_as_far_from_0_with_ties(differences: list[float]) -> None:
    assert p_of(differences) == pytest.approx(counted(differences), abs=1e-12)


@given(st.lists(st.sampled_from([-1, 0, 1]), max_size=40))
def test_on_pass_and_fail_it_is_mcnemars_exact_test(changes: list[int]) -> None:
    changed, fewer = changes.count(1) + changes.count(-1), min(changes.count(1), changes.count(-1))
    tail = sum(math.comb(changed, each) for each in range(fewer + 1))
    assert p_of(changes) == pytest.approx(min(1.0, 2 * tail / 2**changed), abs=1e-12)


@given(st.lists(fractions, min_size=6, max_size=9))
@example([-2 / 3, -1 / 2, -1 / 3, 0, 0, 1 / 10, 1 / 10, 3 / 10, 1])  # its mean is 0, but not in floats
def test_the_interval_has_the_differences_that_sign_flips_do_not_reject(differences: list[float]) -> None:
    found = SignFlips.of([[each] for each in differences], random.Random(0))
    interval = found.interval()
    assert interval is not None
    if found.changed < 6 or not found.differences.deviation:
        return  # wider, for the cases outside the sample
    for bound, outside in ((interval.low, -1), (interval.high, 1)):
        assert counted([each - bound + 1e-6 * outside for each in differences]) > 0.05
        if abs(bound) < 1:
            assert counted([each - bound - 1e-6 * outside for each in differences]) <= 0.05


def test_few_changes_leave_room_for_the_cases_outside_the_sample() -> None:
    interval = SignFlips.of([[-1 / 3], *([0.0] for _ in range(49))], random.Random(0)).interval()
    assert interval is not None
    assert interval.low < -0.07
    assert interval.high > 0.05


def test_equal_changes_bound_the_mean_on_the_side_of_0() -> None:
    interval = SignFlips.of([[0.5]] * 9, random.Random(0)).interval()
    assert interval is not None
    assert 0.3 < interval.low < 0.5
    assert 0.6 < interval.high < 0.7


def test_with_fewer_than_six_cases_any_difference_is_possible() -> None:
    interval = SignFlips.of([[0.5], [0.4], [0.6], [0.5], [0.3]], random.Random(0)).interval()
    assert interval is not None
    assert (interval.low, interval.high) == (-1, 1)


@given(st.lists(st.floats(-1, 1), max_size=30))
def test_which_run_came_first_does_not_matter(differences: list[float]) -> None:
    assert p_of(differences) == p_of([-each for each in differences])


def test_cases_that_did_not_change_say_nothing() -> None:
    assert p_of([0.5] * 8) == p_of([0.5] * 8 + [0.0] * 1000) == 2 / 2**8


def test_nothing_changed() -> None:
    assert p_of([]) == p_of([0.0, 0.0]) == p_of([0.3, -0.3]) == 1.0


def test_many_cases_are_drawn_and_the_same_seed_draws_the_same() -> None:
    rng = random.Random(7)
    differences = [rng.gauss(0.01, 0.3) for _ in range(3000)]
    first = permutation_test(differences, random.Random(1))
    assert not first.is_exact
    assert first == permutation_test(differences, random.Random(1))
    assert first.p >= 1 / (DRAWS + 1)


def test_what_is_drawn_agrees_with_what_is_counted() -> None:
    rng = random.Random(3)
    for _ in range(5):
        steps = [rng.randint(-9, 11) for _ in range(60)]
        observed = abs(sum(steps))
        drawn = _drawn_share(Counter(map(abs, steps)), observed, rng)
        # Four standard errors of a share of 10,000 draws.
        assert drawn == pytest.approx(_counted_share([each for each in steps if each], observed), abs=0.02)
