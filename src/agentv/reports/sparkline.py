"""A series of numbers as one line of bars."""

from collections.abc import Sequence

from agentv.reports.signs import Signs

GAP = "·"
_ASCII_GAP = "_"


def sparkline(values: Sequence[float | None], signs: Signs) -> str:
    """Return a bar for each value, from the lowest to the highest of them; None is a gap, which is no bar at all."""
    known = [value for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    gap = _ASCII_GAP if signs.is_ascii else GAP
    return "".join(gap if value is None else _bar(value, low, high, signs.bars) for value in values)


def _bar(value: float, low: float, high: float, bars: str) -> str:
    if high - low <= abs(high) * 1e-9:
        return bars[len(bars) // 2]
    return bars[round((value - low) / (high - low) * (len(bars) - 1))]
