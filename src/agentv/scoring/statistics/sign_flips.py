"""The paired permutation test: whether the differences could as well have had their other signs."""

import random
from collections import Counter
from collections.abc import Iterable, Sequence

from agentv.scoring.statistics.grid import ROUNDING, common_step
from agentv.scoring.statistics.paired_test import PairedTest

DRAWS = 9_999
"""Sign patterns that are drawn where there are too many to count them all."""

_FINEST = 10_000
_COARSEST = 100
_DRAWN_STEPS = 250
_BITS_MOVED = 2**28
"""How much an exact count may cost: bits of its running number, summed over its steps. About 0.02 s."""


def sign_flip_test(differences: Iterable[float], rng: random.Random) -> PairedTest:
    """Return how likely a sum at least as far from 0 is when each difference had its sign by a fair coin.

    One difference a case: the mean of its repeats counts once, however many there are. Exact where counting is cheap
    (some hundred cases), else drawn with `rng`, p = (1 + as far) / (1 + draws); both keep the level that they promise
    (Ernst 2004, "Permutation methods"; Phipson & Smyth 2010). Differences are placed on a grid first, symmetric around
    0, which keeps ties ties and costs no validity: the test is that of the rounded differences.
    """
    changed = [each for each in differences if abs(each) > ROUNDING]
    steps = _on_grid(changed)
    observed = abs(sum(steps))
    if not observed:
        return PairedTest("sign-flips", 1.0, is_exact=True)
    if _bits_moved(steps) <= _BITS_MOVED:
        return PairedTest("sign-flips", _counted_share(steps, observed), is_exact=True)
    return PairedTest("sign-flips", _drawn_share(Counter(map(abs, steps)), observed, rng), is_exact=False)


def _on_grid(differences: Sequence[float]) -> list[int]:
    """Return the differences in whole steps: exact where they are multiples of one, else as fine as can be counted."""
    if not differences:
        return []
    step = common_step(differences)
    if step is not None:
        return _rounded(differences, step)
    largest = max(map(abs, differences))
    size = _FINEST
    while size >= _COARSEST:
        steps = _rounded(differences, largest / size)
        if _bits_moved(steps) <= _BITS_MOVED:
            return steps
        size //= 10
    return _rounded(differences, largest / _DRAWN_STEPS)


def _rounded(differences: Sequence[float], step: float) -> list[int]:
    # `round` sends halves to the even neighbour, on either side of 0 alike.
    return [round(each / step) for each in differences]


def _bits_moved(steps: Sequence[int]) -> int:
    """Return what counting costs: as many additions as steps, of a number with a field for each possible sum."""
    return len(steps) * (len(steps) + 1) * (sum(map(abs, steps)) // 2 + 1)


def _counted_share(steps: Sequence[int], observed: int) -> float:
    """Return the share of all sign patterns whose sum is at least `observed` away from 0.

    The number of subsets with each sum are the coefficients of the product of (1 + x**step), kept in the fields of one
    long integer; a subset that sums to s leaves the whole at total - 2s, so only the low tail is needed.
    """
    sizes = sorted(map(abs, steps))
    total = sum(sizes)
    width = len(sizes) + 1
    tail = (1 << width * ((total - observed) // 2 + 1)) - 1
    subsets = 1
    for size in sizes:
        subsets = (subsets + (subsets << width * size)) & tail
    # The sum of the fields: of digits in base 2**width, which no sum overflows.
    in_tail = subsets % ((1 << width) - 1)
    return min(1.0, 2 * in_tail / (1 << len(sizes)))


def _drawn_share(sizes: Counter[int], observed: int, rng: random.Random) -> float:
    """Return the share of drawn sign patterns, the observed one among them, that lie at least as far from 0."""
    groups = [(size, count) for size, count in sorted(sizes.items()) if size]
    total = sum(size * count for size, count in groups)
    as_far = 1
    for _ in range(DRAWS):
        positive = sum(size * rng.getrandbits(count).bit_count() for size, count in groups)
        as_far += abs(2 * positive - total) >= observed
    return as_far / (DRAWS + 1)
