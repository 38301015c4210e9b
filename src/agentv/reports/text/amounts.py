"""Format numbers: shares, scores, money, durations, tokens."""

import math
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from agentv.types.summaries import Interval

_MINUTE_S = 60
_HOUR_S = 3600
_THOUSAND = 1000
_WHOLE_SECONDS_FROM_S = 10
_LEAST_SHOWN_USD = 0.0001
_CENTS_FROM_USD = 0.1
_MIN_SHOWN_P = 0.0001


def count_text(number: int, noun: str) -> str:
    """Return a count with its noun: `1 case`, `1,234 cases`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def percent_text(share: float | None) -> str:
    """Return 0.725 as `72.5 %`; `-` for None. A share between 0 and 1 is never rounded to 0 % or 100 %."""
    if share is None:
        return "-"
    shown = min(max(round(share * 100, 1), 0.1), 99.9) if 0 < share < 1 else share * 100
    return f"{shown:.4g} %"


def score_text(score: float | None) -> str:
    """Return a score of 0..1 with two decimals; `-` for None. A score below 1 is never rounded to 1.00."""
    if score is None:
        return "-"
    return f"{min(score, 0.99) if score < 1 - 1e-9 else score:.2f}"


def difference_text(difference: float, *, decimals: int = 2) -> str:
    """Return `+0.12`, `-0.03`; `0.00` only for no difference, never for a small one."""
    if abs(difference) < 10**-9:
        return f"{0:.{decimals}f}"
    return f"{difference:+.{decimals}f}" if abs(difference) >= 10**-decimals / 2 else f"{difference:+.1g}"


def p_value_text(p: float | None) -> str:
    """Return a p value: `0.023`, `<0.0001`; `-` for None."""
    if p is None:
        return "-"
    return f"<{_MIN_SHOWN_P}" if p < _MIN_SHOWN_P else f"{p:.2g}"


def percent_interval_text(interval: Interval | None) -> str:
    """Return an interval of a share as `68.3 to 75.8 %`; `-` for None."""
    return "-" if interval is None else bounds_text(interval.low, interval.high, "share")


def score_interval_text(interval: Interval | None) -> str:
    """Return an interval of a score as `0.78 to 0.84`; `-` for None."""
    return "-" if interval is None else bounds_text(interval.low, interval.high, "score")


def money_text(dollars: float | None) -> str:
    """Return dollars with two decimals, or four below $0.10; `-` for None. A cost above 0 is never shown as 0."""
    if dollars is None:
        return "-"
    if 0 < dollars < _LEAST_SHOWN_USD:
        return f"<${_LEAST_SHOWN_USD:.4f}"
    return f"${dollars:.4f}" if 0 < dollars < _CENTS_FROM_USD else f"${dollars:,.2f}"


def unit_cost_text(dollars: float | None) -> str:
    """Return the cost of one answer, with two significant digits below $0.10, as `$0.000021`; `-` for None."""
    if dollars is None or dollars >= _CENTS_FROM_USD or dollars <= 0:
        return money_text(dollars)
    return f"${dollars:.{1 - math.floor(math.log10(dollars))}f}"


def seconds_text(seconds: float | None) -> str:
    """Return a latency: `820 ms`, `1.2 s`, `12.4 s`, `03:05`; `-` for None."""
    if seconds is None:
        return "-"
    if round(seconds * 1000) < _THOUSAND:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if round(seconds, 1) < _MINUTE_S else clock_text(round(seconds))


def clock_text(seconds: float) -> str:
    """Return a duration as `02:41`, or `1:02:41` from one hour on."""
    whole = int(seconds)
    hours, rest = divmod(whole, _HOUR_S)
    minutes, left = divmod(rest, _MINUTE_S)
    return f"{hours}:{minutes:02}:{left:02}" if hours else f"{minutes:02}:{left:02}"


def about_text(seconds: float) -> str:
    """Return a duration as one would say it: `15 s` (from 20 s on a multiple of 5), `2 min`, `1 h 20 min`."""
    if round(seconds) < 90:  # noqa: PLR2004 - 1.5 minutes
        return f"{max(1, round(seconds)) if seconds < 20 else 5 * round(seconds / 5)} s"  # noqa: PLR2004
    hours, minutes = divmod(round(seconds / _MINUTE_S), _MINUTE_S)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def took_text(seconds: float) -> str:
    """Return the duration of a run: `0.3 s`, `41 s`, and from one minute on `02:41`, as `clock_text` writes it."""
    if seconds >= _MINUTE_S:
        return clock_text(seconds)
    return f"{int(seconds)} s" if round(seconds, 1) >= _WHOLE_SECONDS_FROM_S else f"{seconds:.1f} s"


def tokens_text(tokens: int) -> str:
    """Return a token count: `950`, `12.3 k`, `1.2 M`."""
    if tokens < _THOUSAND:
        return str(tokens)
    if tokens < _THOUSAND**2 * 0.99995:
        return f"{tokens / _THOUSAND:.1f} k"
    return f"{tokens / _THOUSAND**2:.1f} M"


def level_text(level: float) -> str:
    """Return the level of an interval, such as `95 %`."""
    return f"{100 * level:.3g} %"


Unit: TypeAlias = Literal["share", "score", "usd", "s"]
"""The unit of a number that is drawn: a rate or a score of 0..1, dollars, seconds."""

_UNIT_TEXTS: Mapping[Unit, Callable[[float | None], str]] = {
    "share": percent_text,
    "score": score_text,
    "usd": unit_cost_text,
    "s": seconds_text,
}


def amount_text(value: float | None, unit: Unit) -> str:
    """Return a number in its unit; `-` for None."""
    return _UNIT_TEXTS[unit](value)


def bounds_text(low: float, high: float, unit: Unit) -> str:
    """Return two numbers in their unit: `68.3 to 75.8 %`, `0.78 to 0.84`."""
    first, last = amount_text(low, unit), amount_text(high, unit)
    return f"{first.removesuffix(' %')} to {last}"
