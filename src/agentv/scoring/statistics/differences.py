"""The mean of paired differences, and how far it can be trusted."""

import math
from collections.abc import Sequence

from msgspec import Struct

from agentv.scoring.statistics.distributions import normal_quantile, t_quantile
from agentv.scoring.statistics.grid import common_step
from agentv.types.intervals import LEVEL, Interval

_FEWEST = 2
_ALIKE = 1e-9


class PairedDifferences(Struct, frozen=True):
    """Differences of cases summed up: their number, mean, and standard deviation with n - 1 (0.0 below two cases).

    `step` is what all of them are multiples of, 0.0 where they are of no common step.
    """

    cases: int
    mean: float
    deviation: float
    step: float = 0.0

    @classmethod
    def of(cls, differences: Sequence[float]) -> "PairedDifferences":
        """Sum up one difference a case; there is at least one."""
        cases = len(differences)
        mean = math.fsum(differences) / cases
        if cases < _FEWEST:
            return cls(cases, mean, 0.0)
        scatter = math.fsum((each - mean) ** 2 for each in differences)
        return cls(cases, mean, math.sqrt(scatter / (cases - 1)), common_step(differences) or 0.0)

    def interval(self, level: float = LEVEL) -> Interval | None:
        """Return Student's interval of the mean. None below two cases, and where all of them differ by the same."""
        if self.cases < _FEWEST or self.deviation <= _ALIKE:
            return None
        half = t_quantile((1 + level) / 2, self.cases - 1) * self.deviation / math.sqrt(self.cases)
        return Interval(self.mean - half, self.mean + half, "student-t", level)

    def interval_of_shares(self, level: float = LEVEL) -> Interval | None:
        """Return the interval where a case has values of 0..1, so that no mean differs by more than 1.

        When all cases differ by the same, others may not: Wilson's bound says how many at most, and they may lie
        anywhere between -1 and 1.
        """
        if self.cases < _FEWEST:
            return None
        found = self.interval(level)
        if found is not None:
            return Interval(max(found.low, -1.0), min(found.high, 1.0), found.method, level)
        deviate = normal_quantile((1 + level) / 2) ** 2
        others = deviate / (self.cases + deviate)
        return Interval(self.mean - others * (1 + self.mean), self.mean + others * (1 - self.mean), "wilson", level)
