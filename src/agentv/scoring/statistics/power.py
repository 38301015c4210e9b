"""Power of paired comparisons: minimum detectable differences and required numbers of cases."""

import math
from functools import lru_cache

from agentv.scoring.statistics.differences import PairedDifferences
from agentv.scoring.statistics.distributions import t_quantile

SIGNIFICANCE = 0.05
"""A difference with a p of at most this is significant."""

POWER = 0.8
MIN_CASES = 6
"""Five differences of one sign have a p of 1/16: with fewer than six cases sign flips cannot reach the 5 % level."""

MAX_CASES = 10_000_000
"""If more cases are needed than this, no number is returned."""

# The grid of the numerical integral in `_noncentral_t`: its points, its width in standard deviations, its longer tail.
_GRID_POINTS = 320
_GRID_DEVIATIONS = 9.0
_GRID_TAIL = 40.0
_HALVINGS = 60


def power_of(effect: float, cases: int, *, level: float = SIGNIFICANCE, beyond: float = 0.0) -> float:
    """Return the power of Student's paired test, two-sided at `level`, for a mean difference of `effect`.

    `effect` is in standard deviations of the differences; `beyond` raises the critical value by that many standard
    errors. By the noncentral t distribution. 0.0 below two cases.
    """
    if cases < 2:  # noqa: PLR2004 - one case has no variance
        return 0.0
    shift, degrees = abs(effect) * math.sqrt(cases), cases - 1
    critical = t_quantile(1 - level / 2, degrees) + beyond
    return 1 - _noncentral_t(critical, degrees, shift) + _noncentral_t(-critical, degrees, shift)


def permutation_power(effect: float, cases: int, *, step: float = 0.0) -> float:
    """Return the power of the paired permutation test at the 5 % level for a mean difference of `effect`.

    `effect` and `step` are in standard deviations of the differences. The test has less power than Student's because
    its p is discrete: p has steps of 2 / 2**cases, and the sum of differences, if all are multiples of `step`, has
    steps of 2 * `step`. Half a step of each is lost on average (continuity correction). With six cases, all must change
    in the same direction.
    """
    if cases < MIN_CASES:
        return 0.0
    if cases == MIN_CASES:
        share_positive = math.erfc(-effect / math.sqrt(2)) / 2
        return share_positive**cases + (1 - share_positive) ** cases
    return power_of(effect, cases, level=SIGNIFICANCE - 0.5**cases, beyond=step / math.sqrt(cases))


def _noncentral_t(value: float, degrees: int, shift: float) -> float:
    """Return the probability that (Z + shift) / S is at most `value`; S² is a chi-square over its degrees of freedom.

    The integral over u = ln S of Φ(value · S - shift), by the trapezoidal rule, which is exact to rounding for an
    integrand that vanishes on both sides (Trefethen & Weideman 2014).
    """
    grid, weights = _scale_grid(degrees)
    return math.fsum(
        weight * math.erfc((shift - value * scale) / math.sqrt(2)) / 2
        for scale, weight in zip(grid, weights, strict=True)
    )


@lru_cache(maxsize=64)
def _scale_grid(degrees: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the values of S on the grid, and their weights, which sum to 1."""
    spread = _GRID_DEVIATIONS / math.sqrt(2 * degrees)
    low, high = -spread - _GRID_TAIL / degrees, spread
    step = (high - low) / _GRID_POINTS
    points = [low + step * number for number in range(_GRID_POINTS + 1)]
    densities = [math.exp(degrees * (point + (1 - math.exp(2 * point)) / 2)) for point in points]
    total = math.fsum(densities)
    return tuple(map(math.exp, points)), tuple(density / total for density in densities)


def detectable_difference(differences: PairedDifferences) -> float | None:
    """Return the minimum detectable mean difference at 80 % power, for this number of cases and this variance.

    None if the differences do not vary, or if the cases are too few to detect any.
    """
    cases, deviation = differences.cases, differences.deviation
    if cases < MIN_CASES or not deviation:
        return None
    step = differences.step / deviation
    low, high = 0.0, 1.0
    while permutation_power(high, cases, step=step) < POWER:
        high *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if permutation_power(middle, cases, step=step) < POWER else (low, middle)
    return high * deviation


def cases_needed(differences: PairedDifferences) -> int | None:
    """Return the number of cases to detect the observed mean difference at 80 % power.

    None for a difference of 0, and if more than MAX_CASES are needed.
    """
    if not differences.mean:
        return None
    if not differences.deviation:
        return MIN_CASES
    effect, step = (value / differences.deviation for value in (differences.mean, differences.step))
    low, high = MIN_CASES - 1, MIN_CASES
    while permutation_power(effect, high, step=step) < POWER:
        low, high = high, 2 * high
        if low > MAX_CASES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if permutation_power(effect, middle, step=step) < POWER else (low, middle)
    return high
