"""The rate that a judge would have found had it made no mistakes, from the mistakes that it was seen to make."""

import math

from agentv.scoring.statistics.distributions import normal_quantile
from agentv.types.summaries import LEVEL, Interval, MeasuredRate


def corrected_rate(raw: float, sensitivity: float, specificity: float) -> float | None:
    """Return the share of answers that people would pass, from the share that the judge passed; 0..1.

    (raw + specificity - 1) / (sensitivity + specificity - 1), clipped. None for a judge that tells nothing, whose
    sensitivity and specificity sum to at most 1. Rogan & Gladen 1978, American Journal of Epidemiology 107(1).

    >>> round(corrected_rate(0.78, 0.9, 0.8), 3)
    0.829
    """
    skill = sensitivity + specificity - 1
    return min(max((raw + specificity - 1) / skill, 0.0), 1.0) if skill > 0 else None


def corrected_interval(
    raw: MeasuredRate, sensitivity: MeasuredRate, specificity: MeasuredRate, level: float = LEVEL
) -> Interval | None:
    """Return the interval of a corrected rate: it counts that rate, sensitivity and specificity are all estimates.

    The delta method with pseudo-counts: z² / 2 passes and fails more for the rate, one of each for sensitivity and
    specificity, and a shift for the skew. Lang & Reiczigel 2014, Preventive Veterinary Medicine 113(1). None where the
    three tell nothing with these counts.
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
    """Return a rate with as many passes and fails more."""
    worth = rate.worth + 2 * each
    return MeasuredRate((rate.value * rate.worth + each) / worth, rate.rows, worth)
