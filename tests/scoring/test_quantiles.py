"""Percentiles in constant memory, exact to one percent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.tallies import Quantiles


@given(st.lists(st.floats(min_value=1e-6, max_value=1e5), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 1.0]))
def test_a_percentile_is_within_one_percent_of_a_value_that_holds_it(values: list[float], share: float) -> None:
    quantiles = Quantiles()
    for value in values:
        quantiles.add(value)
    ordered = sorted(values)
    true = next(value for rank, value in enumerate(ordered, 1) if rank >= share * len(ordered))
    assert quantiles.at(share) == pytest.approx(true, rel=0.0101)


def test_nothing_has_no_percentile_and_zero_is_counted() -> None:
    quantiles = Quantiles()
    assert quantiles.at(0.5) is None
    quantiles.add(0.0)
    assert quantiles.at(0.5) == pytest.approx(1e-9, rel=0.0101)
