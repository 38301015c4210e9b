"""Percentiles of a stream without an end, in constant memory."""

import math
from collections import Counter

_WIDTH = math.log(1.02)
_LEAST = 1e-9


class Quantiles:
    """Counts positive values in buckets 2 % wide, so that each percentile is exact to 1 %."""

    def __init__(self) -> None:
        self._buckets: Counter[int] = Counter()

    def add(self, value: float) -> None:
        """Count one value; what is below 1e-9 counts as that."""
        self._buckets[math.floor(math.log(max(value, _LEAST)) / _WIDTH)] += 1

    def at(self, share: float) -> float | None:
        """Return the value below which `share` (0..1) of the values lie; None without values."""
        wanted = share * self._buckets.total()
        below = 0
        for bucket, count in sorted(self._buckets.items()):
            below += count
            if below >= wanted:
                return math.exp((bucket + 0.5) * _WIDTH)
        return None
