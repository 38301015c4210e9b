"""Our quantiles against SciPy's."""

import pytest
from scipy import stats

from agentv.scoring.statistics.distributions import beta_cdf, beta_quantile, normal_quantile, t_quantile

SHARES = (1e-4, 0.005, 0.025, 0.05, 0.3, 0.6, 0.9, 0.975, 0.995, 0.9995)


@pytest.mark.parametrize("share", SHARES)
def test_a_normal_quantile_is_scipys(share: float) -> None:
    assert normal_quantile(share) == pytest.approx(stats.norm.ppf(share), rel=1e-12)


@pytest.mark.parametrize("degrees", [1, 1.5, 2, 3, 5, 10, 19, 37.3, 100, 500, 999, 1000, 1500, 1e4, 1e6])
def test_a_t_quantile_is_scipys(degrees: float) -> None:
    for share in SHARES:
        assert t_quantile(share, degrees) == pytest.approx(stats.t.ppf(share, degrees), rel=1e-9)


@pytest.mark.parametrize("a", [0.5, 1, 3.7, 20, 500, 9.5e4])
@pytest.mark.parametrize("b", [0.5, 1, 3.7, 20, 500, 9.5e4])
def test_a_beta_distribution_is_scipys(a: float, b: float) -> None:
    for share in SHARES:
        found = beta_quantile(share, a, b)
        assert found == pytest.approx(stats.beta.ppf(share, a, b), rel=1e-9, abs=1e-12)
        assert beta_cdf(found, a, b) == pytest.approx(stats.beta.cdf(found, a, b), abs=1e-9)


def test_the_ends_of_a_beta_distribution_are_0_and_1() -> None:
    assert [beta_cdf(x, 2, 3) for x in (-1.0, 0.0, 1.0, 2.0)] == [0.0, 0.0, 1.0, 1.0]
    assert [beta_quantile(share, 2, 3) for share in (0.0, 1.0)] == [0.0, 1.0]
