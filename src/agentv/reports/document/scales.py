"""Scales of charts: the range of an axis with ticks at round numbers, linear or logarithmic."""

import math
from collections.abc import Iterator, Sequence

from msgspec import Struct

from agentv.reports.text.amounts import Unit, seconds_text

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_WANTED_TICKS = 4
_LOG_FROM_RATIO = 10.0
"""Amounts are drawn on a logarithmic scale if the largest is more than this many times the smallest."""
_ROUNDING = 1e-9
_MIN_SPAN = 0.1
"""The smallest range of rates and scores, so that noise does not look like a change."""
_WHOLE = 1.0


class Scale(Struct, frozen=True):
    """The range of an axis, with its ticks in ascending order."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value, from 0 (low) to 1 (high)."""
        low, high, at = (
            (map(math.log, (self.low, self.high, max(value, self.low))))
            if self.is_log
            else (
                self.low,
                self.high,
                value,
            )
        )
        return min(max((at - low) / (high - low), 0.0), 1.0)


def share_scale(values: Sequence[float]) -> Scale:
    """Return a scale of rates or scores, 0..1, that contains all values."""
    low, high = min(values), max(values)
    if high - low < _MIN_SPAN:
        middle = min(max((low + high) / 2, _MIN_SPAN / 2), _WHOLE - _MIN_SPAN / 2)
        low, high = middle - _MIN_SPAN / 2, middle + _MIN_SPAN / 2
    return _linear(low, high)


def amount_scale(values: Sequence[float]) -> Scale:
    """Return a scale of amounts such as costs and durations: from 0, or logarithmic if they differ by orders."""
    low, high = min(values), max(values)
    if low > 0 and high > _LOG_FROM_RATIO * low:
        return _logarithmic(low, high)
    return _linear(0.0, high or _WHOLE)


def scale_of(values: Sequence[float], unit: Unit) -> Scale:
    """Return the scale for numbers of a unit; `values` has at least one."""
    return share_scale(values) if unit in ("share", "score") else amount_scale(values)


def tick_text(value: float, unit: Unit) -> str:
    """Return the label of a tick, which is a round number."""
    if unit == "usd":
        return f"${f'{value:,.10f}'.rstrip('0').rstrip('.')}"
    if unit == "s":
        return seconds_text(value) if value >= 1 else f"{value * 1000:g} ms"
    return f"{100 * value:g} %" if unit == "share" else f"{value:g}"


def _linear(low: float, high: float) -> Scale:
    step = _step((high - low) / _WANTED_TICKS)
    first, last = math.floor(low / step + _ROUNDING), math.ceil(high / step - _ROUNDING)
    ticks = tuple(round(number * step, 12) for number in range(first, last + 1))
    return Scale(ticks[0], ticks[-1], ticks)


def _step(least: float) -> float:
    """Return the smallest round number that is at least `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(each * power for each in _STEPS if each * power >= least * (1 - _ROUNDING))


def _logarithmic(low: float, high: float) -> Scale:
    first, last = math.floor(math.log10(low) + _ROUNDING), math.ceil(math.log10(high) - _ROUNDING)
    return Scale(10.0**first, 10.0**last, tuple(_decades(first, last)), is_log=True)


def _decades(first: int, last: int) -> Iterator[float]:
    every = max(1, math.ceil((last - first) / _WANTED_TICKS))
    for power in range(first, last + 1):
        if (power - first) % every == 0:
            yield float(f"1e{power}")
