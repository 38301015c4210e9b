"""The rate of all answers, estimated from labels of some of them, stratum by stratum (post-stratification)."""

import math
from collections.abc import Sequence

from msgspec import Struct

from agentv.scoring.statistics.distributions import t_quantile
from agentv.scoring.statistics.intervals import wilson_bounds
from agentv.types.summaries import LEVEL, Interval

_UNKNOWN = 0.5
"""The rate of a stratum without a label."""

_WIDENING = 1.0125
"""A factor of the quantile: counts are whole numbers, which takes the coverage of some settings below 93 % otherwise.

With it the lowest coverage of 1,008 simulated settings is above 93 %, and labels drawn in proportion to the judge's
verdicts give intervals at most 1.05 times as wide as as many random labels (bench/corrected_rate.py).
"""


class Stratum(Struct, frozen=True):
    """A group of answers of which some are labelled, such as those that a judge passed."""

    share: float
    """The share of all answers that are in this group, labelled or not."""
    rate: float
    """The share of its labelled answers that people passed; of any value without a label."""
    n: float
    """The effective number of its labelled answers."""

    @property
    def smooth_rate(self) -> float:
        """The rate with one more pass and one more fail, (x + 1) / (n + 2), from which variances are computed."""
        return (self.rate * self.n + 1) / (self.n + 2)

    @property
    def variance(self) -> float:
        """The variance of the stratum's contribution to the rate of all answers."""
        return self.share**2 * self.smooth_rate * (1 - self.smooth_rate) / (self.n + 1 / 2)


def stratified_rate(strata: Sequence[Stratum]) -> float:
    """Return the rate of all answers, Σ W·p: shares of strata times the rates of their labels."""
    return math.fsum(each.share * (each.rate if each.n else _UNKNOWN) for each in strata)


def stratified_interval(strata: Sequence[Stratum], cases: float, level: float = LEVEL) -> Interval:
    """Return the interval of `stratified_rate`, for the rate that the answers are a sample of.

    Wilson's interval with Student's quantile and the effective sample size p (1 - p) / V. V is the sum of the strata's
    variances and of Σ W (p_h - p)² / cases, since another run would have other shares of the strata. `cases` is the
    effective number of cases of the run. Cochran 1977, Sampling Techniques, 5A.9. `python -m bench.corrected_rate`
    measures the coverage.
    """
    smooth = math.fsum(each.share * each.smooth_rate for each in strata)
    between = math.fsum(each.share * (each.smooth_rate - smooth) ** 2 for each in strata) / cases
    variance = math.fsum(each.variance for each in strata) + between
    labelled = [each.n for each in strata if each.n]
    deviate = _WIDENING * t_quantile((1 + level) / 2, max(math.fsum(labelled) - len(labelled), 1.0))
    low, high = wilson_bounds(min(max(stratified_rate(strata), 0.0), 1.0), smooth * (1 - smooth) / variance, deviate)
    return Interval(low, high, "stratified-wilson", level)
