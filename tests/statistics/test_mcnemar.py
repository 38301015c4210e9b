"""The score test of McNemar, Tango's interval, and the power of both."""

import math
import random
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.statistics.mcnemar import PassChanges, mcnemar_test, score_power
from agentv.scoring.statistics.paired import paired_procedure
from agentv.scoring.statistics.sign_flips import SignFlips

LEVEL = 0.05
MOST_FALSE_ALARMS = 0.0537
"""The largest rate of false alarms if at most half of the cases change, found below."""

differences = st.one_of(
    st.lists(st.sampled_from([-1.0, -2 / 3, -1 / 3, 0.0, 1 / 3, 2 / 3, 1.0]), min_size=1, max_size=16),
    st.lists(st.floats(-1, 1).map(lambda value: round(value, 2)), min_size=1, max_size=16),
)
levels = st.sampled_from([0.95, 0.975, 1 - 0.05 / 3, 0.99])


def test_the_interval_excludes_0_exactly_if_p_is_at_most_5_percent() -> None:
    """For all counts of up to 30 cases."""
    for cases in range(2, 31):
        for gained in range(cases + 1):
            for lost in range(cases + 1 - gained):
                changes = PassChanges(cases, gained, lost)
                interval = changes.interval()
                assert interval is not None
                assert (interval.low > 0 or interval.high < 0) is (changes.p <= LEVEL), changes
                assert -1 <= interval.low <= changes.difference + 1e-12
                assert changes.difference - 1e-12 <= interval.high <= 1


@given(differences, levels, st.randoms(use_true_random=False))
def test_and_so_does_that_of_sign_flips(values: list[float], level: float, rng: random.Random) -> None:
    clusters, start = [], 0
    while start < len(values):
        size = rng.choice((1, 1, 2, 3))
        clusters.append(values[start : start + size])
        start += size
    procedure = paired_procedure(clusters, random.Random(0))
    interval = procedure.interval(level)
    if len(clusters) == 1:
        assert interval is None
        return
    assert interval is not None
    assert (interval.low > 0 or interval.high < 0) is (procedure.p <= 1 - level + 1e-12)


@given(st.lists(st.floats(-0.5, 1).map(lambda value: round(value, 3)), min_size=14, max_size=60), levels)
def test_and_if_subsets_are_drawn(values: list[float], level: float) -> None:
    flips = SignFlips.of([[each] for each in values], random.Random(0))
    interval = flips.interval(level)
    assert interval is not None
    assert (interval.low > 0 or interval.high < 0) is (flips.p <= 1 - level + 1e-12)


def test_a_hundred_thousand_changed_cases_take_no_time() -> None:
    assert mcnemar_test(50_500, 49_500) == pytest.approx(0.0015654, rel=1e-4)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_it_stays_a_chance(gained: int, lost: int) -> None:
    assert 0 <= mcnemar_test(gained, lost) <= 1


def binomial(count: int, trials: int, chance: float) -> float:
    return comb(trials, count) * chance**count * (1 - chance) ** (trials - count)


@pytest.mark.parametrize("cases", [4, 8, 12, 30, 50, 100, 200])
def test_false_alarms_are_at_most_5_percent_or_hardly_more(cases: int) -> None:
    """Of two equally good runs, a case changes with a chance of at most one half: that of two coin flips."""
    rates = [score_power(cases, 0.0, share / 50) for share in range(1, 26)]
    assert max(rates) <= MOST_FALSE_ALARMS


def test_power_is_the_share_of_all_outcomes_that_are_significant() -> None:
    cases, gained, lost = 12, 0.3, 0.1
    found = math.fsum(
        binomial(up + down, cases, gained + lost) * binomial(up, up + down, gained / (gained + lost))
        for up in range(cases + 1)
        for down in range(cases + 1 - up)
        if PassChanges(cases, up, down).p <= LEVEL
    )
    assert score_power(cases, gained - lost, gained + lost) == pytest.approx(found, abs=1e-9)


def test_more_is_detected_than_by_exact_tests() -> None:
    """Of 200 cases, 3 % break: six on average, of which the score test needs four, mid-p five, the exact test six."""
    at_least = [math.fsum(binomial(broken, 200, 0.03) for broken in range(fewest, 201)) for fewest in (4, 5, 6)]
    assert [round(each, 2) for each in at_least] == [0.85, 0.72, 0.56]
    assert score_power(200, -0.03, 0.03) == pytest.approx(at_least[0], abs=1e-6)
    exact = {changed: 2 * 0.5**changed for changed in (5, 6)}
    mid_p = {changed: 0.5**changed for changed in (4, 5)}
    assert mcnemar_test(0, 3) > LEVEL >= mcnemar_test(0, 4)
    assert mid_p[4] > LEVEL >= mid_p[5]
    assert exact[5] > LEVEL >= exact[6]


@pytest.mark.parametrize("cases", [50, 400, 3000])
def test_the_minimum_detectable_difference_has_80_percent_power(cases: int) -> None:
    changes = PassChanges(cases, cases // 25, cases // 10)
    least = changes.detectable()
    assert least is not None
    assert score_power(cases, least, max(14 / 100, least)) == pytest.approx(0.8, abs=0.02)


def test_the_number_of_cases_that_are_needed() -> None:
    changes = PassChanges(50, 2, 7)
    needed = changes.needed()
    assert needed is not None
    assert score_power(needed, 0.1, 0.18) == pytest.approx(0.8, abs=0.02)
    assert PassChanges(50, 2, 2).needed() is None
    assert PassChanges(10**9, 1, 2).needed() is None


def test_a_sample_in_which_nothing_changed_detects_an_unknown_difference() -> None:
    assert PassChanges(50, 0, 0).detectable() is None
    assert PassChanges(3, 0, 3).detectable() is None
