"""Paired tests, corrections and power against SciPy's and statsmodels'."""

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.power import TTestPower

from agentv.scoring.statistics.differences import PairedDifferences, holm
from agentv.scoring.statistics.mcnemar import PassChanges, mcnemar_test
from agentv.scoring.statistics.power import cases_needed, detectable_difference, power_of
from agentv.scoring.statistics.sign_flips import permutation_test


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (0, 1), (3, 12), (10, 10), (40, 61), (700, 800), (5000, 5200)])
def test_mcnemar_is_statsmodels_score_test(gained: int, lost: int) -> None:
    # Without a changed case statsmodels divides by zero; p is then 1.
    table = [[9, gained], [lost, 9]]
    expected = mcnemar(table, exact=False, correction=False).pvalue if gained + lost else 1.0
    assert mcnemar_test(gained, lost) == pytest.approx(expected, abs=1e-9)


def score_by_likelihood(cases: int, gained: int, lost: int, difference: float) -> float:
    """Return the score statistic, with the constrained maximum of the likelihood searched by SciPy."""
    changed, same = gained + lost, cases - gained - lost

    def minus_log_likelihood(share: float) -> float:
        shares = share + difference, share, 1 - 2 * share - difference
        counts = gained, lost, same
        terms = (count * np.log(max(each, 1e-300)) for count, each in zip(counts, shares, strict=True) if count)
        return -float(sum(terms))

    low, high = max(0.0, -difference), (1 - difference) / 2
    found = optimize.minimize_scalar(
        minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    variance = cases * (2 * found.x + difference - difference**2)
    return float((gained - lost - cases * difference) / np.sqrt(variance)) if changed or difference else 0.0


@pytest.mark.parametrize(("cases", "gained", "lost"), [(50, 3, 9), (44, 12, 2), (20, 0, 4), (300, 7, 21), (8, 1, 5)])
@pytest.mark.parametrize("level", [0.95, 0.99])
def test_tangos_interval_ends_where_the_score_is_the_deviate(cases: int, gained: int, lost: int, level: float) -> None:
    interval = PassChanges(cases, gained, lost).interval(level)
    assert interval is not None
    deviate = stats.norm.ppf((1 + level) / 2)
    assert score_by_likelihood(cases, gained, lost, interval.low) == pytest.approx(deviate, abs=1e-3)
    assert score_by_likelihood(cases, gained, lost, interval.high) == pytest.approx(-deviate, abs=1e-3)


@pytest.mark.parametrize("cases", [2, 5, 9, 12])
@pytest.mark.parametrize("decimals", [1, 4])
def test_sign_flips_are_scipys_permutation_test(cases: int, decimals: int) -> None:
    rng = random.Random(cases)
    for _ in range(5):
        differences = [round(rng.uniform(-0.6, 1), decimals) for _ in range(cases)]
        expected = stats.permutation_test(
            (differences,), np.sum, permutation_type="samples", n_resamples=np.inf, vectorized=False
        )
        # SciPy doubles the smaller of two tails that both include the middle; ours counts sums at least as far from 0.
        p = permutation_test(differences, random.Random(0)).p
        assert p == pytest.approx(min(1.0, expected.pvalue), abs=1e-9)


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_is_statsmodels(chances: list[float]) -> None:
    assert holm(chances) == pytest.approx(multipletests(chances, method="holm")[1], abs=1e-9)


@pytest.mark.parametrize("cases", [2, 3, 6, 10, 37, 200, 5000])
@pytest.mark.parametrize("effect", [0.0, 0.03, 0.2, 0.5, 1.0, 2.5])
def test_power_is_statsmodels(cases: int, effect: float) -> None:
    # statsmodels fails where the power is 1.
    expected = np.nan_to_num(TTestPower().power(effect, cases, 0.05), nan=1.0)
    assert power_of(effect, cases) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("cases", [30, 300])
def test_what_is_detectable_and_how_many_cases_it_takes_are_statsmodels(cases: int) -> None:
    least = detectable_difference(PairedDifferences(cases, 0.0, 0.3))
    assert least is not None
    expected = TTestPower().solve_power(nobs=cases, alpha=0.05, power=0.8)
    assert least / 0.3 == pytest.approx(expected, abs=1e-6)
    assert cases_needed(PairedDifferences(cases, least, 0.3)) == cases


@given(st.lists(st.floats(-1, 1).map(lambda value: round(value, 3)), min_size=3, max_size=40))
def test_the_interval_of_a_difference_is_scipys(differences: list[float]) -> None:
    found = PairedDifferences.of(differences).interval()
    if found is not None:
        expected = stats.ttest_1samp(differences, 0).confidence_interval(0.95)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)
