"""Ranks between which a percentile lies, against the binomial distribution."""

import pytest
from scipy import stats

from agentv.scoring.statistics.percentiles import percentile_shares


@pytest.mark.parametrize(("share", "count"), [(0.5, 6), (0.5, 101), (0.95, 72), (0.95, 1000), (0.99, 100_000)])
def test_the_ranks_leave_two_and_a_half_percent_on_either_side(share: float, count: int) -> None:
    shares = percentile_shares(share, count)
    assert shares is not None
    ranks = [each * (count + 1) for each in shares]
    below = [stats.beta.cdf(share, rank, count + 1 - rank) for rank in ranks]
    assert below == pytest.approx([0.975, 0.025], abs=1e-9)


@pytest.mark.parametrize(("share", "count"), [(0.5, 40), (0.9, 60), (0.95, 500)])
def test_the_whole_ranks_around_it_are_those_of_the_binomial_distribution(share: float, count: int) -> None:
    shares = percentile_shares(share, count)
    assert shares is not None
    low, high = (each * (count + 1) for each in shares)
    # As many values lie below the percentile as a coin of that share falls: rank k is below it when k or more do.
    assert stats.binom.sf(int(low) - 1, count, share) >= 0.975 >= stats.binom.sf(int(low), count, share)
    assert stats.binom.sf(int(high) - 1, count, share) >= 0.025 >= stats.binom.sf(int(high), count, share)


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_too_few_values_do_not_bound_a_percentile(share: float, fewest: int) -> None:
    assert percentile_shares(share, fewest - 1) is None
    assert percentile_shares(share, fewest) is not None
