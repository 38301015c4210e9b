"""Differences of paired cases and of two independent samples: their mean, its interval, tests of significance."""

import math
from collections.abc import Sequence
from typing import Literal, Self

from msgspec import Struct

from agentv.scoring.statistics.distributions import beta_cdf, normal_quantile, t_quantile
from agentv.scoring.statistics.intervals import mean_interval
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import LEVEL, Interval

_DENOMINATORS = (*range(1, 61), 64, 100, 120, 128, 200, 250, 256, 360, 500, 720, 840, 1000, 2520, 5040, 10_000)
_STEP_TOLERANCE = 1e-7
"""The distance from a whole number of steps that counts as rounding."""
ROUNDING = 1e-9
"""Differences of scores closer to 0 than this are rounding errors."""

_MIN_CLUSTERS = 2
_ZERO_DEVIATION = 1e-9
"""A standard deviation up to this is a rounding error: all differences are equal."""
_POWER = 0.8


def common_step(differences: Sequence[float]) -> float | None:
    """Return the largest step of which all differences are whole multiples: 1 for passes and fails, 0.1 for tenths.

    A step is a whole multiple of 1/d with d in _DENOMINATORS. None if no such step fits, or if all differences are 0.
    """
    distinct = {abs(each) for each in differences if abs(each) > ROUNDING}
    if not distinct:
        return None
    for denominator in _DENOMINATORS:
        if all(abs(each * denominator - round(each * denominator)) < _STEP_TOLERANCE for each in distinct):
            divisor: int = math.gcd(*(round(each * denominator) for each in distinct))
            return divisor / denominator if divisor else None
    return None


class PairedDifferences(Struct, frozen=True):
    """The summary of differences by case.

    If cases belong to sessions, deviation / √cases is the cluster-robust standard error.
    """

    cases: int
    """The number of cases, or of sessions if cases belong to sessions."""
    mean: float
    deviation: float
    """The standard deviation with n - 1, 0.0 below two cases."""
    step: float = 0.0
    """The common step of which all differences are multiples, 0.0 without one."""

    @classmethod
    def of(cls, differences: Sequence[float]) -> Self:
        """Summarize differences, one per case; there is at least one."""
        cases = len(differences)
        mean = math.fsum(differences) / cases
        if cases < _MIN_CLUSTERS:
            return cls(cases, mean, 0.0)
        scatter = math.fsum((each - mean) ** 2 for each in differences)
        deviation = math.sqrt(scatter / (cases - 1))
        return cls(cases, mean, deviation if deviation > _ZERO_DEVIATION else 0.0, common_step(differences) or 0.0)

    @classmethod
    def of_clusters(cls, clusters: Sequence[Sequence[float]]) -> Self:
        """Summarize differences of cases that are not independent within their cluster; the mean is that of all cases.

        As a regression on a constant with cluster-robust errors. Liang & Zeger 1986, Biometrika 73(1).
        """
        if all(len(each) == 1 for each in clusters):
            return cls.of([each[0] for each in clusters])
        cases, count = sum(map(len, clusters)), len(clusters)
        mean = math.fsum(value for each in clusters for value in each) / cases
        if count < _MIN_CLUSTERS:
            return cls(count, mean, 0.0)
        scatter = math.fsum(math.fsum(value - mean for value in each) ** 2 for each in clusters)
        deviation = count / cases * math.sqrt(scatter / (count - 1))
        return cls(count, mean, deviation if deviation > _ZERO_DEVIATION else 0.0)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return Student's interval of the mean. None below two cases, and if all differences are equal."""
        if self.cases < _MIN_CLUSTERS or not self.deviation:
            return None
        half_width = t_quantile((1 + level) / 2, self.cases - 1) * self.deviation / math.sqrt(self.cases)
        return Interval(self.mean - half_width, self.mean + half_width, "student-t", level)


class PairedTest(Struct, frozen=True):
    """The result of a test."""

    name: Literal["mcnemar", "sign-flips", "cluster-t"]
    """`mcnemar` is the score test of passes and fails, `cluster-t` the test of two independent samples."""
    p: float
    """Two-sided, 0..1."""
    is_exact: bool
    """False if `p` is an approximation or from random draws."""


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Return each p corrected for multiple tests by Holm's method, in the given order.

    The probability of any false rejection at 5 % stays at 5 %, however the tests depend on each other (Holm 1979).
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return tuple(adjusted)


class _EstimatedVariance(Struct, frozen=True):
    """The variance of a difference of means (its squared standard error), and its degrees of freedom."""

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

    def separate_variance(self) -> _EstimatedVariance:
        """Return the variance of the difference, with the cluster-robust variance of each side.

        Its degrees of freedom are Satterthwaite's. With clusters of one row the test is Welch's. Needs two clusters on
        each side. Liang & Zeger 1986, Biometrika 73(1); Welch 1947, Biometrika 34.
        """
        both = self.before.variance, self.after.variance
        variance = sum(both)
        if not variance:
            return _EstimatedVariance(0.0, 0.0)
        parts = zip(both, (self.before.clusters, self.after.clusters), strict=True)
        return _EstimatedVariance(variance, variance**2 / sum(each**2 / (clusters - 1) for each, clusters in parts))

    def pooled_variance(self) -> _EstimatedVariance:
        """Return the variance of the difference if both sides have the same variance.

        With clusters of one row the test is Student's.
        """
        sides = self.before, self.after
        degrees = sum(side.clusters for side in sides) - 2
        per_size = sum(side.scatter for side in sides) / sum(side.sizes for side in sides)
        clusters = sum(side.clusters for side in sides)
        return _EstimatedVariance(
            per_size * clusters / degrees * sum(1 / side.effective_clusters for side in sides), degrees
        )

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the interval for values without bounds. None below two clusters on a side, or if nothing varies."""
        if not self._has_variance():
            return None
        half_width = self._half_width(self.separate_variance(), level)
        return Interval(self.difference - half_width, self.difference + half_width, "cluster-t", level)

    def interval_of_shares(self, level: float = LEVEL) -> Interval | None:
        """Return the interval for values of 0..1, the wider of those by both variances. None below two clusters a side.

        If nothing varies, the intervals of the sides are combined (Newcombe 1998, Statistics in Medicine 17).
        """
        if not self._has_variance():
            return self._combined(level)
        half_width = max(
            self._half_width(estimate, level) for estimate in (self.separate_variance(), self.pooled_variance())
        )
        low, high = max(self.difference - half_width, -1.0), min(self.difference + half_width, 1.0)
        return Interval(low, high, "cluster-t", level)

    def p(self) -> float:
        """Return the two-sided p of values of 0..1: the larger by both variances; 1.0 below two clusters on a side.

        Separate variances alone give false alarms if a rare event is missing from a small sample, a pooled variance if
        the small sample varies more. If nothing varies, p is that of Fisher's exact test: all clusters of one side have
        one value, all of the other side another.
        """
        if not self._has_variance():
            if not self.difference or min(self.before.clusters, self.after.clusters) < _MIN_CLUSTERS:
                return 1.0
            return min(1.0, 2 / math.comb(self.before.clusters + self.after.clusters, self.after.clusters))
        return max(self._p(estimate) for estimate in (self.separate_variance(), self.pooled_variance()))

    def detectable(self) -> float | None:
        """Return the minimum detectable difference at 80 % power, by the normal distribution; None if unknown."""
        if not self._has_variance():
            return None
        deviates = normal_quantile((1 + LEVEL) / 2) + normal_quantile(_POWER)
        return deviates * math.sqrt(self._larger_variance())

    def needed(self, cases: int) -> int | None:
        """Return how many cases detect the observed difference at 80 % power; `cases` is their number now.

        None if it is unknown.
        """
        detectable = self.detectable()
        if detectable is None or not self.difference:
            return None
        return math.ceil(cases * (detectable / self.difference) ** 2)

    def _larger_variance(self) -> float:
        return max(self.separate_variance().variance, self.pooled_variance().variance)

    def _has_variance(self) -> bool:
        sides = self.before, self.after
        return min(side.clusters for side in sides) >= _MIN_CLUSTERS and any(side.scatter for side in sides)

    def _half_width(self, estimate: _EstimatedVariance, level: float) -> float:
        return t_quantile((1 + level) / 2, estimate.degrees) * math.sqrt(estimate.variance)

    def _p(self, estimate: _EstimatedVariance) -> float:
        squared = self.difference**2 / estimate.variance
        return beta_cdf(estimate.degrees / (estimate.degrees + squared), estimate.degrees / 2, 1 / 2)

    def _combined(self, level: float) -> Interval | None:
        old, new = mean_interval(self.before, level), mean_interval(self.after, level)
        if old is None or new is None:
            return None
        below = math.hypot(self.after.mean - new.low, old.high - self.before.mean)
        above = math.hypot(new.high - self.after.mean, self.before.mean - old.low)
        return Interval(self.difference - below, self.difference + above, "newcombe", level)
