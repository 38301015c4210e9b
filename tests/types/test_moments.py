from datetime import UTC, datetime

import pytest

from agentv.types.moments import read_moment, to_utc

OUTSIDE = ["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"]


def test_a_time_without_an_offset_is_utc() -> None:
    assert read_moment("2026-01-31T12:00:00") == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert read_moment("2026-01-31T12:00:00+01:00") == datetime(2026, 1, 31, 11, tzinfo=UTC)


@pytest.mark.parametrize("text", OUTSIDE)
def test_a_time_beyond_the_years_of_utc_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not in the years 1 to 9999 in UTC"):
        read_moment(text)


def test_a_moment_beyond_the_years_of_utc_is_the_nearest_one() -> None:
    last, first = (to_utc(datetime.fromisoformat(text)) for text in OUTSIDE)
    assert (last.isoformat(), first.isoformat()) == ("9999-12-31T23:59:59.999999+00:00", "0001-01-01T00:00:00+00:00")
