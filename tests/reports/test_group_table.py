"""Groups of rows as people see them."""

import pytest

from agentv.reports.run.groups import group_tables
from agentv.reports.text.printable import printable
from agentv.reports.text.signs import ASCII
from agentv.reports.text.width import display_width
from agentv.types.summaries import GroupSummary, Interval

GROUPS = (
    GroupSummary(
        "tag", "refund", {"pass": 1200, "fail": 34, "error": 6}, 0.9712, 1200 / 1234,
        Interval(0.9601, 0.9794, "scaled-wilson"), Interval(0.9617, 0.9803, "wilson"),
    ),
    GroupSummary("tag", "rückgabe\x1b[2J", {"pass": 1}, 1.0, 1.0),
    GroupSummary("metadata.team", "core", {"error": 2}, None, None),
)  # fmt: skip
SHOWN = """\
tag                    pass rate       95 % CI  mean       95 % CI  errors
refund           97.2 % of 1,234  96.2 to 98 %  0.97  0.96 to 0.98       6
rückgabe\\x1b[2J       100 % of 1             -  1.00             -       0

metadata.team    pass rate  95 % CI  mean  95 % CI  errors
core           none judged        -     -        -       2
"""


def test_each_kind_is_a_table_with_numbers_and_how_sure_they_are() -> None:
    assert group_tables(GROUPS) == SHOWN


@pytest.mark.parametrize("width", [40, 80])
def test_it_fits_the_terminal_and_writes_nothing_that_moves_it(width: int) -> None:
    shown = group_tables(GROUPS, width=width)
    assert max(map(display_width, shown.splitlines())) <= width
    assert printable(shown) == shown


def test_without_unicode_names_are_written_out() -> None:
    assert "r\\xfcckgabe" in group_tables(GROUPS, signs=ASCII)
