"""Intervals of rates and of means of scores that hold what they promise, with few cases and with repeats."""

import math

from agentv.scoring.statistics.distributions import normal_quantile, t_quantile
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
    """Return Wilson's interval of a rate; with repeats, on as many rows as they are worth. None below two cases.

    They are worth rate * (1 - rate) / variance, the rows over the design effect, at most the rows themselves.
    """
    if moments.clusters < _FEWEST_CLUSTERS:
        return None
    method: IntervalMethod = "clustered-wilson" if moments.is_repeated else "wilson"
    return _wilson(moments.mean, rate_worth(moments, level), method, level)


def rate_worth(moments: ClusterMoments, level: float = LEVEL) -> float:
    """Return how many independent rows a rate of two or more cases is as sure as."""
    if not moments.is_repeated:
        return moments.rows
    rate = moments.mean
    worth = _worth(rate, moments.variance) if 0 < rate < 1 else 0.0
    return _count(min(worth, moments.rows), moments, level)


def mean_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return Student's interval of a mean of scores of 0..1, over clusters. None below two cases.

    The variance is taken to shrink towards both ends as µ (1 - µ) does, scaled to what was measured at the mean found:
    Wilson's form, which keeps within 0..1 and leans to the side where skewed scores have their tail. (Student's own
    takes it to be the same everywhere, and misses too often on the side of the tail.) When all cases have the same
    mean there is no variance to go by: Wilson's interval, each case counting once.
    """
    if moments.clusters < _FEWEST_CLUSTERS:
        return None
    # A sum of many scores may be a rounding error beyond its ends.
    mean, variance = min(max(moments.mean, 0.0), 1.0), moments.variance
    if not variance:
        return _wilson(mean, moments.effective_clusters, "wilson", level)
    return _wilson(mean, _count(_worth(mean, variance), moments, level), "bounded-t", level)


def _worth(mean: float, variance: float) -> float:
    """Return how many independent passes and fails of that mean are as sure as it is."""
    return mean * (1 - mean) / variance if variance else math.inf


def _count(worth: float, moments: ClusterMoments, level: float) -> float:
    """Return the number of rows for Wilson's interval: `worth`, less what estimating it from few clusters costs.

    That is the squared ratio of the normal to Student's quantile with clusters - 1 degrees of freedom, Korn & Graubard
    1998, Survey Methodology 24(2). Never less than each cluster counting once: nothing of 0..1 varies more.
    """
    share = _upper(level)
    few = (normal_quantile(share) / t_quantile(share, moments.clusters - 1)) ** 2
    return max(worth * few, moments.effective_clusters)


def _wilson(mean: float, count: float, method: IntervalMethod, level: float) -> Interval:
    return Interval(*wilson_bounds(mean, count, normal_quantile(_upper(level))), method, level)


def _upper(level: float) -> float:
    return (1 + level) / 2
