"""The rule of confirmed regressions: which cases are called again, and what their re-runs decide."""

import pytest

from agentv.scoring.gates.confirmed import is_confirmed, is_suspected


@pytest.mark.parametrize(
    ("before", "after", "suspected"),
    [
        (1.0, 0.0, True),
        (1.0, 1 / 3, True),
        (1.0, 1 / 2, False),  # half of the trials fail, not most of them
        (1.0, 2 / 3, False),
        (2 / 3, 0.0, False),  # it did not always pass before
        (0.0, 0.0, False),
        (1.0, 1.0, False),
    ],
)
def test_a_case_that_always_passed_and_mostly_fails_now_is_suspected(
    before: float, after: float, suspected: bool
) -> None:
    assert is_suspected(before, after) is suspected


@pytest.mark.parametrize(
    ("reruns", "confirmed"),
    [
        ([False, False], True),
        ([False, True], False),
        ([True], False),  # a pass decides, whatever the other re-run would give
        ([None, True], False),
        ([False, None], None),
        ([False], None),
        ([], None),
    ],
)
def test_a_regression_is_confirmed_if_all_re_runs_fail(reruns: list[bool | None], confirmed: bool | None) -> None:
    assert is_confirmed(reruns) is confirmed


def test_without_re_runs_a_suspected_regression_counts_at_once() -> None:
    assert is_confirmed([], planned=0) is True
