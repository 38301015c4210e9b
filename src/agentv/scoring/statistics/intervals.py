"""Intervals of rates, of mean scores, and of rates corrected for a judge's errors.

The first two keep their coverage even with few cases and with repeats.
"""

import math

from msgspec import Struct

from agentv.scoring.statistics.distributions import normal_quantile, t_quantile
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import LEVEL, Interval, IntervalMethod, MeasuredRate

_MIN_CLUSTERS = 2


def wilson_bounds(share: float, count: float, deviate: float) -> tuple[float, float]:
    """Return the shares µ at a distance of `deviate` standard errors √(µ (1 - µ) / count) from `share`.

    `count` need not be a whole number. Wilson 1927, JASA 22(158).
    """
    weight = deviate * deviate / count
    middle = share + weight / 2
    half_width = math.sqrt(weight * (share * (1 - share) + weight / 4))
    # A share of 0 is its own low bound, a share of 1 its own high bound; a rounding error would show 1.0 as 99.9 %.
    low = 0.0 if share <= 0 else max((middle - half_width) / (1 + weight), 0.0)
    high = 1.0 if share >= 1 else min((middle + half_width) / (1 + weight), 1.0)
    return low, high


def rate_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return Wilson's interval of a rate, with the effective sample size if cases repeat. None below two clusters."""
    if moments.clusters < _MIN_CLUSTERS:
        return None
    if not moments.is_repeated:
        return _wilson(moments.mean, below=moments.rows, above=moments.rows, method="wilson", level=level)
    return _wilson(moments.mean, *_effective_ns(moments), "clustered-wilson", level)


def effective_n(moments: ClusterMoments) -> float:
    """Return the effective sample size of a rate: the smaller of those for its two bounds.

    Without repeats it is the number of rows.
    """
    return min(_effective_ns(moments)) if moments.is_repeated else moments.rows


def mean_interval(moments: ClusterMoments, level: float = LEVEL) -> Interval | None:
    """Return the interval of a mean of scores of 0..1, over clusters, here called cases. None below two cases.

    The interval contains all means µ within z standard errors √(V(µ) / cases) of the observed mean, where z is the
    two-sided normal quantile of `level`. V is a parabola with the variance v and the skewness of the cases: v + (third
    / second central moment) · (µ - mean) - (µ - mean)². For passes and fails V is µ (1 - µ), and the interval is
    Wilson's. (Student's interval assumes a constant variance, and misses too often on the side of a long tail.) The
    variance has Student's correction for few cases, with as many degrees of freedom as there are pairs of cases, since
    scores within 0..1 vary less than normal ones. If all cases have the same mean, the variance is unknown, and the
    interval is Wilson's for the effective number of cases. Quadratic variances: Morris 1982, Annals of Statistics
    10(1); correction for skewness: Johnson 1978, JASA 73(363).
    """
    if moments.clusters < _MIN_CLUSTERS:
        return None
    # The mean of many scores may be outside 0..1 by a rounding error.
    mean, cases = min(max(moments.mean, 0.0), 1.0), moments.effective_clusters
    # Converts the sum over the rows of one case to their mean: it is 1 / n if each case has n rows.
    unit = moments.rows / moments.sizes
    squares, cubes = moments.scatter * unit**2, moments.cubed_scatter * unit**3
    if not squares:
        return _wilson(mean, below=cases, above=cases, method="wilson", level=level)
    deviate = normal_quantile(_upper(level))
    allowance = (t_quantile(_upper(level), moments.clusters * (moments.clusters - 1) / 2) / deviate) ** 2
    scores = _Scores(mean=mean, cases=cases, squares=squares, cubes=cubes, allowance=allowance)
    return Interval(*scores.bounds(deviate), "scaled-wilson", level)


class _Scores(Struct, frozen=True):
    """The mean score of some cases, and the sums of powers of their distances from it."""

    mean: float
    cases: float
    """The number of cases."""
    squares: float
    """The sum of the squares of the distances."""
    cubes: float
    """The sum of the cubes of the distances."""
    allowance: float
    """The factor by which `squares` are increased because there are few cases."""

    def bounds(self, deviate: float) -> tuple[float, float]:
        """Return the interval, limited to 0..1."""
        return max(self._bound(self.mean, -1, deviate), 0.0), min(self._bound(1 - self.mean, 1, deviate), 1.0)

    def _bound(self, distance: float, side: int, deviate: float) -> float:
        """Return the bound below (`side` -1) or above (1) the mean, which is at `distance` from this end of 0..1."""
        max_variance, added_square = self.mean * (1 - self.mean), _added_square(distance)
        variance_ratio = (self.squares * self.allowance + added_square) / (self.cases * max_variance + added_square)
        skew = (self.cubes + added_square * (1 - 2 * self.mean)) / (self.squares + added_square)
        weight = deviate * deviate / self.cases
        half_width = math.sqrt(
            weight * ((1 + weight) * min(variance_ratio, 1.0) * max_variance + weight * skew * skew / 4)
        )
        return self.mean + (weight * skew / 2 + side * half_width) / (1 + weight)


def _added_square(distance: float) -> float:
    """Return the addition to the sum of squares for a case at an end of the scale, at `distance` from the mean.

    Few cases with similar scores underestimate the variance: distant cases may be missing by chance. So a case at the
    end is added, with a weight of half its squared distance. Bounds of a mean with an added value at the end:
    Anderson 1969; Learned-Miller & Thomas 2019, arXiv:1905.06208. The weight is the one with the best coverage in
    simulations (docs/explanation/numbers.md); with two hundred cases it hardly matters.
    """
    return distance**4 / 2


def _effective_ns(moments: ClusterMoments) -> tuple[float, float]:
    """Return the effective sample sizes of a rate, for its lower and its upper bound.

    Each is the effective number of cases divided by the ratio of the variance of the cases to that of passes and fails.
    (Without _added_square, this is the number of rows divided by the design effect, Kish 1965.) _added_square is added
    to the sums of squares from which both variances are computed. The result is at most the number of rows (Korn &
    Graubard 1998, Survey Methodology 24(2)), and at least the effective number of cases, since nothing in 0..1 varies
    more than passes and fails.
    """
    rate, cases = moments.mean, moments.effective_clusters
    max_variance = rate * (1 - rate)
    variance = max(moments.scatter / moments.sizes, max_variance * cases / moments.rows)
    if variance >= max_variance:
        return cases, cases
    added_squares = _added_square(rate), _added_square(1 - rate)
    below, above = (
        cases * (cases * max_variance + added_square) / (cases * variance + added_square)
        for added_square in added_squares
    )
    return below, above


def _upper(level: float) -> float:
    """Return the probability below the high bound of a two-sided interval."""
    return (1 + level) / 2


def _wilson(mean: float, below: float, above: float, method: IntervalMethod, level: float) -> Interval:
    """Return Wilson's interval with the sample sizes `below` for its low bound and `above` for its high bound."""
    deviate = normal_quantile(_upper(level))
    return Interval(wilson_bounds(mean, below, deviate)[0], wilson_bounds(mean, above, deviate)[1], method, level)


def corrected_rate(raw: float, sensitivity: float, specificity: float) -> float | None:
    """Return the estimated share of answers that people would pass, from the share that the judge passed.

    (raw + specificity - 1) / (sensitivity + specificity - 1), clipped to 0..1. None for an uninformative judge, whose
    sensitivity and specificity sum to at most 1. Rogan & Gladen 1978, American Journal of Epidemiology 107(1).

    >>> round(corrected_rate(0.78, 0.9, 0.8), 3)
    0.829
    """
    skill = sensitivity + specificity - 1
    return min(max((raw + specificity - 1) / skill, 0.0), 1.0) if skill > 0 else None


def corrected_interval(
    raw: MeasuredRate, sensitivity: MeasuredRate, specificity: MeasuredRate, level: float = LEVEL
) -> Interval | None:
    """Return the interval of a corrected rate; the rate, the sensitivity and the specificity are all estimates.

    The delta method with pseudo-counts: z² / 2 more passes and as many more fails for the rate, one more of each for
    sensitivity and specificity, and a shift for the skew. Lang & Reiczigel 2014, Preventive Veterinary Medicine 113(1).
    None if the judge is uninformative with these pseudo-counts.
    """
    deviate = normal_quantile(_upper(level))
    rate = _with_more(raw, deviate * deviate / 2)
    hits, rejections = _with_more(sensitivity, 1), _with_more(specificity, 1)
    skill = hits.value + rejections.value - 1
    if skill <= 0:
        return None
    share = (rate.value + rejections.value - 1) / skill
    pass_variance, fail_variance = share * hits.variance, (1 - share) * rejections.variance
    shift = 2 * deviate * deviate * (pass_variance - fail_variance)
    half_width = deviate * math.sqrt(rate.variance + share * pass_variance + (1 - share) * fail_variance) / skill
    low, high = (min(max(share + shift + side, 0.0), 1.0) for side in (-half_width, half_width))
    return Interval(low, high, "lang-reiczigel", level)


def _with_more(rate: MeasuredRate, each: float) -> MeasuredRate:
    """Return a rate with `each` more passes and as many more fails."""
    count = rate.effective_n + 2 * each
    return MeasuredRate((rate.value * rate.effective_n + each) / count, rate.rows, count)
