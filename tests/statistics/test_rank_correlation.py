"""Spearman's correlation against scipy's, and the coverage of its interval."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from agentv.scoring.judges.consistency import correlation_interval, rank_correlation

numbers = st.integers(0, 6).map(float)


@given(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=40))
def test_it_is_scipys(pairs: list[tuple[float, float]]) -> None:
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    value = rank_correlation(first, second)
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert value is None
    else:
        assert value == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-9)


def test_few_things_and_a_perfect_order_have_no_interval() -> None:
    assert correlation_interval(0.5, 9) is None
    assert correlation_interval(1.0, 100) is None


@pytest.mark.parametrize("count", [3, 18, 19, 32])
def test_equal_ranks_have_a_correlation_of_exactly_one(count: int) -> None:
    numbers = list(range(count))
    assert (rank_correlation(numbers, numbers), rank_correlation(numbers, numbers[::-1])) == (1.0, -1.0)


@pytest.mark.parametrize("correlation", [0.0, 0.5, -0.8])
@pytest.mark.parametrize("count", [20, 200])
def test_the_interval_holds_the_truth_in_93_to_97_percent(correlation: float, count: int) -> None:
    rng = np.random.default_rng([count, round(100 + 100 * correlation)])
    truth = 6 / math.pi * math.asin(correlation / 2)  # Spearman's for a normal distribution with that Pearson's
    held, runs = 0, 1000
    for _ in range(runs):
        one, luck = rng.standard_normal((2, count))
        other = correlation * one + math.sqrt(1 - correlation**2) * luck
        value = rank_correlation(list(one), list(other))
        assert value is not None
        interval = correlation_interval(value, count)
        held += interval is not None and interval.low <= truth <= interval.high
    assert 0.93 <= held / runs <= 0.97
