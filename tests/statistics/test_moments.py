"""The clustered variance against statsmodels', and its properties."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.regression.linear_model import OLS

from agentv.scoring.statistics.moments import ClusterMoments

scores = st.floats(0, 1).map(lambda score: round(score, 6))
clusters = st.lists(st.lists(scores, min_size=1, max_size=5), min_size=2, max_size=30)


def moments_of(cases: list[list[float]]) -> ClusterMoments:
    return ClusterMoments.of_clusters((len(case), sum(case)) for case in cases)


@given(st.integers(1, 5), st.integers(0, 9), st.integers(0, 20))
def test_so_many_equal_clusters_are_as_all_of_them_one_by_one(size: int, total: int, count: int) -> None:
    one_by_one = ClusterMoments.of_clusters([(size, total)] * count)
    assert ClusterMoments.of_clusters([(size, total)]).times(count) == one_by_one


def statsmodels_variance(cases: list[list[float]]) -> float:
    values = np.concatenate([np.asarray(case) for case in cases])
    groups = np.repeat(np.arange(len(cases)), [len(case) for case in cases])
    fit = OLS(values, np.ones_like(values)).fit(cov_type="cluster", cov_kwds={"groups": groups})
    return float(fit.bse[0]) ** 2


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("count", [2, 7, 200])
def test_the_variance_is_statsmodels_cluster_robust_one(seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    cases = [list(rng.beta(2, rng.integers(1, 9), size=rng.integers(1, 6))) for _ in range(count)]
    assert moments_of(cases).variance == pytest.approx(statsmodels_variance(cases), rel=1e-9, abs=1e-15)


@given(st.lists(scores, min_size=2, max_size=50))
def test_rows_are_clusters_of_one(rows: list[float]) -> None:
    alone = ClusterMoments.of_rows(len(rows), sum(rows), sum(row**2 for row in rows), sum(row**3 for row in rows))
    assert alone.variance == pytest.approx(moments_of([[row] for row in rows]).variance)
    assert not alone.is_repeated


@given(clusters, st.integers(2, 4))
def test_repeating_every_row_says_nothing_new(cases: list[list[float]], times: int) -> None:
    once, repeated = moments_of(cases), moments_of([case * times for case in cases])
    assert repeated.mean == pytest.approx(once.mean)
    assert repeated.variance == pytest.approx(once.variance, rel=1e-6, abs=1e-12)


@given(scores, st.integers(2, 1000))
def test_equal_scores_have_no_variance(score: float, count: int) -> None:
    assert (
        ClusterMoments.of_rows(count, sum([score] * count), sum([score**2] * count), sum([score**3] * count)).variance
        == 0.0
    )


@given(clusters)
def test_the_lean_is_the_sum_of_cubed_distances(cases: list[list[float]]) -> None:
    mean = np.concatenate([np.asarray(case) for case in cases]).mean()
    expected = sum((sum(case) - len(case) * mean) ** 3 for case in cases)
    assert moments_of(cases).cubed_scatter == pytest.approx(expected, abs=1e-9 * 5**3 * len(cases))


@given(clusters, clusters)
def test_the_moments_of_both_are_those_of_all(some: list[list[float]], others: list[list[float]]) -> None:
    both = moments_of(some) + moments_of(others)
    assert (both.mean, both.scatter, both.cubed_scatter) == pytest.approx(
        (moments_of(some + others).mean, moments_of(some + others).scatter, moments_of(some + others).cubed_scatter),
        abs=1e-9,
    )
