"""The difference of two independent samples of clusters: its interval, and a test of significance."""

import math

from msgspec import Struct

from agentv.scoring.statistics.distributions import beta_cdf, normal_quantile, t_quantile
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import LEVEL, Interval

_FEWEST = 2
_POWER = 0.8


class _Spread(Struct, frozen=True):
    """A squared standard error and its degrees of freedom."""

    variance: float
    degrees: float


class IndependentSides(Struct, frozen=True):
    """Two independent samples of clusters, each with at least one."""

    before: ClusterMoments
    after: ClusterMoments

    @property
    def difference(self) -> float:
        """The mean after minus the mean before."""
        return self.after.mean - self.before.mean

    def separate_spread(self) -> _Spread:
        """Return the squared standard error of the difference, with the cluster-robust variance of each side.

        Its degrees of freedom are Satterthwaite's. With clusters of one row the test is Welch's. Needs two clusters on
        each side. Liang & Zeger 1986, Biometrika 73(1); Welch 1947, Biometrika 34.
        """
        both = self.before.variance, self.after.variance
        variance = sum(both)
        if not variance:
            return _Spread(0.0, 0.0)
        parts = zip(both, (self.before.clusters, self.after.clusters), strict=True)
        return _Spread(variance, variance**2 / sum(each**2 / (clusters - 1) for each, clusters in parts))

    def pooled_spread(self) -> _Spread:
        """Return the same with one variance for both sides, as it is if they do not differ.

        With clusters of one row the test is Student's.
        """
        sides = self.before, self.after
        degrees = sum(side.clusters for side in sides) - 2
        each = sum(side.scatter for side in sides) / sum(side.sizes for side in sides)
        clusters = sum(side.clusters for side in sides)
        return _Spread(each * clusters / degrees * sum(1 / side.effective_clusters for side in sides), degrees)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the interval of a difference that is not limited. None below two clusters, or if nothing varies."""
        if not self._has_variance():
            return None
        half = self._half(self.separate_spread(), level)
        return Interval(self.difference - half, self.difference + half, "cluster-t", level)

    def interval_of_shares(self, level: float = LEVEL) -> Interval | None:
        """Return the interval for values of 0..1, the wider one of both spreads. None below two clusters on a side.

        If nothing varies, the intervals of the sides are combined (Newcombe 1998, Statistics in Medicine 17).
        """
        if not self._has_variance():
            return self._combined(level)
        half = max(self._half(spread, level) for spread in (self.separate_spread(), self.pooled_spread()))
        low, high = max(self.difference - half, -1.0), min(self.difference + half, 1.0)
        return Interval(low, high, "cluster-t", level)

    def p(self) -> float:
        """Return the two-sided p of values of 0..1: the larger one of both spreads; 1.0 below two clusters on a side.

        The separate one alone has false alarms if a small sample with a rare event shows none, the pooled one if a
        small sample varies more. If nothing varies, it is Fisher's, whose clusters all lie on the two sides of a value.
        """
        if not self._has_variance():
            if not self.difference or min(self.before.clusters, self.after.clusters) < _FEWEST:
                return 1.0
            return min(1.0, 2 / math.comb(self.before.clusters + self.after.clusters, self.after.clusters))
        return max(self._p(spread) for spread in (self.separate_spread(), self.pooled_spread()))

    def detectable(self) -> float | None:
        """Return the minimum detectable difference at 80 % power, by the normal distribution; None if unknown."""
        if not self._has_variance():
            return None
        deviates = normal_quantile((1 + LEVEL) / 2) + normal_quantile(_POWER)
        return deviates * math.sqrt(self._widest())

    def needed(self, cases: int) -> int | None:
        """Return how many cases, instead of `cases`, detect the observed difference at 80 % power; None if unknown."""
        detectable = self.detectable()
        if detectable is None or not self.difference:
            return None
        return math.ceil(cases * (detectable / self.difference) ** 2)

    def _widest(self) -> float:
        return max(self.separate_spread().variance, self.pooled_spread().variance)

    def _has_variance(self) -> bool:
        sides = self.before, self.after
        return min(side.clusters for side in sides) >= _FEWEST and any(side.scatter for side in sides)

    def _half(self, spread: _Spread, level: float) -> float:
        return t_quantile((1 + level) / 2, spread.degrees) * math.sqrt(spread.variance)

    def _p(self, spread: _Spread) -> float:
        squared = self.difference**2 / spread.variance
        return beta_cdf(spread.degrees / (spread.degrees + squared), spread.degrees / 2, 1 / 2)

    def _combined(self, level: float) -> Interval | None:
        was, is_now = mean_interval(self.before, level), mean_interval(self.after, level)
        if was is None or is_now is None:
            return None
        below = math.hypot(self.after.mean - is_now.low, was.high - self.before.mean)
        above = math.hypot(is_now.high - self.after.mean, self.before.mean - was.low)
        return Interval(self.difference - below, self.difference + above, "newcombe", level)
