"""Holm's correction."""

from hypothesis import given
from hypothesis import strategies as st

from agentv.scoring.statistics.differences import holm

chances = st.lists(st.floats(0, 1), max_size=12)


def test_the_smallest_p_counts_once_for_each_test() -> None:
    assert holm([0.02, 0.01, 0.5]) == (0.04, 0.03, 0.5)
    assert holm([0.03, 0.03]) == (0.06, 0.06)
    assert holm([]) == ()


@given(chances)
def test_no_p_gets_smaller_and_their_order_stays(given_chances: list[float]) -> None:
    adjusted = holm(given_chances)
    assert all(was <= is_now <= 1 for was, is_now in zip(given_chances, adjusted, strict=True))
    ranked = sorted(zip(given_chances, adjusted, strict=True))
    assert [is_now for _, is_now in ranked] == sorted(adjusted)
