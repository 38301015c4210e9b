"""Intervals of medians and percentiles, from the ranks alone."""

import math
from functools import lru_cache

from agentv.scoring.statistics.distributions import beta_share, normal_quantile
from agentv.scoring.statistics.intervals import rate_worth
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.intervals import LEVEL

_PRECISION = 1e-9
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
    """Return the interpolated rank whose value is below the percentile with that chance.

    By secants on the scale of normal deviates: there the chance is nearly a straight line, and five looks find it.
    """
    wanted, spread = normal_quantile(chance), math.sqrt(count * share * (1 - share))
    older, beyond = share * (count + 1), -wanted
    rank = min(max(older - wanted * spread, 1.0), float(count))
    while abs(rank - older) > _PRECISION * rank:
        now = normal_quantile(beta_share(share, rank, count + 1 - rank)) - wanted
        newer = rank - now * (rank - older) / (now - beyond)
        older, beyond, rank = rank, now, min(max(newer, 1.0), float(count))
    return rank
