"""What a paired comparison of so many cases could have shown, and how many it would take."""

import math
from functools import lru_cache

from agentv.scoring.statistics.distributions import t_quantile

LEVEL = 0.05
POWER = 0.8
FEWEST_CASES = 6
"""Five signs that all agree have a chance of 1/16: no number of cases below six can reach the 5 % level."""

MOST_CASES = 10_000_000

_POINTS = 320
_REACH = 9.0
_TAIL = 40.0
_HALVINGS = 60


def power_of(effect: float, cases: int) -> float:
    """Return the chance that a two-sided paired test at the 5 % level sees a mean difference of `effect`.

    `effect` is in standard deviations of the differences. By the noncentral t distribution, which is that of Student's
    test and, with the same cases, nearly that of the sign flips. 0.0 below two cases.
    """
    if cases < 2:  # noqa: PLR2004 - nothing varies in one
        return 0.0
    shift, degrees = abs(effect) * math.sqrt(cases), cases - 1
    critical = t_quantile(1 - LEVEL / 2, degrees)
    return 1 - _noncentral_t(critical, degrees, shift) + _noncentral_t(-critical, degrees, shift)


def _noncentral_t(value: float, degrees: int, shift: float) -> float:
    """Return the chance that (Z + shift) / S is at most `value`, S the root of a chi-square over its degrees.

    The integral over u = ln S of Φ(value · S - shift), by the trapezoidal rule, which is exact to rounding for an
    integrand that fades on both sides (Trefethen & Weideman 2014).
    """
    grid, weights = _scale_grid(degrees)
    return math.fsum(
        weight * math.erfc((shift - value * scale) / math.sqrt(2)) / 2
        for scale, weight in zip(grid, weights, strict=True)
    )


@lru_cache(maxsize=64)
def _scale_grid(degrees: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return values of S and how much each weighs; the weights sum to 1."""
    spread = _REACH / math.sqrt(2 * degrees)
    low, high = -spread - _TAIL / degrees, spread
    step = (high - low) / _POINTS
    points = [low + step * number for number in range(_POINTS + 1)]
    densities = [math.exp(degrees * (point + (1 - math.exp(2 * point)) / 2)) for point in points]
    whole = math.fsum(densities)
    return tuple(map(math.exp, points)), tuple(density / whole for density in densities)


def detectable_difference(deviation: float, cases: int) -> float | None:
    """Return the smallest mean difference that `cases` would show in 80 of 100 comparisons.

    `deviation` is the standard deviation of the differences. None where nothing varied, or the cases are too few to
    show anything.
    """
    if cases < FEWEST_CASES or not deviation:
        return None
    low, high = 0.0, 1.0
    while power_of(high, cases) < POWER:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if power_of(middle, cases) < POWER else (low, middle)
    return high * deviation


def cases_needed(difference: float, deviation: float) -> int | None:
    """Return how many cases it takes to show a mean difference in 80 of 100 comparisons.

    None for a difference of 0, and where it takes more than ten million.
    """
    if not difference:
        return None
    effect = abs(difference) / deviation if deviation else math.inf
    if math.isinf(effect) or power_of(effect, FEWEST_CASES) >= POWER:
        return FEWEST_CASES
    low, high = FEWEST_CASES, 2 * FEWEST_CASES
    while power_of(effect, high) < POWER:
        low, high = high, 2 * high
        if low > MOST_CASES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if power_of(effect, middle) < POWER else (low, middle)
    return high
