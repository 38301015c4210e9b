"""One measure in two runs: its means, their difference, and a test of significance."""

import math
import random
from array import array
from collections.abc import Iterable, Iterator, Sequence
from operator import sub
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from agentv.scoring.comparison.pairs import Pairs
from agentv.scoring.comparison.sides import SPENDING, Side
from agentv.scoring.statistics.differences import (
    ROUNDING,
    IndependentSides,
    PairedDifferences,
    PairedTest,
)
from agentv.scoring.statistics.mcnemar import MIN_CHANGES, PassChanges
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.scoring.statistics.paired import PairedProcedure, paired_procedure
from agentv.scoring.statistics.power import MIN_CASES
from agentv.types.summaries import Interval


class MeasureDifference(Struct, frozen=True):
    """The difference of two runs in one measure, between paired cases or between independent samples.

    A paired case has the measure in both runs; it counts once, however many trials and targets it was run with. In an
    independent sample each result counts. All cases of a session form one cluster. Either `differences` or
    `independent` is set.
    """

    measure: str
    before: float
    after: float
    difference: float
    """The mean after minus the mean before."""
    sizes: tuple[int, int]
    """The numbers of cases before and after; they are equal if the cases are paired."""
    interval: Interval | None
    """The confidence interval of `difference`.

    If several measures were tested, it has the level of their correction, so that it excludes 0 exactly if `p` is at
    most 5 %.
    """
    moments_after: ClusterMoments
    """The moments of the later run's clusters, for an interval of `after` if that is a score or a rate."""
    differences: PairedDifferences | None = None
    independent: IndependentSides | None = None
    higher: int = 0
    """The number of paired cases with a higher value after, 0 for independent samples."""
    lower: int = 0
    """The number of paired cases with a lower value after, 0 for independent samples."""
    procedure: PairedProcedure | None = None
    """The test with its inversion, None for independent samples and without a test."""
    test: PairedTest | None = None
    p: float | None = None
    """The p of the test, corrected if several measures were tested."""

    @property
    def cases(self) -> int:
        """The number of paired cases, or of the cases of both independent samples together."""
        return self.sizes[0] if self.independent is None else sum(self.sizes)

    @property
    def detectable(self) -> float | None:
        """The minimum detectable difference with these cases at 80 % power; None if unknown.

        For a measure of SPENDING in independent samples, it is relative to the largest mean of a case in either run.
        """
        if self.independent is not None:
            return self.independent.detectable()
        return None if self.procedure is None else self.procedure.detectable()

    @property
    def min_cases(self) -> int:
        """The number of cases (of sessions, if cases belong to some) below which no difference can be significant."""
        return MIN_CHANGES if isinstance(self.procedure, PassChanges) else MIN_CASES

    def corrected(self, p: float, level: float) -> "MeasureDifference":
        """Return the difference with a corrected p, and an interval of the same level."""
        return replace(self, p=p, interval=self.interval_at(level))

    def interval_at(self, level: float) -> Interval | None:
        """Return the interval of a tested difference at another level."""
        if self.procedure is not None:
            return self.procedure.interval(level)
        return None if self.independent is None else self.independent.interval_of_shares(level)

    @property
    def needed(self) -> int | None:
        """The number of cases needed to detect the difference at 80 % power; None if unknown, or for no difference."""
        if self.independent is not None:
            return self.independent.needed(self.cases)
        needed = None if self.procedure is None else self.procedure.needed()
        if needed is None or self.differences is None or self.differences.cases == self.cases:
            return needed
        # `needed` counts sessions here: it is multiplied by the mean number of cases in a session.
        return math.ceil(needed * self.cases / self.differences.cases)


def measure_difference(measure: str, pairs: Pairs, *, rng: random.Random | None = None) -> MeasureDifference | None:
    """Return the difference in a measure over the pairs with a value on both sides; None without such a pair.

    With `rng` the difference of scores or rates is also tested for significance.
    """
    values = _Pairs()
    before, after = pairs.before.column(measure), pairs.after.column(measure)
    for case, first, second in zip(pairs.case_numbers(), pairs.first, pairs.second, strict=True):
        old, new = before.mean(first), after.mean(second)
        if old is not None and new is not None:
            session = pairs.before.session_at(first) or pairs.after.session_at(second)
            values.add(case, (old, new), session, rows=after.count(second))
    if not values.first[0]:
        return None
    means_before, means_after = values.means(0), values.means(1)
    differences = array("d", map(sub, means_after, means_before))
    clusters = values.clusters()
    by_cluster = _values_of(clusters, differences)
    paired = (
        PairedDifferences.of(differences)
        if isinstance(by_cluster, _Singles)
        else PairedDifferences.of_clusters(by_cluster)
    )
    procedure = None if rng is None else paired_procedure(by_cluster, rng)
    return MeasureDifference(
        measure,
        before=_mean(means_before),
        after=_mean(means_after),
        difference=paired.mean,
        sizes=(len(differences), len(differences)),
        differences=paired,
        higher=sum(each > ROUNDING for each in differences),
        lower=sum(each < -ROUNDING for each in differences),
        interval=paired.interval() if procedure is None else procedure.interval(),
        moments_after=_moments(means_after, clusters, values.rows),
        procedure=procedure,
        test=None if procedure is None else procedure.test,
        p=None if procedure is None else procedure.p,
    )


class _Singles(Sequence[Sequence[float]]):
    """Clusters of one value each, made when they are read."""

    def __init__(self, values: Sequence[float]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return _Singles(self._values[index])
        return (self._values[index],)

    def __iter__(self) -> Iterator[Sequence[float]]:
        return zip(self._values, strict=True)


def _values_of(clusters: Sequence[Sequence[int]] | None, values: Sequence[float]) -> Sequence[Sequence[float]]:
    """Return the values of the cases of each cluster; None has a cluster for each case."""
    return _Singles(values) if clusters is None else [[values[index] for index in each] for each in clusters]


class _Pairs(Struct):
    """The values of one measure in both runs, in columns, so that a million cases fit into memory."""

    indexes: "array[int]" = field(default_factory=lambda: array("I"))
    """The index of each case in the columns, plus one, by its number; 0 for a case without values."""
    first: tuple["array[float]", "array[float]"] = field(default_factory=lambda: (array("d"), array("d")))
    """The values of the first pair of each case, in both runs."""
    later_pairs: dict[int, list[tuple[float, float]]] = field(default_factory=dict)
    """The values of a case's other targets and prompts, by its index."""
    sessions: dict[int, str] = field(default_factory=dict)
    """The sessions of the cases that have one."""
    rows: int = 0
    """The number of rows of the later run that have the measure."""

    def add(self, case: int, values: tuple[float, float], session: str | None, *, rows: int) -> None:
        """Add the values of a pair, before and after; `rows` rows of the later run have the measure."""
        missing = case + 1 - len(self.indexes)
        if missing > 0:
            self.indexes.frombytes(bytes(self.indexes.itemsize * missing))
        index = self.indexes[case] - 1
        if index < 0:
            index = len(self.first[0])
            self.indexes[case] = index + 1
            for column, value in zip(self.first, values, strict=True):
                column.append(value)
        else:
            self.later_pairs.setdefault(index, []).append(values)
        if session is not None:
            self.sessions[index] = session
        self.rows += rows

    def means(self, side: int) -> "array[float]":
        """Return the mean of each case in the earlier run (0) or the later one (1)."""
        means = array("d", self.first[side])
        for index, more in self.later_pairs.items():
            means[index] = _mean([means[index], *(each[side] for each in more)])
        return means

    def clusters(self) -> list[Sequence[int]] | None:
        """Return the indexes of the cases of each session, of a case without a session alone; None without sessions."""
        if not self.sessions:
            return None
        clusters: dict[object, list[int]] = {}
        for index in range(len(self.first[0])):
            clusters.setdefault(self.sessions.get(index, index), []).append(index)
        return list(clusters.values())


def unpaired_difference(measure: str, before: Side, after: Side, *, is_tested: bool = True) -> MeasureDifference | None:
    """Return the difference in a measure of two independent samples; None if either lacks the measure."""
    is_share = measure not in SPENDING
    # Scatter below a fixed tolerance counts as rounding, but costs may be fractions of a cent: so they are scaled.
    unit = 1.0 if is_share else max(_largest_mean(measure, before), _largest_mean(measure, after)) or 1.0
    old, new = _sample(measure, before, unit), _sample(measure, after, unit)
    if old is None or new is None:
        return None
    sides = IndependentSides(old.moments, new.moments)
    interval = sides.interval_of_shares() if is_share else sides.interval()
    if interval is not None and not is_share:
        interval = replace(interval, low=interval.low * unit, high=interval.high * unit)
    test = PairedTest("cluster-t", sides.p(), is_exact=False) if is_tested else None
    return MeasureDifference(
        measure,
        before=old.moments.mean * unit,
        after=new.moments.mean * unit,
        difference=sides.difference * unit,
        sizes=(old.cases, new.cases),
        interval=interval,
        moments_after=new.moments,
        independent=sides,
        test=test,
        p=None if test is None else test.p,
    )


class _Sample(NamedTuple):
    """The number of cases of a side that have a measure, and the moments of the clusters that they form."""

    cases: int
    moments: ClusterMoments


def _sample(measure: str, side: Side, unit: float) -> _Sample | None:
    """Return the sample of a side, with values divided by `unit`; None if no case has the measure.

    Each session is a cluster, and so is each case without a session, with all its targets and prompts.
    """
    clusters: dict[object, tuple[int, float]] = {}
    cases = set()
    for name in side.names():
        rows, mean = side.measured_count(measure, name), side.mean(measure, name)
        if mean is not None:
            cases.add(name[:2])
            cluster = side.session(name) or name[:2]
            size, total = clusters.get(cluster, (0, 0.0))
            clusters[cluster] = size + rows, total + rows * mean / unit
    return _Sample(len(cases), ClusterMoments.of_clusters(clusters.values())) if clusters else None


def _largest_mean(measure: str, side: Side) -> float:
    return max((abs(side.mean(measure, name) or 0.0) for name in side.names()), default=0.0)


def _moments(means: Sequence[float], clusters: Sequence[Sequence[int]] | None, all_rows: int) -> ClusterMoments:
    """Return the moments of clusters of cases.

    Every case counts as the same number of rows: the mean number of rows per case, rounded.
    """
    size = round(all_rows / len(means))
    return ClusterMoments.of_clusters(
        (size * len(each), size * math.fsum(each)) for each in _values_of(clusters, means)
    )


def _mean(values: Iterable[float]) -> float:
    known = tuple(values)
    return math.fsum(known) / len(known)
