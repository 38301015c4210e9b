"""Times with an offset from UTC, whose moment in UTC may lie outside the years that Python knows."""

from datetime import UTC, datetime


def read_moment(text: str) -> datetime:
    """Read a time in ISO 8601, in UTC if it has no offset.

    Raises ValueError for another text, and for a time that is not in the years 1 to 9999 in UTC.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        return moment.replace(tzinfo=UTC)
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text} is not in the years 1 to 9999 in UTC") from None
    return moment


def to_utc(moment: datetime) -> datetime:
    """Return a moment in UTC; the first or the last that there is for one beyond the years 1 to 9999."""
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return _FIRST if moment.year == 1 else _LAST


_FIRST = datetime.min.replace(tzinfo=UTC)
_LAST = datetime.max.replace(tzinfo=UTC)
