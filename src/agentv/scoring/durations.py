"""Percentiles of durations: exact to the microsecond that records keep, in four bytes each."""

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from agentv.scoring.statistics.percentiles import percentile_shares

_RUN = 4096
_LARGEST_OF_FOUR_BYTES = 2**32 - 1
_LONGEST_S = 1e12


class Durations:
    """Durations in microseconds, in sorted runs, so that no percentile has to sort them all.

    Those up to 71 minutes take four bytes each; a run of 4,096 with a longer one takes eight each.
    """

    def __init__(self) -> None:
        self._runs: list[array[int]] = []
        self._latest = array("Q")

    def add(self, seconds: float) -> None:
        """Count one duration; one of a clock that was set back as 0, one beyond all sense as 1e12 s."""
        self._latest.append(round(min(max(seconds, 0.0), _LONGEST_S) * 1_000_000))
        if len(self._latest) == _RUN:
            self._runs.append(_sorted(self._latest))
            self._latest = array("Q")

    def __len__(self) -> int:
        """How many were counted."""
        return _RUN * len(self._runs) + len(self._latest)

    def runs(self) -> "Iterator[array[int]]":
        """Yield all durations, in microseconds, in runs that are sorted and not empty."""
        yield from self._runs
        if self._latest:
            yield _sorted(self._latest)


def percentile_us(durations: Sequence[Durations], share: float) -> float | None:
    """Return below which duration, in microseconds, `share` (0..1) of all lie, linearly interpolated; None without any.

    The default of NumPy, type 7 of Hyndman and Fan 1996.
    """
    runs = [run for each in durations for run in each.runs()]
    if not runs:
        return None
    position = share * (sum(map(len, runs)) - 1)
    low = _ranked(runs, math.floor(position))
    high = _ranked(runs, math.ceil(position))
    return low + (high - low) * (position - math.floor(position))


def percentile_interval_us(durations: Sequence[Durations], share: float, cases: int) -> tuple[float, float] | None:
    """Return the 95 % interval of a percentile, in microseconds, from the ranks alone; None with too few durations.

    They are of so many `cases`. Repeats of a case count as one: nobody knows how alike their durations are.
    """
    count = sum(map(len, durations))
    shares = percentile_shares(share, min(cases, count))
    if shares is None:
        return None
    low, high = (percentile_us(durations, _type_7(each, count)) for each in shares)
    return None if low is None or high is None else (low, high)


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


def _sorted(values: "array[int]") -> "array[int]":
    ordered = sorted(values)
    return array("I" if ordered[-1] <= _LARGEST_OF_FOUR_BYTES else "Q", ordered)
