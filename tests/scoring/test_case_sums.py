from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.case_sums import MAX_HELD, CaseSums, case_of
from agentv.types.records.answer import ResultKey

rows = st.lists(st.tuples(st.integers(1, 60), st.booleans(), st.sampled_from([0.0, 0.25, 0.5, 1.0])), max_size=300)


@given(rows)
def test_each_case_has_the_sums_of_its_rows_in_whatever_order_they_come(rows: list[tuple[int, bool, float]]) -> None:
    sums = CaseSums()
    expected: dict[int, list[float]] = defaultdict(lambda: [0, 0, 0.0])
    for number, passed, score in rows:
        case = number * (1 << 40)  # digests that all start at the same slot of the table
        sums.add(case, passed=passed, score=score)
        for at, value in enumerate((1, passed, score)):
            expected[case][at] += value
    assert {found.case: [*found[1:]] for found in sums} == expected
    assert len(sums) == len(expected)


def test_all_repeats_of_a_case_are_one_case_for_every_target() -> None:
    first = case_of(ResultKey("a.yaml", "x", "one"))
    assert case_of(ResultKey("a.yaml", "x", "two", trial=4)) == first
    assert case_of(ResultKey("b.yaml", "x", "one")) != first
    assert case_of(ResultKey("a.yaml", "y", "one")) != first


def test_a_hundred_thousand_cases_take_less_than_seven_megabytes() -> None:
    sums = CaseSums()
    for number in range(100_000):
        sums.add(case_of(ResultKey("s", str(number), "t")), passed=True, score=1.0)
    columns = (sums._cases, sums._rows, sums._passed, sums._score_sums)
    assert sum(len(column) * column.itemsize for column in columns) < 7_000_000


class Notebook:
    """A Spill in memory; a full one takes nothing more."""

    def __init__(self, *, most: int) -> None:
        self.most = most
        self.data = b""

    def write(self, data: bytes) -> int | None:
        if len(self.data) + len(data) > self.most:
            return None
        self.data += data
        return len(self.data) - len(data)

    def read(self, offset: int, size: int) -> bytes:
        return self.data[offset : offset + size]


@pytest.mark.parametrize("most", [0, 120_000, 2**40])
def test_sums_outside_of_memory_are_the_same(most: int) -> None:
    notebook = Notebook(most=most)
    held, spilled = CaseSums(), CaseSums(notebook)
    cases = [case_of(ResultKey("s", str(number), "t")) for number in range(3 * MAX_HELD)]
    for number, case in enumerate([*cases, *cases[::2], *cases[::3]]):
        for sums in (held, spilled):
            sums.add(case, passed=number % 2 == 0, score=number % 4 / 4)
    copy = spilled.copy()
    copy.add(cases[0], passed=True, score=1.0)
    assert bool(notebook.data) == bool(most)
    assert sorted(spilled) == sorted(held)
    assert (len(spilled), bool(spilled)) == (len(held), True)
    assert [spilled.get(case) for case in (cases[1], 5)] == [held.get(case) for case in (cases[1], 5)]
    assert sum(each.rows for each in copy) == 1 + sum(each.rows for each in held)
    if most == 2**40:
        assert len(spilled._cases) <= 4 * MAX_HELD
