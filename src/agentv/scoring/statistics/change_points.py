"""Where a series of runs changed its level, and not by chance."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from agentv.scoring.statistics.distributions import beta_share, normal_quantile
from agentv.scoring.statistics.hypergeometric import fisher_test
from agentv.scoring.statistics.moments import ClusterMoments

LEVEL = 0.05
FEWEST_RUNS = 5
"""Below five runs, how much runs scatter is not known well enough."""

_FEWEST_CASES = 2
_STEPS = 40
_REACH = 8.0
_LEAST_CHANCE = 1e-300
_ALIKE = 1e-12
_DIGITS = 6


@dataclass(frozen=True, slots=True)
class Observation:
    """One run's number in a series; `weight` is how many independent cases it is worth.

    `variance` is that of one case, of numbers of 0..1; None where it is not known.
    """

    value: float
    weight: float = 1.0
    variance: float | None = None

    @classmethod
    def of_moments(cls, moments: ClusterMoments) -> "Observation":
        """Return a rate or a mean of 0..1 as an observation; repeats of a case are one."""
        weight, mean = moments.effective_clusters, min(max(moments.mean, 0.0), 1.0)
        # Nothing of 0..1 varies more than passes and fails.
        variance = mean * (1 - mean) if moments.clusters < _FEWEST_CASES else moments.variance * weight
        return cls(mean, weight, variance)


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The level changed at observation number `at` (from 0), the first of the new level.

    `before` and `after` are the means up to the changes next to this one; `p` is the chance of so clear a change
    somewhere in a series without one.
    """

    at: int
    before: float
    after: float
    p: float


def find_changes(series: Sequence[Observation], *, level: float = LEVEL) -> tuple[ChangePoint, ...]:
    """Return where a series changed, by binary segmentation (Scott & Knott 1974): in order; none below five runs.

    The clearest split of the series is a change when its p is at most `level`; then both parts are looked at in the
    same way. In a series that stays as it is, any change is found in at most `level` of all cases.
    """
    found = dict(_split(series, 0, level))
    places = sorted(found)
    means = [_mean(series[start:end]) for start, end in pairwise([0, *places, len(series)])]
    return tuple(
        ChangePoint(at, before, after, found[at]) for at, (before, after) in zip(places, pairwise(means), strict=True)
    )


def _split(series: Sequence[Observation], start: int, level: float) -> Iterator[tuple[int, float]]:
    if len(series) < FEWEST_RUNS:
        return
    at, p = clearest_split(series)
    if p <= level:
        yield start + at, p
        yield from _split(series[:at], start, level)
        yield from _split(series[at:], start + at, level)


def clearest_split(series: Sequence[Observation]) -> tuple[int, float]:
    """Return the split with the most likely change, and the chance of one as clear somewhere in a constant series.

    It must stand out from the scatter of cases within runs, where that is known, and from the scatter of the runs
    themselves: the less clear of both counts. There are three observations or more.
    """
    weights = list(accumulate(each.weight for each in series))
    sums = list(accumulate(each.weight * each.value for each in series))
    whole, mean = weights[-1], sums[-1] / weights[-1]
    scatter = math.fsum(each.weight * (each.value - mean) ** 2 for each in series)
    if scatter <= _ALIKE * whole:
        return 1, 1.0
    lifts = [
        (total - mean * weight) ** 2 * whole / (weight * (whole - weight))
        for weight, total in zip(weights[:-1], sums[:-1], strict=True)
    ]
    place = max(range(len(lifts)), key=lifts.__getitem__)
    chance = max(
        _chance_between_runs(lifts[place] / scatter, len(series)),
        _chance_within_runs(series, weights[place], sums[place], scatter),
    )
    deviate = -normal_quantile(max(chance, _LEAST_CHANCE) / 2) if chance < 1 else 0.0
    return place + 1, _chance_anywhere(deviate, [weight / whole for weight in weights[:-1]])


def _mean(series: Sequence[Observation]) -> float:
    return math.fsum(each.weight * each.value for each in series) / math.fsum(each.weight for each in series)


def _chance_between_runs(explained: float, runs: int) -> float:
    """Return the p of one split by Student's t; `explained` is the share of the runs' scatter that it explains."""
    return beta_share(max(1 - explained, 0.0), (runs - 2) / 2, 1 / 2)


def _chance_within_runs(series: Sequence[Observation], weight: float, total: float, scatter: float) -> float:
    """Return the p of one split, before which there are cases worth `weight` with the sum `total`.

    By Fisher's exact test on as many passes and fails as the cases are worth: mean (1 - mean) / variance each. A normal
    distribution would find changes where one case in a hundred fails. 0.0 where the variance is not known.
    """
    whole = math.fsum(each.weight for each in series)
    within = math.fsum(each.weight * (math.inf if each.variance is None else each.variance) for each in series)
    if math.isinf(within):
        return 0.0
    mean = _mean(series)
    worth = max(mean * (1 - mean) * whole / (within + scatter), 1.0)
    sides = ((weight, total), (whole - weight, mean * whole - total))
    first, second = ((worth * cases, worth * passed) for cases, passed in sides)
    if first[1] / first[0] > second[1] / second[0]:
        first, second = second, first
    # Towards each other, where they are no whole numbers.
    return fisher_test(_down(first[0]), _up(first[1]), _up(second[0]), _down(second[1]))


def _down(value: float) -> int:
    return math.floor(round(value, _DIGITS))


def _up(value: float) -> int:
    return math.ceil(round(value, _DIGITS))


def _chance_anywhere(deviate: float, places: Sequence[float]) -> float:
    """Return at most how likely a deviate as far from 0 is at any of the splits after these shares (0..1) of a series.

    Standardized differences of all splits are normal, and each depends on those before only through the last: a
    Brownian bridge, seen at `places`. The product of the chances of each step bounds it: Glaz & Johnson 1984, JASA 79.
    """
    beyond = math.erfc(deviate / math.sqrt(2))
    if beyond >= 1:
        return 1.0
    log_within = math.log1p(-beyond)
    for first, second in pairwise(places):
        alike = math.sqrt(first * (1 - second) / (second * (1 - first)))
        log_within += math.log1p(-min(_crossing(deviate, alike) / (1 - beyond), 1 - _ALIKE))
    return -math.expm1(log_within)


def _crossing(deviate: float, alike: float) -> float:
    """Return the chance that of two standard normals with the correlation `alike` only the second is beyond."""
    spread = math.sqrt(max(1 - alike * alike, _ALIKE))
    low = max((deviate - _REACH * spread) / alike, -deviate)
    step = (deviate - low) / _STEPS
    terms = []
    for number in range(_STEPS + 1):
        x = low + step * number
        share = math.erfc((deviate - alike * x) / (spread * math.sqrt(2))) / 2
        weight = 1 if number in (0, _STEPS) else 4 if number % 2 else 2
        terms.append(weight * math.exp(-x * x / 2) * share)
    return 2 * math.fsum(terms) * step / 3 / math.sqrt(2 * math.pi)
