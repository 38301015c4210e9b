"""Ranks between which a percentile lies, against the binomial distribution."""

import pytest
from scipy import stats

from agentv.scoring.counting.tallies import percentile_shares, repeated_percentile_shares
from agentv.scoring.statistics.distributions import beta_cdf
from agentv.scoring.statistics.moments import ClusterMoments


@pytest.mark.parametrize(("share", "count"), [(0.5, 6), (0.5, 101), (0.95, 72), (0.95, 1000), (0.99, 100_000)])
def test_the_ranks_leave_two_and_a_half_percent_on_either_side(share: float, count: int) -> None:
    shares = percentile_shares(share, count)
    assert shares is not None
    ranks = [each * (count + 1) for each in shares]
    below = [stats.beta.cdf(share, rank, count + 1 - rank) for rank in ranks]
    assert below == pytest.approx([0.975, 0.025], abs=1e-9)


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.95, 72), (0.99, 368), (0.01, 368)])
def test_they_are_found_for_any_number_of_values(share: float, fewest: int) -> None:
    for count in range(fewest, fewest + 300):
        shares = percentile_shares(share, count)
        assert shares is not None
        ranks = [each * (count + 1) for each in shares]
        below = [beta_cdf(share, rank, count + 1 - rank) for rank in ranks]
        assert below == pytest.approx([0.975, 0.025], abs=1e-12)


@pytest.mark.parametrize(("share", "count"), [(0.5, 40), (0.9, 60), (0.95, 500)])
def test_the_whole_ranks_around_it_are_those_of_the_binomial_distribution(share: float, count: int) -> None:
    shares = percentile_shares(share, count)
    assert shares is not None
    low, high = (each * (count + 1) for each in shares)
    # The number of values below the percentile is binomial: rank k is below it when k or more are.
    assert stats.binom.sf(int(low) - 1, count, share) >= 0.975 >= stats.binom.sf(int(low), count, share)
    assert stats.binom.sf(int(high) - 1, count, share) >= 0.025 >= stats.binom.sf(int(high), count, share)


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.95, 72), (0.99, 368)])
def test_too_few_values_do_not_bound_a_percentile(share: float, fewest: int) -> None:
    assert percentile_shares(share, fewest - 1) is None
    assert percentile_shares(share, fewest) is not None


@pytest.mark.parametrize(("cases", "share"), [(6, 0.5), (20, 0.5), (72, 0.95)])
def test_repeats_that_all_lie_on_one_side_are_worth_one_value(cases: int, share: float) -> None:
    high = round(cases * (1 - share))
    below = ClusterMoments.of_clusters([(3, 3)] * (cases - high) + [(3, 0)] * high)
    assert repeated_percentile_shares(share, below) == percentile_shares(share, cases)


def test_repeats_of_luck_alone_are_worth_nearly_as_many_values() -> None:
    below = ClusterMoments.of_clusters([(2, 0), (2, 1), (2, 1), (2, 2)] * 25)
    low, high = repeated_percentile_shares(0.5, below) or (0.0, 1.0)
    assert (low, high) == pytest.approx(percentile_shares(0.5, 200), abs=0.001)


@pytest.mark.parametrize(("share", "fewest"), [(0.5, 6), (0.95, 72)])
def test_repeats_do_not_make_up_for_too_few_cases(share: float, fewest: int) -> None:
    def of_luck(cases: int) -> ClusterMoments:
        return ClusterMoments.of_clusters([(10, 10 * share)] * cases)

    assert repeated_percentile_shares(share, of_luck(fewest - 1)) is None
    assert repeated_percentile_shares(share, of_luck(fewest)) is not None
