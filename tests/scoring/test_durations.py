"""Percentiles of durations: equal to the standard library's, in four bytes a duration, eight with its case."""

import random
import statistics
import tracemalloc
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.tallies import Durations, percentile_interval_us, percentile_us

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


def repeated(values_us: Iterable[int], *, times: int, first_case: int = 1) -> Durations:
    made = Durations()
    for case, value in enumerate(values_us, first_case):
        for _ in range(times):
            made.add(value / 1_000_000, case)
    return made


def test_asking_again_what_takes_the_same_time_makes_no_percentile_surer() -> None:
    values = random.Random(1).sample(range(10**6), 300)
    low, high = percentile_interval_us([durations_of(values)], 0.5) or (0, 0)
    found = percentile_interval_us([repeated(values, times=5)], 0.5)
    assert found == pytest.approx((low, high), rel=0.02)


def test_asking_again_what_takes_any_time_makes_a_percentile_surer() -> None:
    rng = random.Random(1)
    durations = Durations()
    for case in range(1, 5001):
        for _ in range(4):
            durations.add(rng.random(), case)
    low, high = percentile_interval_us([durations], 0.5) or (0, 0)
    # 1.96 · √(0.5 · 0.5 / 20,000) on either side; if repeats added no information, it would be twice as wide.
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / 20_000**0.5 * 1_000_000, rel=0.1)


def test_cases_in_several_groups_are_the_same_cases() -> None:
    values = random.Random(1).sample(range(10**6), 300)
    apart = percentile_interval_us([repeated(values, times=1), repeated(values, times=1)], 0.5)
    assert apart == percentile_interval_us([repeated(values, times=2)], 0.5)


@given(st.lists(microseconds, min_size=6, max_size=40), st.integers(0, 40))
def test_durations_of_single_cases_need_no_case_numbers(values: list[int], known: int) -> None:
    made = Durations()
    for case, value in enumerate(values, 1):
        made.add(value / 1_000_000, case if case <= known else None)
    assert percentile_interval_us([made], 0.5) == percentile_interval_us([durations_of(values)], 0.5)


def test_many_cases_are_counted_in_parts_as_they_would_be_at_once() -> None:
    rng = random.Random(1)
    values = [rng.randint(1, 10**6) for _ in range(140_000)]
    many = percentile_interval_us([repeated(values, times=1)], 0.5)
    assert many == percentile_interval_us([durations_of(values)], 0.5)


@pytest.mark.parametrize("durations", [[], [Durations()], [repeated([1, 2, 3, 4, 5], times=9)]])
def test_too_few_cases_have_no_interval(durations: list[Durations]) -> None:
    assert percentile_interval_us(durations, 0.5) is None


@pytest.mark.parametrize(("has_case", "most"), [(False, 8), (True, 12)])
def test_durations_take_at_most_five_bytes_and_nine_with_a_case(has_case: bool, most: int) -> None:
    durations = Durations()
    tracemalloc.start()
    try:
        for number in range(100_000):
            durations.add(number / 1000, number + 1 if has_case else None)
        percentile_us([durations], 0.95)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak / 100_000 < most
