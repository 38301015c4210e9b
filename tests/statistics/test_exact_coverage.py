"""Exact coverage of rates of single trials: that of Wilson's interval, and the best possible one."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from tests.statistics.coverage import PROMISED
from tests.support.nightly import IS_NIGHTLY

from agentv.scoring.statistics.intervals import wilson_bounds


def chances(rate: float, cases: int) -> NDArray[np.float64]:
    """Return the probability of each number of passes."""
    found: NDArray[np.float64] = stats.binom.pmf(np.arange(cases + 1), cases, rate)
    return found


def held_by_wilson(rate: float, cases: int) -> float:
    bounds = [wilson_bounds(passed / cases, cases, stats.norm.ppf(0.975)) for passed in range(cases + 1)]
    return float(chances(rate, cases) @ [low <= rate <= high for low, high in bounds])


def held_by_jeffreys(rate: float, cases: int) -> float:
    passed = np.arange(cases + 1)
    low, high = (stats.beta.ppf(share, passed + 0.5, cases - passed + 0.5) for share in (0.025, 0.975))
    return float(chances(rate, cases) @ ((low <= rate) & (rate <= high)))


def can_be_held(rate: float, cases: int) -> bool:
    """Return True if any interval with both ends rising with the passes could cover a rate as often as guaranteed.

    The numbers of passes whose interval covers the rate are then consecutive: some such range must be likely enough.
    """
    below = np.concatenate([[0.0], np.cumsum(chances(rate, cases))])
    held = below[None, :] - below[:, None]
    return bool(((held >= PROMISED[0]) & (held <= PROMISED[1])).any())


@pytest.mark.parametrize(
    ("rate", "cases", "held"), [(0.3, 20, 0.975), (0.7, 20, 0.975), (0.1, 50, 0.970), (0.02, 50, 0.922)]
)
def test_wilsons_interval_holds_as_often_as_the_page_says(rate: float, cases: int, held: float) -> None:
    assert held_by_wilson(rate, cases) == pytest.approx(held, abs=0.0005)


def test_wilson_interval_of_20_cases_covers_93_to_98_percent() -> None:
    held = [held_by_wilson(rate, 20) for rate in np.linspace(0.1, 0.9, 801)]
    assert (min(held), max(held)) == pytest.approx((0.926, 0.981), abs=0.0005)


def test_jeffreys_interval_holds_a_rate_better_and_others_worse() -> None:
    held = [held_by_jeffreys(rate, 20) for rate in np.linspace(0.1, 0.9, 801)]
    assert (held_by_jeffreys(0.3, 20), min(held)) == pytest.approx((0.947, 0.894), abs=0.0005)


@pytest.mark.parametrize(("rate", "cases"), [(0.12, 20), (0.05, 20), (0.02, 50)])
def test_of_some_rates_no_interval_holds_what_is_promised(rate: float, cases: int) -> None:
    assert not can_be_held(rate, cases)


@pytest.mark.parametrize("cases", [50, 200])
def test_from_50_cases_on_rates_of_10_to_90_percent_are_held_as_promised(cases: int) -> None:
    rates = np.linspace(0.1, 0.9, 801 if IS_NIGHTLY else 81)
    assert all(can_be_held(rate, cases) for rate in rates)
    assert all(PROMISED[0] <= held_by_wilson(rate, cases) <= PROMISED[1] + 0.0005 for rate in rates)
