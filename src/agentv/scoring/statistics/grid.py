"""The common step of score differences: 1 for passes, tenths, thirds."""

import math
from collections.abc import Sequence

_DENOMINATORS = (*range(1, 61), 64, 100, 120, 128, 200, 250, 256, 360, 500, 720, 840, 1000, 2520, 5040, 10_000)
_SLACK = 1e-7
ROUNDING = 1e-9
"""Differences of scores closer to 0 than this are rounding errors."""


def common_step(differences: Sequence[float]) -> float | None:
    """Return the largest step of which all differences are whole multiples: 1 for pass and fail, 0.1 for tenths.

    None if it would be at most 1/10,000, or if all differences are 0.
    """
    distinct = {abs(each) for each in differences if abs(each) > ROUNDING}
    if not distinct:
        return None
    for denominator in _DENOMINATORS:
        if all(abs(each * denominator - round(each * denominator)) < _SLACK for each in distinct):
            common: int = math.gcd(*(round(each * denominator) for each in distinct))
            return common / denominator if common else None
    return None
