"""One measure in two runs: its means, their difference, and a test of significance."""

import math
import random
from array import array
from collections.abc import Iterable, Sequence
from operator import sub
from typing import NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.comparison.sides import PASSED, SPENDING, Pair, Side
from agentv.scoring.statistics.differences import (
    ROUNDING,
    IndependentSides,
    PairedDifferences,
    PairedTest,
    mcnemar_test,
    permutation_test,
)
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.power import cases_needed, detectable_difference
from agentv.types.summaries import Interval


class MeasureDifference(Struct, frozen=True):
    """The difference in one measure, over the cases for which both runs have it, or of independent samples.

    A case counts once, however many trials and targets it was run with; in an independent sample each result counts.
    Cases, or results, of a session are a cluster. `difference` is the mean after minus the mean before. `sizes` are the
    numbers of cases before and after, equal ones if they are paired. `higher` and `lower` are the numbers of pairs
    with a higher or lower value after. `later` are the sums over the later run's clusters, for an interval of `after`.
    `test` is None if no test was requested; `p` is its result, corrected when several measures were tested.
    Either `differences` or `independent` is set.
    """

    measure: str
    before: float
    after: float
    difference: float
    sizes: tuple[int, int]
    interval: Interval | None
    later: ClusterMoments
    differences: PairedDifferences | None = None
    independent: IndependentSides | None = None
    higher: int = 0
    lower: int = 0
    test: PairedTest | None = None
    p: float | None = None

    @property
    def cases(self) -> int:
        """The number of cases: those of both runs, or those of both samples together."""
        return self.sizes[0] if self.independent is None else sum(self.sizes)

    @property
    def detectable(self) -> float | None:
        """The minimum detectable difference with these cases at 80 % power; None if it is not known."""
        if self.independent is not None:
            return self.independent.detectable()
        return None if self.differences is None else detectable_difference(self.differences)

    @property
    def needed(self) -> int | None:
        """The number of cases that detect the difference at 80 % power; None if no number does."""
        if self.independent is not None:
            return self.independent.needed(self.cases)
        needed = None if self.differences is None else cases_needed(self.differences)
        if needed is None or self.differences is None or self.differences.cases == self.cases:
            return needed
        # `needed` counts sessions; it is converted by the mean number of cases in a session.
        return math.ceil(needed * self.cases / self.differences.cases)


def measure_difference(
    measure: str, before: Side, after: Side, pairs: Iterable[Pair], *, rng: random.Random | None = None
) -> MeasureDifference | None:
    """Return the difference in a measure, None if no case has it on both sides. With `rng` it is tested."""
    found = _Pairs()
    for pair in pairs:
        was, is_now = before.mean(measure, pair.before), after.mean(measure, pair.after)
        if was is not None and is_now is not None:
            session = before.session(pair.before) or after.session(pair.after)
            found.add(pair.before[:2], (was, is_now), session, rows=after.count(measure, pair.after))
    if not found.places:
        return None
    means_before, means_after = found.means(0), found.means(1)
    differences = array("d", map(sub, means_after, means_before))
    clusters = found.clusters()
    summed = (
        PairedDifferences.of(differences)
        if len(clusters) == len(differences)
        else PairedDifferences.of_clusters([[differences[place] for place in each] for each in clusters])
    )
    test = None if rng is None else _tested(measure, differences, clusters, rng)
    return MeasureDifference(
        measure,
        before=_mean(means_before),
        after=_mean(means_after),
        difference=summed.mean,
        sizes=(len(differences), len(differences)),
        differences=summed,
        higher=sum(each > ROUNDING for each in differences),
        lower=sum(each < -ROUNDING for each in differences),
        interval=summed.interval() if measure in SPENDING else summed.interval_of_shares(),
        later=_moments(means_after, clusters, found.rows),
        test=test,
        p=None if test is None else test.p,
    )


class _Pairs(Struct):
    """The values of one measure in both runs, in columns, so that a million cases fit into memory.

    `places` numbers the cases. `first` holds the values of the first pair of each case in both runs, `further` those of
    more targets and prompts. `sessions` holds those of the cases that have one.
    """

    places: dict[tuple[str, ...], int] = field(default_factory=dict)
    first: tuple["array[float]", "array[float]"] = field(default_factory=lambda: (array("d"), array("d")))
    further: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    rows: int = 0

    def add(self, case: tuple[str, ...], values: tuple[float, float], session: str | None, *, rows: int) -> None:
        """Add a pair of a case, with the number of its rows in the later run."""
        new = len(self.places)
        place = self.places.setdefault(case, new)
        if place == new:
            for column, value in zip(self.first, values, strict=True):
                column.append(value)
        else:
            self.further.setdefault(place, []).append(values)
        if session is not None:
            self.sessions[place] = session
        self.rows += rows

    def means(self, side: int) -> "array[float]":
        """Return the mean of each case in the earlier run (0) or the later one (1)."""
        means = array("d", self.first[side])
        for place, more in self.further.items():
            means[place] = _mean([means[place], *(each[side] for each in more)])
        return means

    def clusters(self) -> list[Sequence[int]]:
        """Return the places of the cases of each session; a case without one is a cluster of its own."""
        if not self.sessions:
            return [(place,) for place in self.places.values()]
        clusters: dict[object, list[int]] = {}
        for case, place in self.places.items():
            clusters.setdefault(self.sessions.get(place, case), []).append(place)
        return list(clusters.values())


def unpaired_difference(measure: str, before: Side, after: Side, *, is_tested: bool = True) -> MeasureDifference | None:
    """Return the difference in a measure of two independent samples, None if one of them does not have it."""
    # The sums of amounts are taken in units of a mean: they may be as small as fractions of a cent.
    unit = max(_largest_mean(measure, before), _largest_mean(measure, after)) if measure in SPENDING else 1.0
    was, is_now = _sample(measure, before, unit or 1.0), _sample(measure, after, unit or 1.0)
    if was is None or is_now is None:
        return None
    sides = IndependentSides(was.moments, is_now.moments)
    is_share = measure not in SPENDING
    found = sides.interval_of_shares() if is_share else sides.interval()
    if found is not None and not is_share:
        found = replace(found, low=found.low * unit, high=found.high * unit)
    test = PairedTest("cluster-t", sides.p(), is_exact=False) if is_tested else None
    return MeasureDifference(
        measure,
        before=was.moments.mean * unit,
        after=is_now.moments.mean * unit,
        difference=sides.difference * unit,
        sizes=(was.cases, is_now.cases),
        interval=found,
        later=is_now.moments,
        independent=sides,
        test=test,
        p=None if test is None else test.p,
    )


class _Sample(NamedTuple):
    """The number of cases of a side that have a measure, and their moments by session."""

    cases: int
    moments: ClusterMoments


def _sample(measure: str, side: Side, unit: float) -> _Sample | None:
    """Return a sample. A session is a cluster; a case without a session is one, with all its targets and prompts."""
    clusters: dict[object, tuple[int, float]] = {}
    cases = set()
    for name in side.cases:
        rows, mean = side.count(measure, name), side.mean(measure, name)
        if mean is not None:
            cases.add(name[:2])
            cluster = side.session(name) or name[:2]
            size, total = clusters.get(cluster, (0, 0.0))
            clusters[cluster] = size + rows, total + rows * mean / unit
    return _Sample(len(cases), ClusterMoments.of_clusters(clusters.values())) if clusters else None


def _largest_mean(measure: str, side: Side) -> float:
    return max((abs(side.mean(measure, name) or 0.0) for name in side.cases), default=0.0)


def _tested(
    measure: str, differences: Sequence[float], clusters: Sequence[Sequence[int]], rng: random.Random
) -> PairedTest:
    """Use McNemar's test if each case either passes or fails, otherwise a permutation test.

    The cases of a session change their sign together: only their sum is tested.
    """
    if len(clusters) < len(differences):
        return permutation_test([math.fsum(differences[place] for place in each) for each in clusters], rng)
    if measure == PASSED and all(each in (-1, 0, 1) for each in differences):
        p = mcnemar_test(differences.count(1), differences.count(-1))
        return PairedTest("mcnemar", p, is_exact=True)
    return permutation_test(differences, rng)


def _moments(means: Sequence[float], clusters: Iterable[Sequence[int]], rows: int) -> ClusterMoments:
    """Return the sums over clusters of cases of equal weight, regardless of their numbers of rows."""
    size = round(rows / len(means))
    return ClusterMoments.of_clusters(
        (size * len(each), size * math.fsum(means[place] for place in each)) for each in clusters
    )


def _mean(values: Iterable[float]) -> float:
    known = tuple(values)
    return math.fsum(known) / len(known)
