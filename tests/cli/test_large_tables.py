"""`agentv check` of long and of wide tables: every row is read, in little CPU time."""

import re
from pathlib import Path

import pytest
from tests.support.peak import measured

SUITE = "execution: {evaluators: [{name: short, type: length, max: 9}]}\nevalcases: {file: rows.csv}\n"
ROWS = 200_000
START_UP_S = 2.5


@pytest.fixture(autouse=True)
def _suite(tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text(SUITE)


@pytest.mark.parametrize("header", ["id,input,expected,metadata.level", "note,input,expected,metadata.level"])
def test_a_long_table_is_checked_in_little_time(header: str, tmp_path: Path) -> None:
    lines = (f"c{number},What is {number} plus 1?,{number + 1},easy\n" for number in range(ROWS))
    (tmp_path / "rows.csv").write_text(f"{header}\n{''.join(lines)}")
    found = measured("check", "suite.yaml", cwd=tmp_path)
    assert (found.code, found.output) == (0, "1 file checked: no problems found\n")
    assert found.cpu_seconds < START_UP_S + ROWS * 16e-6  # 6 us a row on a quiet machine; a general reader takes 36
    assert found.megabytes < 150


def test_the_last_row_of_a_long_table_is_checked(tmp_path: Path) -> None:
    lines = (f"c{number},What is {number} plus 1?,{number + 1}\n" for number in range(50_000))
    (tmp_path / "rows.csv").write_text(f"id,input,expected\n{''.join(lines)}c50000,,4\nc7,What?,5\n")
    found = measured("check", "suite.yaml", cwd=tmp_path)
    assert found.code == 4
    assert "rows.csv:50002:1  $.input  the column 'input', the question, is empty" in found.output
    assert "rows.csv:50003:1  $.id  the id 'c7' is used twice, first in line 9" in found.output


@pytest.mark.parametrize(
    ("first", "cell", "code", "message"),
    [
        ("input", "c{}", 0, "no problems found"),
        (
            "answer",
            "c{}",
            4,
            "the row has no question: .*; columns: answer, c0, c1, .*, c48 and 199,951 more; name one",
        ),
        ("input", "c", 4, "two columns are named 'c'"),
        ("input", "", 4, "199,990 more columns have no name of their own"),
        ("input", "metadata.c{}", 0, "no problems found"),
    ],
)
def test_a_table_of_200_000_columns_takes_a_few_seconds(
    first: str, cell: str, code: int, message: str, tmp_path: Path
) -> None:
    names = ",".join([first, *(cell.format(number) for number in range(200_000))])
    (tmp_path / "rows.csv").write_text(f"{names}\n{'x,' * 200_000}x\n")
    found = measured("check", "suite.yaml", cwd=tmp_path)
    assert found.code == code, found.output[:1000]
    assert re.search(message, found.output), found.output[:1000]
    assert found.cpu_seconds < 5
    assert found.megabytes < 300
