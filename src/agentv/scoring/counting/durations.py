"""Percentiles of durations: exact to the microsecond that records keep, in four bytes each, eight with their cases."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentv.scoring.statistics.distributions import beta_share, normal_quantile
from agentv.scoring.statistics.intervals import rate_worth
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import LEVEL

_PRECISION = 1e-9
_ROUNDING = 1e-6


@lru_cache(maxsize=1024)
def percentile_shares(share: float, count: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Return between which shares of the sorted values a percentile lies: its interval, as ranks / (count + 1).

    The value at rank k of `count` is below the percentile with the chance I_share(k, count + 1 - k), whatever the
    values' distribution; ranks are interpolated to the chances (1 ± level) / 2. What a bootstrap of the percentile
    comes to with infinitely many draws, but exact. None where the values are too few to bound it on both sides: below
    6 for a median, 72 for a 95th percentile. Hettmansperger & Sheather 1986, Statistics & Probability Letters 4(2).
    """
    beyond = (1 - level) / 2
    if share**count > beyond or (1 - share) ** count > beyond:
        return None
    return _rank(share, count, 1 - beyond) / (count + 1), _rank(share, count, beyond) / (count + 1)


def repeated_percentile_shares(share: float, below: ClusterMoments, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the same where values are repeats of cases; `below` counts those at most at the percentile found, by case.

    They are as many independent values as that rate is worth: the interval of a share turned into one of the value,
    Woodruff 1952, JASA 47(260). None where cases that are asked once would be too few.
    """
    if percentile_shares(share, below.clusters, level) is None:
        return None
    return percentile_shares(share, int(rate_worth(below) + _ROUNDING), level)


def _rank(share: float, count: int, chance: float) -> float:
    """Return the interpolated rank whose value is below the percentile with that chance.

    By secants on the scale of normal deviates: there the chance is nearly a straight line, and five looks find it.
    """
    wanted, spread = normal_quantile(chance), math.sqrt(count * share * (1 - share))
    older, beyond = share * (count + 1), -wanted
    rank = min(max(older - wanted * spread, 1.0), float(count))
    while abs(rank - older) > _PRECISION * rank:
        now = normal_quantile(beta_share(share, rank, count + 1 - rank)) - wanted
        newer = rank - now * (rank - older) / (now - beyond)
        older, beyond, rank = rank, now, min(max(newer, 1.0), float(count))
    return rank


_RUN = 4096
_LARGEST_OF_FOUR_BYTES = 2**32 - 1
_LONGEST_S = 1e12
_NO_CASE = 0
_CASES_AT_ONCE = 2**17


class SortedRun(NamedTuple):
    """Some durations in microseconds, sorted. `cases` numbers the case of each, 0 one of its own; None: all are so."""

    durations_us: "array[int]"
    cases: "array[int] | None"


class Durations:
    """Durations in microseconds, in sorted runs, so that no percentile has to sort them all.

    Those up to 71 minutes take four bytes each, and four more where it is known of which case they are; a run of 4,096
    with a longer one takes four more each.
    """

    def __init__(self) -> None:
        self._runs: list[SortedRun] = []
        self._begin()

    def _begin(self) -> None:
        self._latest = array("Q")
        self._cases = array("I")

    def add(self, seconds: float, case: int | None = None) -> None:
        """Count one duration; one of a clock that was set back as 0, one beyond all sense as 1e12 s.

        `case` (case_sums.case_of) says that there may be others of its case. Of 100,000 cases two may count as one.
        """
        if not 0 <= seconds <= _LONGEST_S:
            seconds = min(max(seconds, 0.0), _LONGEST_S)
        self._latest.append(round(seconds * 1_000_000))
        self._cases.append(case & _LARGEST_OF_FOUR_BYTES if case else _NO_CASE)
        if len(self._latest) == _RUN:
            self._runs.append(_sorted(self._latest, self._cases))
            self._begin()

    def __len__(self) -> int:
        """How many were counted."""
        return _RUN * len(self._runs) + len(self._latest)

    def runs(self) -> Iterator[SortedRun]:
        """Yield all durations in runs that are not empty."""
        yield from self._runs
        if self._latest:
            yield _sorted(self._latest, self._cases)


def percentile_us(durations: Sequence[Durations], share: float) -> float | None:
    """Return below which duration, in microseconds, `share` (0..1) of all lie, linearly interpolated; None without any.

    The default of NumPy, type 7 of Hyndman and Fan 1996.
    """
    runs = [run.durations_us for each in durations for run in each.runs()]
    return _percentile_us(runs, share) if runs else None


def _percentile_us(runs: "Sequence[array[int]]", share: float) -> float:
    position = share * (sum(map(len, runs)) - 1)
    low = _ranked(runs, math.floor(position))
    high = _ranked(runs, math.ceil(position))
    return low + (high - low) * (position - math.floor(position))


def percentile_interval_us(durations: Sequence[Durations], share: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile, in microseconds, from the ranks alone; None with too few durations.

    Repeats of a case are worth as much as they are unlike: how many of each case's lie below the percentile tells.
    """
    runs = [run for each in durations for run in each.runs()]
    if not runs:
        return None
    sorted_us = [run.durations_us for run in runs]
    shares = repeated_percentile_shares(share, _below(runs, _percentile_us(sorted_us, share)))
    if shares is None:
        return None
    count = sum(map(len, sorted_us))
    low, high = (_percentile_us(sorted_us, _type_7(each, count)) for each in shares)
    return low, high


def _below(runs: Sequence[SortedRun], limit_us: float) -> ClusterMoments:
    """Return the moments of being at most `limit_us` long, by case."""
    places = [(run, bisect_right(run.durations_us, limit_us)) for run in runs]
    alone = [(len(run.durations_us), place) for run, place in places if run.cases is None]
    rows, below = (sum(column) for column in zip((0, 0), *alone, strict=True))
    found = ClusterMoments.of_passes(rows, below)
    named = [(run.cases, place) for run, place in places if run.cases is not None]
    parts = 1 + sum(len(cases) for cases, _ in named) // _CASES_AT_ONCE
    for part in range(parts):  # a part of the cases at a time, so that counting them takes little memory
        found += _below_by_case(named, part, parts)
    return found


def _below_by_case(named: "Sequence[tuple[array[int], int]]", part: int, parts: int) -> ClusterMoments:
    rows, below = Counter[int](), Counter[int]()
    for cases, place in named:
        rows.update(case for case in cases if case % parts == part)
        below.update(case for case in cases[:place] if case % parts == part)
    unnamed, low = rows.pop(_NO_CASE, 0), below.pop(_NO_CASE, 0)
    of_cases = ClusterMoments.of_clusters((count, below[case]) for case, count in rows.items())
    return ClusterMoments.of_passes(unnamed, low) + of_cases


def _type_7(share: float, count: int) -> float:
    """Return as what share of `count` values percentile_us finds the value of rank share * (count + 1)."""
    return min(max((share * (count + 1) - 1) / (count - 1), 0.0), 1.0)


def _ranked(runs: "Sequence[array[int]]", rank: int) -> int:
    """Return the value that stands at `rank` (from 0) when all runs are sorted as one, by halving the range."""
    least, most = min(run[0] for run in runs), max(run[-1] for run in runs)
    while least < most:
        middle = (least + most) // 2
        if sum(bisect_right(run, middle) for run in runs) > rank:
            most = middle
        else:
            least = middle + 1
    return least


def _sorted(latest: "array[int]", cases: "array[int]") -> SortedRun:
    if not any(cases):
        return SortedRun(_small(sorted(latest)), None)
    order = sorted(range(len(latest)), key=latest.__getitem__)
    return SortedRun(_small([latest[place] for place in order]), array("I", [cases[place] for place in order]))


def _small(ordered: list[int]) -> "array[int]":
    return array("I" if ordered[-1] <= _LARGEST_OF_FOUR_BYTES else "Q", ordered)
