"""Quantiles of the normal, Student's t and the beta distribution, to nine digits or better."""

import math
from functools import lru_cache
from statistics import NormalDist

_STANDARD = NormalDist()
_TINY = 1e-300
_PRECISION = 1e-16
_MAX_TERMS = 100_000
_MAX_STEPS = 200
_MANY_DEGREES = 1000


def normal_quantile(probability: float) -> float:
    """Return the quantile of the standard normal distribution at `probability` (0..1, ends excluded)."""
    return _STANDARD.inv_cdf(probability)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: float) -> float:
    """Return the quantile of Student's t distribution at `probability` (0..1, ends excluded).

    Through the beta distribution, T² / (degrees + T²) ~ Beta(1/2, degrees/2); from a thousand degrees of freedom by the
    expansion around the normal quantile, Abramowitz & Stegun 26.7.5, exact to 1e-11 there.
    """
    if probability < 1 / 2:
        return -t_quantile(1 - probability, degrees)
    if degrees >= _MANY_DEGREES:
        return _t_near_normal(normal_quantile(probability), degrees)
    beta_value = beta_quantile(2 * probability - 1, 1 / 2, degrees / 2)
    return math.sqrt(degrees * beta_value / (1 - beta_value))


def _t_near_normal(z: float, degrees: float) -> float:
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92_160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return the quantile (0..1) of Beta(a, b) at `probability` (0..1); a and b are above 0."""
    if probability <= 0 or probability >= 1:
        return 0.0 if probability <= 0 else 1.0
    low, high, x = 0.0, 1.0, a / (a + b)
    log_scale = _log_beta(a, b)
    for _ in range(_MAX_STEPS):
        excess = beta_cdf(x, a, b) - probability
        low, high = (low, x) if excess > 0 else (x, high)
        density = math.exp((a - 1) * math.log(x) + (b - 1) * math.log1p(-x) - log_scale)
        next_x = x - excess / density if density > _TINY else low
        if not low < next_x < high:
            next_x = (low + high) / 2
        if abs(next_x - x) <= _PRECISION * x:
            return next_x
        x = next_x
    return x


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the probability that Beta(a, b) is at most `x`: the regularized incomplete beta function.

    By its continued fraction (DLMF 8.17.22), from the side on which it converges fast.
    """
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    front = math.exp(a * math.log(x) + b * math.log1p(-x) - _log_beta(a, b))
    if x < (a + 1) / (a + b + 2):
        return front / (a * _beta_fraction(x, a, b))
    return 1 - front / (b * _beta_fraction(1 - x, b, a))


def _beta_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction 1 + d1 / (1 + d2 / (1 + …)), evaluated forwards by Lentz's method."""
    value, upper, lower = 1.0, 1.0, 0.0
    for term in range(1, _MAX_TERMS):
        half, is_odd = divmod(term, 2)
        shifted = a + term
        if is_odd:
            coefficient = -(a + half) * (a + b + half) * x / ((shifted - 1) * shifted)
        else:
            coefficient = half * (b - half) * x / ((shifted - 1) * shifted)
        lower = 1 / ((1 + coefficient * lower) or _TINY)
        upper = (1 + coefficient / upper) or _TINY
        value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION * 4:
            break
    return value


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
