"""One measure in two runs: its means, their difference, and a test of significance."""

import math
import random
from collections.abc import Iterable, Sequence

from msgspec import Struct

from agentv.scoring.comparison.alignment import Pair
from agentv.scoring.comparison.rows import PASSED, SPENDING
from agentv.scoring.comparison.sides import Side
from agentv.scoring.statistics.differences import PairedDifferences, PairedTest, mcnemar_test, permutation_test
from agentv.scoring.statistics.grid import ROUNDING
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import Interval


class MeasureDifference(Struct, frozen=True):
    """The difference in one measure, over the cases for which both runs have it.

    A case counts once, however many trials and targets it was run with. `higher` and `lower` are the numbers of cases
    with a higher or lower value after. `later` are the sums over the later run's cases, for an interval of `after`.
    `test` is None if no test was requested; `p` is its result, corrected when several measures were tested.
    """

    measure: str
    before: float
    after: float
    differences: PairedDifferences
    higher: int
    lower: int
    interval: Interval | None
    later: ClusterMoments
    test: PairedTest | None = None
    p: float | None = None

    @property
    def cases(self) -> int:
        """The number of cases for which both runs have the measure."""
        return self.differences.cases

    @property
    def difference(self) -> float:
        """The mean difference over the cases, after minus before."""
        return self.differences.mean


def measure_difference(
    measure: str, before: Side, after: Side, pairs: Iterable[Pair], *, rng: random.Random | None = None
) -> MeasureDifference | None:
    """Return the difference in a measure, None if no case has it on both sides. With `rng` it is tested."""
    clusters: dict[tuple[str, str], list[tuple[float, float]]] = {}
    rows = 0
    for pair in pairs:
        was, is_now = before.mean(measure, pair.before), after.mean(measure, pair.after)
        if was is not None and is_now is not None:
            clusters.setdefault(pair.before[:2], []).append((was, is_now))
            rows += after.count(measure, pair.after)
    if not clusters:
        return None
    means = [(_mean(was for was, _ in each), _mean(is_now for _, is_now in each)) for each in clusters.values()]
    differences = [is_now - was for was, is_now in means]
    summed = PairedDifferences.of(differences)
    test = None if rng is None else _tested(measure, differences, rng)
    return MeasureDifference(
        measure,
        before=_mean(was for was, _ in means),
        after=_mean(is_now for _, is_now in means),
        differences=summed,
        higher=sum(each > ROUNDING for each in differences),
        lower=sum(each < -ROUNDING for each in differences),
        interval=summed.interval() if measure in SPENDING else summed.interval_of_shares(),
        later=_moments([is_now for _, is_now in means], rows),
        test=test,
        p=None if test is None else test.p,
    )


def _tested(measure: str, differences: list[float], rng: random.Random) -> PairedTest:
    """Use McNemar's test if each case either passes or fails, otherwise a permutation test."""
    if measure == PASSED and all(each in (-1, 0, 1) for each in differences):
        p = mcnemar_test(differences.count(1), differences.count(-1))
        return PairedTest("mcnemar", p, is_exact=True)
    return permutation_test(differences, rng)


def _moments(means: Sequence[float], rows: int) -> ClusterMoments:
    """Return the sums over cases of equal weight, regardless of their numbers of rows."""
    size = round(rows / len(means))
    return ClusterMoments.of_clusters((size, size * mean) for mean in means)


def _mean(values: Iterable[float]) -> float:
    known = tuple(values)
    return math.fsum(known) / len(known)
