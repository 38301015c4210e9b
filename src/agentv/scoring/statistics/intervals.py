"""Intervals of rates and of means of scores that hold what they promise, with few cases and with repeats."""

import math

from agentv.scoring.statistics.distributions import normal_quantile
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.intervals import LEVEL, Interval, IntervalMethod

_FEWEST_CLUSTERS = 2


def wilson_bounds(share: float, count: float, deviate: float) -> tuple[float, float]:
    """Return the shares whose distance from `share` is `deviate` standard errors, √(µ (1 - µ) / count).

    `count` need not be whole. Wilson 1927, JASA 22(158).
    """
    weight = deviate * deviate / count
    middle = share + weight / 2
    half = math.sqrt(weight * (share * (1 - share) + weight / 4))
    # At the ends the sum is exact but for rounding, and a bound of 0.9999999999999999 would be shown as 99.9 %.
    low = 0.0 if share <= 0 else max((middle - half) / (1 + weight), 0.0)
    high = 1.0 if share >= 1 else min((middle + half) / (1 + weight), 1.0)
    return low, high


def rate_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return Wilson's interval of a rate; with repeats, on as many rows as they are worth. None below two cases."""
    if moments.clusters < _FEWEST_CLUSTERS:
        return None
    if not moments.is_repeated:
        return _wilson(moments.mean, moments.rows, moments.rows, "wilson", level)
    return _wilson(moments.mean, *_rate_worths(moments), "clustered-wilson", level)


def rate_worth(moments: ClusterMoments) -> float:
    """Return how many independent rows a rate of two or more cases is as sure as, on the less sure of its sides."""
    return min(_rate_worths(moments)) if moments.is_repeated else moments.rows


def mean_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean of scores of 0..1, over clusters. None below two cases.

    Wilson's, on as many passes and fails as the scores are worth. Its variance shrinks towards both ends as µ (1 - µ)
    does, so that it keeps within 0..1 and leans to the side where skewed scores have their tail. (Student's has the
    same variance everywhere, and misses too often on the side of the tail.) When all cases have the same mean there is
    no variance to go by: each case counts once.
    """
    if moments.clusters < _FEWEST_CLUSTERS:
        return None
    # A sum of many scores may be a rounding error beyond its ends.
    mean, scatter, cases = min(max(moments.mean, 0.0), 1.0), moments.scatter, moments.effective_clusters
    if not scatter:
        return _wilson(mean, cases, cases, "wilson", level)
    return _wilson(mean, *_worths(mean, cases, scatter / moments.sizes), "scaled-wilson", level)


def _rate_worths(moments: ClusterMoments) -> tuple[float, float]:
    """Return how many independent rows a rate is worth below and above: the rows over the design effect, at most all.

    The design effect is that of Kish 1965; not below 1, as Korn & Graubard 1998, Survey Methodology 24(2), have it.
    """
    rate, cases = moments.mean, moments.effective_clusters
    independent = rate * (1 - rate) * cases / moments.rows
    return _worths(rate, cases, max(moments.scatter / moments.sizes, independent))


def _worths(mean: float, cases: float, variance: float) -> tuple[float, float]:
    """Return how many passes and fails cases of that mean and variance are as sure as, looking down and up from it."""
    return _worth(mean, cases, variance, mean), _worth(mean, cases, variance, 1 - mean)


def _worth(mean: float, cases: float, variance: float, distance: float) -> float:
    """Return how many passes and fails are as sure as `cases`, where the end of the scale is at that `distance`.

    One case is worth mean * (1 - mean) / variance, at least one, as nothing in 0..1 varies more than passes and fails.
    Few cases that are nearly alike show too little of it: others, far from them, may have been missed by luck. So one
    that stands at the end is added to both variances with a weight of half its squared distance. Bounds of a mean from
    a value at the end: Anderson 1969; Learned-Miller & Thomas 2019, arXiv:1905.06208. The weight holds best in
    simulations (docs/numbers.md); from about fifty cases on it hardly matters.
    """
    most = mean * (1 - mean)
    if variance >= most:
        return cases
    doubt = distance**4 / 2
    return cases * (cases * most + doubt) / (cases * variance + doubt)


def _wilson(mean: float, below: float, above: float, method: IntervalMethod, level: float) -> Interval:
    """Return the interval whose lower bound counts as many rows as `below` says, and the upper one as `above`."""
    deviate = normal_quantile((1 + level) / 2)
    return Interval(wilson_bounds(mean, below, deviate)[0], wilson_bounds(mean, above, deviate)[1], method, level)
