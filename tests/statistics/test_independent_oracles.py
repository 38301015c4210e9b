"""Differences of independent samples against statsmodels: with clusters, and with rows alone."""

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from agentv.scoring.statistics.differences import IndependentSides
from agentv.scoring.statistics.moments import ClusterMoments

Sample = list[list[float]]


def sample(seed: int, *, clusters: int, largest: int, a: float = 2.0) -> Sample:
    rng = np.random.default_rng(seed)
    shifts = rng.uniform(-0.2, 0.2, clusters)  # sessions differ, so that their results are alike
    return [
        [float(np.clip(each + shift, 0, 1)) for each in rng.beta(a, 2, size=rng.integers(1, largest + 1))]
        for shift in shifts
    ]


def sides_of(before: Sample, after: Sample) -> IndependentSides:
    return IndependentSides(*(ClusterMoments.of_clusters((len(c), sum(c)) for c in each) for each in (before, after)))


def fitted(before: Sample, after: Sample, **correction: bool) -> tuple[float, float]:
    """Return the difference of the means and its squared cluster-robust standard error, from one regression."""
    rows = [(float(side), value) for side, s in enumerate((before, after)) for cluster in s for value in cluster]
    groups = [number for number, cluster in enumerate(before + after) for _ in cluster]
    design = np.array([[1.0, side] for side, _ in rows])
    fit = OLS(np.array([value for _, value in rows]), design).fit(
        cov_type="cluster", cov_kwds={"groups": np.array(groups), **correction}
    )
    return float(fit.params[1]), float(fit.bse[1]) ** 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(4, 4), (9, 30), (120, 60)])
def test_the_separate_variance_is_statsmodels_cluster_robust_one(seed: int, sizes: tuple[int, int]) -> None:
    before, after = (sample(seed + 50 * n, clusters=count, largest=6) for n, count in enumerate(sizes))
    found = sides_of(before, after)
    # statsmodels corrects for few clusters by the number of all of them; here each side is corrected by its own.
    uncorrected = sum(side.variance * (side.clusters - 1) / side.clusters for side in (found.before, found.after))
    difference, variance = fitted(before, after, use_correction=False)
    assert (found.difference, uncorrected) == pytest.approx((difference, variance), rel=1e-9)
    with_correction = fitted(before, after)[1]
    if min(sizes) >= 60:
        assert found.separate_variance().variance == pytest.approx(with_correction, rel=0.02)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("sizes", [(2, 3), (8, 8), (10, 90)])
@pytest.mark.parametrize("is_rate", [True, False])
def test_rows_alone_have_statsmodels_p_and_interval(seed: int, sizes: tuple[int, int], is_rate: bool) -> None:
    before, after = (sample(seed + 50 * n, clusters=count, largest=1, a=2 + n) for n, count in enumerate(sizes))
    if is_rate:
        before, after = ([[float(row[0] > 0.5)] for row in each] for each in (before, after))
    found = sides_of(before, after)
    values = [np.array([row[0] for row in each]) for each in (before, after)]
    if not sum(each.var() for each in values):  # statsmodels divides by 0; see the test of Fisher's below
        assert found.p() in (1.0, pytest.approx(2 / math.comb(sum(sizes), sizes[0])))
        return
    both = CompareMeans(DescrStatsW(values[1]), DescrStatsW(values[0]))
    expected = [both.ttest_ind(usevar=usevar)[1] for usevar in ("unequal", "pooled")]
    bounds = [both.tconfint_diff(usevar=usevar) for usevar in ("unequal", "pooled")]
    assert found.p() == pytest.approx(max(expected), abs=1e-9)
    interval = found.interval_of_shares()
    assert interval is not None
    assert interval.low == pytest.approx(max(-1, min(low for low, _ in bounds)), abs=1e-9)
    assert interval.high == pytest.approx(min(1, max(high for _, high in bounds)), abs=1e-9)


@pytest.mark.parametrize(("before", "after"), [(2, 2), (3, 3), (4, 4), (5, 12)])
def test_p_is_fishers_where_nothing_varies(before: int, after: int) -> None:
    found = sides_of([[0.0]] * before, [[1.0]] * after)
    tail = stats.fisher_exact([[0, before], [after, 0]], alternative="less").pvalue
    assert found.p() == pytest.approx(min(1.0, 2 * tail), rel=1e-9)
    assert sides_of([[1.0]] * before, [[1.0]] * after).p() == 1.0


def test_one_session_on_a_side_is_no_evidence() -> None:
    found = sides_of([[0.0] * 50], [[1.0]] * 50)
    assert (found.p(), found.interval_of_shares(), found.needed(2)) == (1.0, None, None)


Draw = Callable[[random.Random], float]


def false_alarms(draw: Draw, sizes: tuple[int, int], rows: int, runs: int = 1500) -> float:
    """Return the share of comparisons of equally good sides with a p of at most 5 %."""
    rng = random.Random(f"{sizes} {rows}")

    def side(count: int) -> Sample:
        """Make sessions; in every other one all results are alike."""
        return [[draw(rng)] * rows if number % 2 else [draw(rng) for _ in range(rows)] for number in range(count)]

    return sum(sides_of(side(sizes[0]), side(sizes[1])).p() <= 0.05 for _ in range(runs)) / runs


@pytest.mark.parametrize("rate", [0.05, 0.5, 0.9])
@pytest.mark.parametrize(("sizes", "rows"), [((6, 6), 1), ((10, 30), 1), ((20, 200), 1), ((20, 60), 4)])
def test_equally_good_sides_are_rarely_significant(rate: float, sizes: tuple[int, int], rows: int) -> None:
    assert false_alarms(lambda rng: float(rng.random() < rate), sizes, rows) <= 0.07


def test_one_result_per_row_would_have_false_alarms_where_sessions_are_alike() -> None:
    rng = random.Random(1)
    alarms = 0
    for _ in range(500):
        before, after = ([[float(rng.random() < 0.5)] * 6 for _ in range(15)] for _ in range(2))
        alone = sides_of(*([[row] for cluster in each for row in cluster] for each in (before, after)))
        alarms += alone.p() <= 0.05
        assert alone.p() <= sides_of(before, after).p() + 1e-9
    assert alarms / 500 > 0.2
