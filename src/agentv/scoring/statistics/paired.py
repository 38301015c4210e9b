"""The procedure for the difference of two runs over the same cases: a test, and the interval that inverts it."""

import random
from collections.abc import Sequence
from typing import TypeAlias

from agentv.scoring.statistics.mcnemar import PassChanges
from agentv.scoring.statistics.sign_flips import SignFlips

PairedProcedure: TypeAlias = PassChanges | SignFlips
"""A test and its inversion: `p`, `test`, `interval(level)`, `detectable()`, `needed()`."""


def paired_procedure(clusters: Sequence[Sequence[float]], rng: random.Random) -> PairedProcedure:
    """Return the procedure for the differences of cases, in clusters that are independent of each other.

    Each difference is that of the case's means over its trials. If all of them are -1, 0 or 1, as for cases that pass
    or fail once, it is the score test of McNemar with Tango's interval; for other differences, and if a cluster has
    several cases, sign flips.
    """
    values = [each[0] for each in clusters if len(each) == 1]
    if len(values) == len(clusters) and all(each in (-1, 0, 1) for each in values):
        return PassChanges(len(values), values.count(1), values.count(-1))
    return SignFlips.of(clusters, rng)
