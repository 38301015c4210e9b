"""How sure a kappa is: its interval, with several answers to one case taken together."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from agentv.scoring.statistics.distributions import t_quantile
from agentv.types.intervals import LEVEL, Interval

_ALIKE = 1e-9


def kappa_error(cases: Sequence[int], first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return the standard error of the quadratically weighted kappa of two annotators; of 0 and 1 it is Cohen's.

    `cases` names the case of each pair: pairs of one case are one cluster. By linearization: the variance of the sum
    of each cluster's first-order influence on kappa, times m / (m - 1). With clusters of one it is that of Fleiss,
    Cohen & Everitt 1969, Psychological Bulletin 72(5), with n - 1. None below two clusters, and where kappa is not
    defined.
    """
    count = len(first)
    clusters: dict[int, float] = dict.fromkeys(cases, 0.0)
    firsts, seconds = Counter(first), Counter(second)
    to_first = {value: _mean_distance(value, firsts, count) for value in seconds}
    to_second = {value: _mean_distance(value, seconds, count) for value in firsts}
    if len(clusters) < 2:  # noqa: PLR2004 - nothing varies in one
        return None
    observed = math.fsum((one - other) ** 2 for one, other in zip(first, second, strict=True)) / count
    expected = math.fsum(times * to_second[value] for value, times in firsts.items()) / count
    if expected <= _ALIKE:
        return None
    for case, one, other in zip(cases, first, second, strict=True):
        by_chance = to_second[one] + to_first[other] - 2 * expected
        clusters[case] += observed / expected**2 * by_chance - ((one - other) ** 2 - observed) / expected
    several = len(clusters)
    return math.sqrt(several / (several - 1) * math.fsum(each * each for each in clusters.values())) / count


def kappa_interval(kappa: float, error: float | None, clusters: int, level: float = LEVEL) -> Interval | None:
    """Return Student's interval of a kappa on Fisher's scale, artanh, brought back; it keeps within -1 and 1.

    None where there is no error to go by, as when all agree.
    """
    if error is None or error <= _ALIKE or not -1 < kappa < 1:
        return None
    half = t_quantile((1 + level) / 2, clusters - 1) * error / (1 - kappa * kappa)
    middle = math.atanh(kappa)
    return Interval(math.tanh(middle - half), math.tanh(middle + half), "linearized-t", level)


def _mean_distance(value: float, others: Mapping[float, int], count: int) -> float:
    return math.fsum(times * (value - other) ** 2 for other, times in others.items()) / count
