"""McNemar's test, exactly."""

from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.statistics.differences import mcnemar_test


@given(st.integers(0, 300), st.integers(0, 300))
def test_it_is_twice_the_tail_of_a_fair_coin(gained: int, lost: int) -> None:
    changed = gained + lost
    tail = sum(comb(changed, each) for each in range(min(gained, lost) + 1))
    assert mcnemar_test(gained, lost) == pytest.approx(min(1.0, 2 * tail / 2**changed), abs=1e-12)


def test_a_hundred_thousand_changed_cases_take_no_time() -> None:
    assert mcnemar_test(50_500, 49_500) == pytest.approx(0.0015824, rel=1e-4)


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_it_stays_a_chance(gained: int, lost: int) -> None:
    assert 0 <= mcnemar_test(gained, lost) <= 1
