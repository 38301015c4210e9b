"""Times in logs: ISO 8601, seconds, milliseconds, microseconds or nanoseconds since 1970, by their size."""

import re
from datetime import UTC, datetime, timedelta

from agentv.types.criteria.evaluation_input import moment_of
from agentv.types.json_value import JsonValue

_NUMBER = re.compile(r"\d+(\.\d+)?")
_EARLIEST_S = 10**8  # 1973: an earlier number is more likely a duration or a counter
_UNITS = ((10**11, 1), (10**14, 10**3), (10**17, 10**6), (10**20, 10**9))
"""Each unit's exclusive upper bound, and how many of it make a second: the same moment in another unit is larger."""


def logged_moment(value: JsonValue) -> datetime:
    """Return a logged time, in UTC if it names no zone. Raises ValueError."""
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        try:
            return moment_of(value)
        except ValueError:
            raise ValueError(_EXPECTED) from None
    if not _EARLIEST_S <= value < _UNITS[-1][0]:
        raise ValueError(f"{value} is too {'small' if value < _EARLIEST_S else 'large'} for a time; {_EXPECTED}")
    per_second = next(per for bound, per in _UNITS if value < bound)
    return datetime.fromtimestamp(0, UTC) + timedelta(seconds=value / per_second)


_EXPECTED = "must be a time such as 2026-01-31T12:00:00Z, or seconds or milliseconds since 1970"


def milliseconds_between(start: JsonValue, end: JsonValue) -> float | None:
    """Return the milliseconds from one logged time to another; None if one of them is not a time."""
    try:
        return round((logged_moment(end) - logged_moment(start)).total_seconds() * 1000, 3)
    except ValueError:
        return None
