"""Whether one thing grows with another, whatever the shape: Spearman's rank correlation and its interval."""

import math
from collections.abc import Sequence
from itertools import groupby

from agentv.scoring.statistics.distributions import normal_quantile
from agentv.types.intervals import LEVEL, Interval

FEWEST = 10
"""Things below which no correlation has an interval."""


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation, -1..1, ties at their mean rank; None where either is all alike.

    Spearman 1904, American Journal of Psychology 15(1).

    >>> rank_correlation([10, 20, 30], [0.1, 0.2, 0.9])
    1.0
    """
    one, other = _centred_ranks(first), _centred_ranks(second)
    scatter = math.sqrt(math.fsum(each * each for each in one)) * math.sqrt(math.fsum(each * each for each in other))
    if not scatter:
        return None
    return min(max(math.fsum(a * b for a, b in zip(one, other, strict=True)) / scatter, -1.0), 1.0)


def correlation_interval(correlation: float, count: int, level: float = LEVEL) -> Interval | None:
    """Return the interval of a rank correlation of `count` independent things, on Fisher's scale, artanh.

    The standard error there is √((1 + r² / 2) / (count - 3)), Bonett & Wright 2000, Psychometrika 65(1). None below ten
    things, and where the ranks are all the same or all reversed.
    """
    if count < FEWEST or not -1 < correlation < 1:
        return None
    half = normal_quantile((1 + level) / 2) * math.sqrt((1 + correlation**2 / 2) / (count - 3))
    middle = math.atanh(correlation)
    return Interval(math.tanh(middle - half), math.tanh(middle + half), "fisher-z", level)


def _centred_ranks(values: Sequence[float]) -> list[float]:
    """Return each value's rank less the mean rank."""
    ranks = [0.0] * len(values)
    below = 0
    for _, group in groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        places = list(group)
        for place in places:
            ranks[place] = below + (len(places) - 1) / 2 - (len(values) - 1) / 2
        below += len(places)
    return ranks
