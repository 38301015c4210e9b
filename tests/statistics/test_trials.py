"""pass@k and pass^k against all choices of k trials."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.counting.case_sums import pass_at, pass_hat


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_both_are_the_shares_of_all_choices_of_k_trials(trials: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(trials)))
    choices = list(combinations(trials, k))
    assert pass_at(k, sum(trials), len(trials)) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat(k, sum(trials), len(trials)) == pytest.approx(sum(map(all, choices)) / len(choices))


def test_one_try_is_the_pass_rate() -> None:
    assert (pass_at(1, 3, 4), pass_hat(1, 3, 4)) == (0.75, 0.75)


@pytest.mark.parametrize("k", [0, 4, -1])
def test_more_attempts_than_trials_have_no_estimate(k: int) -> None:
    assert (pass_at(k, 2, 3), pass_hat(k, 2, 3)) == (None, None)
