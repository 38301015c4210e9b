"""Percentiles of durations: exact to the microsecond, in four bytes each, or eight with their cases."""

import math
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentv.scoring.statistics.distributions import beta_share, normal_quantile
from agentv.scoring.statistics.intervals import effective_n
from agentv.scoring.statistics.moments import ClusterMoments
from agentv.types.summaries import LEVEL

_PRECISION = 1e-9
_ROUNDING = 1e-6


@lru_cache(maxsize=1024)
def percentile_shares(share: float, count: int, level: float = LEVEL) -> tuple[float, float] | None:
    """Return the shares of the sorted values between which a percentile lies: its interval, as ranks / (count + 1).

    The value at rank k of `count` is below the percentile with probability I_share(k, count + 1 - k) for any
    distribution; ranks are interpolated to the probabilities (1 ± level) / 2. This is the exact limit of a bootstrap of
    the percentile. None when the values are too few for two bounds: below 6 for a median, 72 for a 95th percentile.
    Hettmansperger & Sheather 1986, Statistics & Probability Letters 4(2).
    """
    beyond = (1 - level) / 2
    if share**count > beyond or (1 - share) ** count > beyond:
        return None
    return _rank(share, count, 1 - beyond) / (count + 1), _rank(share, count, beyond) / (count + 1)


def repeated_percentile_shares(share: float, below: ClusterMoments, level: float = LEVEL) -> tuple[float, float] | None:
    """Return percentile_shares for repeats of cases; `below` counts by case the values up to the percentile found.

    The interval of that rate gives their effective sample size, and is turned into one of the value: Woodruff 1952,
    JASA 47(260). None when as many single cases would be too few.
    """
    if percentile_shares(share, below.clusters, level) is None:
        return None
    return percentile_shares(share, int(effective_n(below) + _ROUNDING), level)


def _rank(share: float, count: int, chance: float) -> float:
    """Return the interpolated rank whose value is below the percentile with that probability.

    By secants on the scale of normal deviates: the probability is nearly linear there, and five steps suffice.
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
    """Sorted durations in microseconds. `cases` numbers the case of each, 0 for a case of its own; None: all are 0."""

    durations_us: "array[int]"
    cases: "array[int] | None"


class Durations:
    """Durations in microseconds, in sorted runs, so that a percentile never needs to sort all of them.

    Durations up to 71 minutes take four bytes each, plus four if the case is recorded; in a run of 4,096 with a
    longer one each takes four more.
    """

    def __init__(self) -> None:
        self._runs: list[SortedRun] = []
        self._begin()

    def _begin(self) -> None:
        self._latest = array("Q")
        self._cases = array("I")

    def add(self, seconds: float, case: int | None = None) -> None:
        """Count one duration; a negative one (the clock was set back) as 0, an absurdly long one as 1e12 s.

        `case` (case_sums.case_of) says that its case may have others. The numbers of 100,000 cases may collide once.
        """
        if not 0 <= seconds <= _LONGEST_S:
            seconds = min(max(seconds, 0.0), _LONGEST_S)
        self._latest.append(round(seconds * 1_000_000))
        self._cases.append(case & _LARGEST_OF_FOUR_BYTES if case else _NO_CASE)
        if len(self._latest) == _RUN:
            self._runs.append(_sorted(self._latest, self._cases))
            self._begin()

    def __len__(self) -> int:
        """Return the number of durations."""
        return _RUN * len(self._runs) + len(self._latest)

    def runs(self) -> Iterator[SortedRun]:
        """Yield all durations in non-empty sorted runs."""
        yield from self._runs
        if self._latest:
            yield _sorted(self._latest, self._cases)


def percentile_us(durations: Sequence[Durations], share: float) -> float | None:
    """Return the percentile at `share` (0..1) in microseconds, linearly interpolated; None without durations.

    As NumPy's default, type 7 of Hyndman and Fan 1996.
    """
    runs = [run.durations_us for each in durations for run in each.runs()]
    return _percentile_us(runs, share) if runs else None


def _percentile_us(runs: "Sequence[array[int]]", share: float) -> float:
    position = share * (sum(map(len, runs)) - 1)
    low = _ranked(runs, math.floor(position))
    high = _ranked(runs, math.ceil(position))
    return low + (high - low) * (position - math.floor(position))


def percentile_interval_us(durations: Sequence[Durations], share: float) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile, in microseconds, from ranks alone; None with too few durations.

    The effective sample size of repeats depends on how many of each case's durations lie below the percentile.
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
    """Return the moments, by case, of the indicator that a duration is at most `limit_us`."""
    places = [(run, bisect_right(run.durations_us, limit_us)) for run in runs]
    alone = [(len(run.durations_us), place) for run, place in places if run.cases is None]
    rows, below = (sum(column) for column in zip((0, 0), *alone, strict=True))
    found = ClusterMoments.of_passes(rows, below)
    named = [(run.cases, place) for run, place in places if run.cases is not None]
    parts = 1 + sum(len(cases) for cases, _ in named) // _CASES_AT_ONCE
    for part in range(parts):  # a part of the cases at a time limits the memory for counting
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
    """Return as a share of `count` values the position of rank share * (count + 1) in percentile_us."""
    return min(max((share * (count + 1) - 1) / (count - 1), 0.0), 1.0)


def _ranked(runs: "Sequence[array[int]]", rank: int) -> int:
    """Return the value at `rank` (from 0) of all runs merged, found by bisecting the range of values."""
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
