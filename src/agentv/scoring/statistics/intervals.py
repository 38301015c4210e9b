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
    return max((middle - half) / (1 + weight), 0.0), min((middle + half) / (1 + weight), 1.0)


def rate_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return Wilson's interval of a rate; with repeats, on as many rows as the repeats are worth. None below two cases.

    The design effect is how much larger the clustered variance is than p (1 - p) / rows, at least 1; the rows are
    divided by it and Student's t with cases - 1 degrees of freedom takes the place of the normal. Korn & Graubard
    1998, Survey Methodology 24(2), with Wilson's bounds in the place of Clopper and Pearson's.
    """
    if moments.clusters < _FEWEST_CLUSTERS:
        return None
    if not moments.is_repeated:
        return _wilson(moments.mean, moments.rows, normal_quantile(_upper(level)), "wilson", level)
    rate, variance = moments.mean, moments.variance
    if not 0 < rate < 1:
        # Nothing tells how alike the repeats are: each case counts once.
        return _wilson(rate, moments.clusters, normal_quantile(_upper(level)), "clustered-wilson", level)
    effective = min(rate * (1 - rate) / variance, moments.rows) if variance else moments.rows
    return _wilson(rate, effective, t_quantile(_upper(level), moments.clusters - 1), "clustered-wilson", level)


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
        return _wilson(mean, moments.clusters, normal_quantile(_upper(level)), "wilson", level)
    effective = mean * (1 - mean) / variance
    return _wilson(mean, effective, t_quantile(_upper(level), moments.clusters - 1), "bounded-t", level)


def _wilson(share: float, count: float, deviate: float, method: IntervalMethod, level: float) -> Interval:
    return Interval(*wilson_bounds(share, count, deviate), method, level)


def _upper(level: float) -> float:
    return (1 + level) / 2
