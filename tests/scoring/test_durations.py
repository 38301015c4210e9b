"""Percentiles of durations: those of the standard library, in four bytes a duration."""

import random
import statistics
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.durations import Durations, percentile_us

microseconds = st.integers(0, 10**13)


def durations_of(values_us: Iterable[int]) -> Durations:
    made = Durations()
    for value in values_us:
        made.add(value / 1_000_000)
    return made


@given(st.lists(microseconds, min_size=2, max_size=50))
def test_percentiles_are_the_standard_librarys(values: list[int]) -> None:
    durations = durations_of(values)
    expected = statistics.quantiles(values, n=20, method="inclusive")
    assert percentile_us([durations], 0.5) == pytest.approx(statistics.median(values))
    assert percentile_us([durations], 0.95) == pytest.approx(expected[18])
    assert len(durations) == len(values)


@given(st.lists(microseconds, max_size=20), st.lists(microseconds, min_size=1, max_size=20), st.floats(0, 1))
def test_several_groups_count_as_one(some: list[int], others: list[int], share: float) -> None:
    apart = percentile_us([durations_of(some), durations_of(others)], share)
    assert apart == percentile_us([durations_of([*some, *others])], share)


@pytest.mark.parametrize("largest", [10, 5_000_000, 2**33])
def test_many_durations_are_ranked_as_a_sorted_list_is(largest: int) -> None:
    rng = random.Random(7)
    values = [rng.randint(0, largest) for _ in range(20_001)]
    durations, ordered = durations_of(values), sorted(values)
    assert [percentile_us([durations], rank / 20_000) for rank in range(0, 20_001, 500)] == ordered[::500]


def test_a_whole_number_of_microseconds_comes_back_as_it_was() -> None:
    assert percentile_us([durations_of([200_300])], 0.5) == 200_300


def test_nothing_has_no_percentile() -> None:
    assert percentile_us([], 0.5) is None
    assert percentile_us([Durations()], 0.5) is None


@pytest.mark.parametrize(("seconds", "counted"), [(-1.0, 0), (1e300, 10**18)])
def test_durations_that_no_clock_can_show_do_not_break_a_run(seconds: float, counted: int) -> None:
    durations = Durations()
    durations.add(seconds)
    assert percentile_us([durations], 0.5) == counted


def test_a_duration_costs_five_bytes_at_most_also_while_percentiles_are_asked() -> None:
    durations = Durations()
    tracemalloc.start()
    try:
        for number in range(100_000):
            durations.add(number / 1000)
        percentile_us([durations], 0.95)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / 100_000 < 8
