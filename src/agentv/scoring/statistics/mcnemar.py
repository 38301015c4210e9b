"""Paired passes and fails: the score test of McNemar, Tango's interval, and the power of both.

Test and interval are one procedure: the interval has all differences that the score test does not reject, so that it
excludes 0 exactly if p is at most 1 - its level.
"""

import math
from functools import lru_cache

from msgspec import Struct

from agentv.scoring.statistics.differences import PairedTest
from agentv.scoring.statistics.distributions import normal_quantile
from agentv.scoring.statistics.power import MAX_CASES, POWER, SIGNIFICANCE
from agentv.types.summaries import LEVEL, Interval

MIN_CHANGES = 4
"""Three changes in one direction have a p of 0.083: with fewer cases than four, p cannot reach 5 %."""

_HALVINGS = 60
_MOST_COUNTED = 1_000
"""Up to this many cases the power is counted; for more, it is that of the normal approximation."""

_NEGLIGIBLE = 1e-9


def mcnemar_test(gained: int, lost: int) -> float:
    """Return the two-sided p of `gained` cases that pass only after and `lost` cases that pass only before.

    The asymptotic score test, without continuity correction: (gained - lost)² / (gained + lost) is a chi-square with
    one degree of freedom. McNemar 1947. The exact test has less power than needed: its false alarms are far below 5 %
    (Fagerland, Lydersen & Laake 2013, BMC Medical Research Methodology 13:91).
    """
    changed = gained + lost
    return math.erfc(abs(gained - lost) / math.sqrt(2 * changed)) if changed else 1.0


class PassChanges(Struct, frozen=True):
    """The cases of two runs, each passed or failed."""

    cases: int
    gained: int
    """The number of cases that pass only after."""
    lost: int
    """The number of cases that pass only before."""

    @property
    def test(self) -> PairedTest:
        """The score test."""
        return PairedTest("mcnemar", self.p, is_exact=False)

    @property
    def p(self) -> float:
        """The two-sided p of the test."""
        return mcnemar_test(self.gained, self.lost)

    @property
    def difference(self) -> float:
        """The pass rate after minus the pass rate before."""
        return (self.gained - self.lost) / self.cases

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return Tango's score interval of the difference of the pass rates; None below two cases.

        Tango 1998, Statistics in Medicine 17.
        """
        if self.cases < 2:  # noqa: PLR2004 - as for the interval of a rate
            return None
        deviate = normal_quantile((1 + level) / 2)
        return Interval(-self._distance(-1, deviate), self._distance(1, deviate), "tango", level)

    def _distance(self, side: int, deviate: float) -> float:
        """Return the bound above (`side` 1) or below (-1) the difference, times `side`, by bisection of the score."""
        low, high = side * self.difference, 1.0
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if abs(self._score(side * middle)) < deviate else (low, middle)
        return low

    def _score(self, difference: float) -> float:
        """Return the score statistic of a difference: its distance from the observed one in standard errors.

        The variance has the maximum likelihood estimate of the share of `lost` cases, given the difference.
        """
        changed, cases = self.gained + self.lost, self.cases
        linear = (2 * cases - self.gained + self.lost) * difference - changed
        constant = -self.lost * difference * (1 - difference)
        root = math.sqrt(max(linear * linear - 8 * cases * constant, 0.0))
        lost_share = (root - linear) / (4 * cases)
        variance = cases * (2 * lost_share + difference * (1 - difference))
        excess = self.gained - self.lost - cases * difference
        return excess / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, excess) if excess else 0.0

    def detectable(self) -> float | None:
        """Return the minimum detectable difference at 80 % power, for this number of cases and of changes.

        A larger difference than the share of changed cases needs more changes, all in one direction. None if no case
        changed, or if the cases are too few to detect any difference.
        """
        share = (self.gained + self.lost) / self.cases
        if self.cases < MIN_CHANGES or not share:
            return None
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS // 2):
            middle = (low + high) / 2
            power = score_power(self.cases, middle, max(share, middle))
            low, high = (middle, high) if power < POWER else (low, middle)
        return high

    def needed(self) -> int | None:
        """Return the number of cases to detect the observed difference at 80 % power, with this share of changes.

        None for a difference of 0, and if more than MAX_CASES are needed.
        """
        if not self.difference:
            return None
        share = (self.gained + self.lost) / self.cases
        low, high = MIN_CHANGES - 1, MIN_CHANGES
        while score_power(high, self.difference, share) < POWER:
            low, high = high, 2 * high
            if low > MAX_CASES:
                return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if score_power(middle, self.difference, share) < POWER else (low, middle)
        return high


def score_power(cases: int, difference: float, changed_share: float) -> float:
    """Return the power of the score test at the 5 % level.

    `difference` is the true difference of the pass rates, `changed_share` the share of cases that change in either
    direction. Counted over all numbers of changes; with many cases by Connor's approximation (1987, Biometrics 43).
    """
    if changed_share <= 0:
        return 0.0
    if cases > _MOST_COUNTED:
        spread = math.sqrt(max(changed_share - difference**2, _NEGLIGIBLE))
        deviate = abs(difference) * math.sqrt(cases) - normal_quantile(1 - SIGNIFICANCE / 2) * math.sqrt(changed_share)
        return math.erfc(-deviate / spread / math.sqrt(2)) / 2
    one_way = min(max((changed_share + difference) / (2 * changed_share), 0.0), 1.0)
    return math.fsum(
        weight * _rejections(changed, round(one_way, 12))
        for changed in range(MIN_CHANGES, cases + 1)
        if (weight := _binomial(changed, cases, min(changed_share, 1.0))) > _NEGLIGIBLE
    )


@lru_cache(maxsize=4096)
def _rejections(changed: int, one_way: float) -> float:
    """Return how often the test rejects if `changed` cases change, each with the chance `one_way` to gain."""
    critical = normal_quantile(1 - SIGNIFICANCE / 2) * math.sqrt(changed)
    fewest = math.floor((changed + critical) / 2) + 1  # gained - lost > critical
    tails = (*range(fewest, changed + 1), *range(changed - fewest + 1))
    return math.fsum(_binomial(gained, changed, one_way) for gained in tails)


def _binomial(count: int, trials: int, chance: float) -> float:
    """Return the probability of `count` successes in `trials`."""
    if chance <= 0 or chance >= 1:
        return float(count == (0 if chance <= 0 else trials))
    log_ways = math.lgamma(trials + 1) - math.lgamma(count + 1) - math.lgamma(trials - count + 1)
    return math.exp(log_ways + count * math.log(chance) + (trials - count) * math.log1p(-chance))
