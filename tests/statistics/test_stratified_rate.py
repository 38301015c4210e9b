"""Rates from labels within strata: known answers, and the coverage and width of the interval in a small simulation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.statistics.intervals import rate_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.strata import Stratum, stratified_interval, stratified_rate
from bench.corrected_rate import DRAWS, Setting, measure

counts = st.integers(1, 200)


@given(st.floats(0, 1), counts, counts, st.data())
def test_an_interval_holds_its_rate_and_stays_within_0_and_1(share: float, n: int, m: int, data: st.DataObject) -> None:
    x, y = data.draw(st.integers(0, n)), data.draw(st.integers(0, m))
    strata = [Stratum(share, x / n, n), Stratum(1 - share, y / m, m)]
    interval = stratified_interval(strata, n + m)
    assert 0 <= interval.low <= stratified_rate(strata) + 1e-12
    assert stratified_rate(strata) - 1e-12 <= interval.high <= 1


def test_labels_of_one_stratum_are_a_plain_sample() -> None:
    strata = [Stratum(1.0, 0.6, 200)]
    interval, plain = stratified_interval(strata, 1000), rate_interval(ClusterMoments.of_passes(200, 120))
    assert plain is not None
    assert (interval.low, interval.high) == pytest.approx((plain.low, plain.high), abs=0.003)


def test_half_of_the_labels_from_the_fails_give_no_bias() -> None:
    """The judge passes 80 % of the answers; of these people pass 9 of 10, of its fails 2 of 10."""
    strata = [Stratum(0.8, 0.9, 25), Stratum(0.2, 0.2, 25)]
    assert stratified_rate(strata) == pytest.approx(0.76)
    assert stratified_rate([Stratum(0.98, 0.9, 25), Stratum(0.02, 0.0, 0)]) == pytest.approx(0.892)


def test_a_small_run_has_a_wider_interval_than_a_large_one_with_the_same_labels() -> None:
    strata = [Stratum(0.7, 1.0, 50), Stratum(0.3, 0.0, 50)]
    small, large = stratified_interval(strata, 100), stratified_interval(strata, 10_000)
    assert small.high - small.low > 1.5 * (large.high - large.low)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize(("labels", "rate"), [(30, 0.7), (100, 0.9), (200, 0.5)])
@pytest.mark.parametrize("judge", [(0.5, 0.5), (0.8, 0.7), (1.0, 1.0)], ids=["useless", "fair", "perfect"])
def test_the_interval_has_the_rate_of_the_agent_in_it(
    draw: str, labels: int, rate: float, judge: tuple[float, float]
) -> None:
    found = measure(Setting(draw, labels, rate, judge, 300), runs=600)
    assert found.coverage >= 0.93 - 3 * (0.93 * 0.07 / 600) ** 0.5
    assert draw != "proportional" or found.relative_width <= 1.05


def test_the_correction_by_error_rates_does_not_if_fails_are_drawn_more_often() -> None:
    setting = Setting("half of the fails", 100, 0.8, (0.95, 0.6), 2000)
    found = measure(setting, runs=300)
    assert found.coverage >= 0.9
    assert found.control_coverage is not None
    assert found.control_coverage < 0.7
