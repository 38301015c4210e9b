"""Intervals of medians and percentiles, from the ranks alone."""

from functools import lru_cache

from agentv.scoring.statistics.distributions import beta_share
from agentv.scoring.statistics.intervals import rate_worth
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.intervals import LEVEL

_HALVINGS = 60
_ROUNDING = 1e-6


@lru_cache(maxsize=1024)
def percentile_shares(share: float, count: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Return between which shares of the sorted values a percentile lies: its interval, as ranks / (count + 1).

    The value at rank k of `count` is below the percentile with the chance I_share(k, count + 1 - k), whatever the
    values' distribution; ranks are interpolated to the chances (1 ± level) / 2. What a bootstrap of the percentile
    comes to with infinitely many draws, but exact. None where the values are too few to bound it on both sides: below
    6 for a median, 72 for a 95th percentile. Hettmansperger & Sheather 1986, Statistics & Probability Letters 4(2).
    """
    beyond = (1 - level) / 2
    if share**count > beyond or (1 - share) ** count > beyond:
        return None
    return _rank(share, count, 1 - beyond) / (count + 1), _rank(share, count, beyond) / (count + 1)


def repeated_percentile_shares(share: float, below: ClusterMoments, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the same where values are repeats of cases; `below` counts those at most at the percentile found, by case.

    They are as many independent values as that rate is worth: the interval of a share turned into one of the value,
    Woodruff 1952, JASA 47(260). None where cases that are asked once would be too few.
    """
    if percentile_shares(share, below.clusters, level) is None:
        return None
    return percentile_shares(share, int(rate_worth(below) + _ROUNDING), level)


def _rank(share: float, count: int, chance: float) -> float:
    """Return the interpolated rank whose value is below the percentile with that chance."""
    low, high = 1.0, float(count)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if beta_share(share, middle, count + 1 - middle) > chance:
            low = middle
        else:
            high = middle
    return (low + high) / 2
