"""Correction of a judge's pass rate by its measured errors."""

import math

from agentv.scoring.statistics.distributions import normal_quantile
from agentv.types.summaries import LEVEL, Interval, MeasuredRate


def corrected_rate(raw: float, sensitivity: float, specificity: float) -> float | None:
    """Return the estimated share of answers that people would pass, from the share that the judge passed; 0..1.

    (raw + specificity - 1) / (sensitivity + specificity - 1), clipped. None for an uninformative judge, whose
    sensitivity and specificity sum to at most 1. Rogan & Gladen 1978, American Journal of Epidemiology 107(1).

    >>> round(corrected_rate(0.78, 0.9, 0.8), 3)
    0.829
    """
    skill = sensitivity + specificity - 1
    return min(max((raw + specificity - 1) / skill, 0.0), 1.0) if skill > 0 else None


def corrected_interval(
    raw: MeasuredRate, sensitivity: MeasuredRate, specificity: MeasuredRate, level: float = LEVEL
) -> Interval | None:
    """Return the interval of a corrected rate, given that rate, sensitivity and specificity are all estimates.

    The delta method with pseudo-counts: z² / 2 more passes and fails for the rate, one of each for sensitivity and
    specificity, and a shift for the skew. Lang & Reiczigel 2014, Preventive Veterinary Medicine 113(1). None if the
    judge is uninformative with these counts.
    """
    z = normal_quantile((1 + level) / 2)
    rate = _with_more(raw, z * z / 2)
    hits, rejections = _with_more(sensitivity, 1), _with_more(specificity, 1)
    skill = hits.value + rejections.value - 1
    if skill <= 0:
        return None
    share = (rate.value + rejections.value - 1) / skill
    of_passes, of_fails = share * hits.variance, (1 - share) * rejections.variance
    shift = 2 * z * z * (of_passes - of_fails)
    half = z * math.sqrt(rate.variance + share * of_passes + (1 - share) * of_fails) / skill
    low, high = (min(max(share + shift + side, 0.0), 1.0) for side in (-half, half))
    return Interval(low, high, "lang-reiczigel", level)


def _with_more(rate: MeasuredRate, each: float) -> MeasuredRate:
    """Return a rate with `each` more passes and as many more fails."""
    count = rate.effective_n + 2 * each
    return MeasuredRate((rate.value * rate.effective_n + each) / count, rate.rows, count)
