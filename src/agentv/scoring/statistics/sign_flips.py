"""Sign flips of paired differences: the permutation test of their mean, and the interval that inverts it."""

import math
import random
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from operator import getitem
from typing import Self

from msgspec import Struct

from agentv.scoring.statistics.differences import ROUNDING, PairedDifferences, PairedTest, common_step
from agentv.scoring.statistics.distributions import normal_quantile
from agentv.scoring.statistics.power import MIN_CASES, cases_needed, detectable_difference
from agentv.types.summaries import LEVEL, Interval

DRAWS = 9_999
"""The number of random sign patterns if there are too many to count them all."""

# Without a common step, differences are rounded to a grid on which the largest one is this many steps: 10,000, 1,000 or
# 100, the largest number with which exact counting is cheap enough; otherwise 250, for random draws.
_FINEST_GRID = 10_000
_COARSEST_GRID = 100
_SAMPLED_GRID = 250
_MAX_BITS_MOVED = 2**28
"""The limit on the cost of exact counting: the bits of its long integer, summed over all additions (bench/)."""


def permutation_test(differences: Iterable[float], rng: random.Random) -> PairedTest:
    """Return the paired permutation test of a mean of 0: each difference has a random sign.

    There is one difference per case, the mean over its repeats. The test is exact if counting is cheap (some hundred
    cases), otherwise it uses random draws with `rng`: p = (1 + draws at least as far from 0) / (1 + draws). Both are
    valid tests (Ernst 2004, "Permutation methods"; Phipson & Smyth 2010). Differences are first rounded to a grid
    symmetric around 0, which keeps ties and the validity.
    """
    changed = [each for each in differences if abs(each) > ROUNDING]
    steps = _on_grid(changed)
    observed = abs(sum(steps))
    if not observed:
        return PairedTest("sign-flips", 1.0, is_exact=True)
    if _bits_moved(steps) <= _MAX_BITS_MOVED:
        return PairedTest("sign-flips", _counted_share(steps, observed), is_exact=True)
    return PairedTest("sign-flips", _drawn_share(Counter(map(abs, steps)), observed, rng), is_exact=False)


def _on_grid(differences: Sequence[float]) -> list[int]:
    """Return the differences in whole steps: their common step, else the finest grid that can be counted exactly."""
    if not differences:
        return []
    step = common_step(differences)
    if step is not None:
        return _in_steps(differences, step)
    largest = max(map(abs, differences))
    size = _FINEST_GRID
    while size >= _COARSEST_GRID:
        steps = _in_steps(differences, largest / size)
        if _bits_moved(steps) <= _MAX_BITS_MOVED:
            return steps
        size //= 10
    return _in_steps(differences, largest / _SAMPLED_GRID)


def _in_steps(differences: Sequence[float], step: float) -> list[int]:
    # `round` moves halves to the even neighbour, symmetrically around 0.
    return [round(each / step) for each in differences]


def _bits_moved(steps: Sequence[int]) -> int:
    """Return the cost of exact counting: one addition per difference, of an integer with a field per needed sum."""
    return len(steps) * (len(steps) + 1) * (sum(map(abs, steps)) // 2 + 1)


def _counted_share(steps: Sequence[int], observed: int) -> float:
    """Return the share of all sign patterns whose sum is at least `observed` away from 0.

    The numbers of subsets with each sum are the coefficients of the product of (1 + x**step), stored in the fields of
    one long integer. If the signs of a subset with the sum s are flipped, the sum of all is total - 2s, so that only
    the low tail is needed.
    """
    sizes = sorted(map(abs, steps))
    total = sum(sizes)
    width = len(sizes) + 1
    tail = (1 << width * ((total - observed) // 2 + 1)) - 1
    subsets = 1
    for size in sizes:
        subsets = (subsets + (subsets << width * size)) & tail
    # The fields are digits in base b = 2**width, so the remainder modulo b - 1 is their sum, which is less than b - 1.
    in_tail = subsets % ((1 << width) - 1)
    return min(1.0, 2 * in_tail / (1 << len(sizes)))


def _drawn_share(sizes: Counter[int], observed: int, rng: random.Random) -> float:
    """Return the share of random sign patterns, including the observed one, that lie at least as far from 0."""
    groups = [(size, count) for size, count in sorted(sizes.items()) if size]
    total = sum(size * count for size, count in groups)
    as_far = 1
    for _ in range(DRAWS):
        positive = sum(size * rng.getrandbits(count).bit_count() for size, count in groups)
        as_far += abs(2 * positive - total) >= observed
    return as_far / (DRAWS + 1)


_MAX_ENUMERATED = 13
"""Up to this many clusters all subsets are enumerated; of more, DRAWS random ones are used."""

_MAX_DRAWN = 1_000
"""With more clusters than this, the means of random subsets are normal."""

_BLOCK = 8
"""The number of clusters whose sums of subsets are tabulated together: a byte selects one of 256."""


class SignFlips(Struct, frozen=True, dict=True):
    """The test of a mean difference by sign flips, and its inversion.

    The interval at the level 1 - a goes from the a/2 quantile of the mean differences of subsets of the clusters to the
    1 - a/2 quantile: a mean difference d is rejected by sign flips of (difference - d) exactly if it lies outside.
    Hartigan 1969, JASA 64(328). A case without a session is a cluster.
    """

    test: PairedTest
    differences: PairedDifferences
    sums: "array[float]"
    """The sum of the differences of each cluster."""
    sizes: "array[int]"
    """The number of differences of each cluster."""
    seed: int
    """Draws the subsets."""

    @classmethod
    def of(cls, clusters: Sequence[Sequence[float]], rng: random.Random) -> Self:
        """Test the differences of cases in clusters; there is at least one."""
        sums = array("d", map(math.fsum, clusters))
        test = permutation_test(sums, rng)
        differences = PairedDifferences.of_clusters(clusters)
        return cls(test, differences, sums, array("I", map(len, clusters)), rng.getrandbits(64))

    @cached_property
    def _subset_means(self) -> "tuple[array[float], int]":
        """The sorted mean differences of subsets, all or a random sample, and the number of empty subsets."""
        rng = random.Random(self.seed)  # noqa: S311 - draws subsets, keeps no secret
        means = sorted(_subset_means(self.sums, self.sizes, self.differences, rng))
        known = array("d", means[: bisect_right(means, 1.0 + ROUNDING)])
        return known, len(means) - len(known)

    @property
    def changed(self) -> int:
        """The number of clusters whose sum of differences is not 0."""
        return sum(abs(each) > ROUNDING for each in self.sums)

    @property
    def p(self) -> float:
        """The two-sided p of the test."""
        return self.test.p

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return the interval of the mean difference, within -1..1: it excludes 0 exactly if p is at most 1 - `level`.

        None below two clusters.
        Few changes tell little about the cases outside the sample, and equal ones nothing: the interval then also
        allows for a share of other cases, Wilson's bound for a share of which none was seen. Their differences may be
        anything between -1 and 1; where p rejects 0, anything on the side of the mean, and 0.
        """
        if self.differences.cases < 2:  # noqa: PLR2004 - as for the interval of a mean
            return None
        tail, mean = (1 - level) / 2, self.differences.mean
        low, high = self._bound(tail, 1), -self._bound(tail, -1)
        if self.changed < MIN_CASES or not self.differences.deviation:
            deviate = normal_quantile(1 - tail)
            share = deviate**2 / (self.differences.cases + deviate**2)
            is_rejected = tail >= self.p / 2 - ROUNDING
            least, most = (0.0 if is_rejected and mean > 0 else -1.0), (0.0 if is_rejected and mean < 0 else 1.0)
            low, high = min(low, mean + share * (least - mean)), max(high, mean + share * (most - mean))
        return Interval(max(low, -1.0), min(high, 1.0), "sign-flips", level)

    def _bound(self, tail: float, sign: int) -> float:
        """Return the low bound of the differences times `sign`: the quantile `tail` of the subset means.

        Empty subsets count as below any bound. If 0 lies on this side of the mean, p is twice the share of subsets up
        to 0. That share is known better than the random subsets show it, so they are weighted to have it: a bound is
        then on the same side of 0 as p is of its level.
        """
        means, empty = self._subset_means
        if sign < 0:
            means = array("d", [-each for each in reversed(means)])
        count = len(means) + empty
        up_to_zero = bisect_right(means, ROUNDING) + empty
        rank = tail * count
        if sign * self.differences.mean > ROUNDING and 0 < up_to_zero < count:
            share = self.p / 2
            if tail >= share - ROUNDING:
                above = max(tail - share, 0.0) / (1 - share) * (count - up_to_zero)
                return means[min(up_to_zero + int(above + ROUNDING), count - 1) - empty]
            rank = min(tail / share * up_to_zero, up_to_zero - 1)
        index = int(rank + ROUNDING) - empty
        found = -math.inf if index < 0 else means[min(index, len(means) - 1)]
        return min(found, 0.0) if sign * self.differences.mean <= 0 or rank < up_to_zero else found

    def detectable(self) -> float | None:
        """Return the minimum detectable difference at 80 % power; None if unknown."""
        return detectable_difference(self.differences)

    def needed(self) -> int | None:
        """Return the number of clusters to detect the observed difference at 80 % power; None if unknown."""
        return cases_needed(self.differences)


def _subset_means(
    sums: Sequence[float], sizes: Sequence[int], differences: PairedDifferences, rng: random.Random
) -> Iterator[float]:
    """Yield the mean difference of subsets of clusters; infinity for a subset without a cluster."""
    if len(sums) > _MAX_DRAWN:
        error = differences.deviation / math.sqrt(differences.cases)
        quantiles = ((rank + 1 / 2) / DRAWS for rank in range(DRAWS))
        yield from (differences.mean + error * normal_quantile(each) for each in quantiles)
        return
    blocks = range(0, len(sums), _BLOCK)
    sum_tables = [_table(sums[start : start + _BLOCK]) for start in blocks]
    size_tables = [_table(sizes[start : start + _BLOCK]) for start in blocks]
    for chosen in _subsets(len(sums), len(blocks), rng):
        size = sum(map(getitem, size_tables, chosen))
        yield sum(map(getitem, sum_tables, chosen)) / size if size else math.inf


def _subsets(clusters: int, blocks: int, rng: random.Random) -> Iterator[bytes]:
    """Yield subsets of clusters, a bit for each: all of them if they are few, else random ones."""
    if clusters <= _MAX_ENUMERATED:
        yield from (number.to_bytes(blocks, "little") for number in range(1 << clusters))
    else:
        yield from (rng.randbytes(blocks) for _ in range(DRAWS))


def _table(values: Sequence[float]) -> list[float]:
    """Return the sum of each subset of up to eight values, at the index whose bits select it; missing values are 0."""
    sums = [0.0]
    for value in values:
        sums += [each + value for each in sums]
    return sums * (1 << (_BLOCK - len(values)))
