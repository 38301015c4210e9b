"""`workers: auto`: a policy of the number of concurrent calls, and what it does with servers, in virtual time."""

import asyncio
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.virtual_time import let_pass, run_virtually

from agentv.execution.auto_workers import LEAST_CALLS, MOST, START, AutoWorkers, WorkerTuner
from agentv.execution.backends.local import LocalBackend

REFUSED = None
TIMES_OR_REFUSALS = st.lists(st.one_of(st.just(REFUSED), st.floats(0.001, 100.0)), max_size=300)


def numbers_after(calls: Sequence[float | None], policy: AutoWorkers) -> list[AutoWorkers]:
    """Return the policy before the first call and after each one."""
    found = [policy]
    for seconds in calls:
        found.append(found[-1].refused() if seconds is None else found[-1].answered(seconds))
    return found


def at_level(workers: int) -> AutoWorkers:
    return AutoWorkers(workers=workers)


@given(TIMES_OR_REFUSALS, st.integers(1, MOST))
def test_the_number_is_never_below_1_or_above_the_most(calls: list[float | None], most: int) -> None:
    assert all(1 <= policy.workers <= most for policy in numbers_after(calls, AutoWorkers(min(START, most), most)))


@given(TIMES_OR_REFUSALS)
def test_a_refusal_halves_the_number(calls: list[float | None]) -> None:
    policy = numbers_after(calls, AutoWorkers())[-1]
    assert policy.refused().workers == max(1, policy.workers // 2)


@given(TIMES_OR_REFUSALS)
def test_no_answer_more_than_doubles_or_more_than_halves_the_number(calls: list[float | None]) -> None:
    for before, after in pairwise(numbers_after(calls, AutoWorkers())):
        assert before.workers // 2 <= after.workers <= before.workers * 2


@given(TIMES_OR_REFUSALS)
def test_after_the_first_limit_the_number_grows_by_one_at_a_time(calls: list[float | None]) -> None:
    policy = numbers_after(calls, AutoWorkers())[-1].refused()
    for before, after in pairwise(numbers_after(calls, policy)):
        assert after.workers <= before.workers + 1


@given(st.floats(0.001, 100.0))
def test_steady_answers_lead_to_the_most(seconds: float) -> None:
    reached = [policy.workers for policy in numbers_after([seconds] * 200, AutoWorkers())]
    assert list(dict.fromkeys(reached)) == [4, 8, 16, 32, 64]


def test_answers_that_take_half_as_long_again_halve_the_number() -> None:
    policies = numbers_after([1.0] * LEAST_CALLS + [1.6] * LEAST_CALLS, AutoWorkers())
    assert (policies[LEAST_CALLS].workers, policies[-1].workers) == (8, 4)
    policies = numbers_after([1.0] * LEAST_CALLS + [1.4] * LEAST_CALLS, AutoWorkers())
    assert policies[-1].workers == 16


def test_calls_sent_before_a_change_count_no_more() -> None:
    numbers: list[int] = []
    tuner = WorkerTuner(numbers.append, at_level(32))
    for _ in range(10):  # refused together
        tuner.refused(sent_at=0)
    assert numbers == [16]
    tuner.refused(sent_at=1)
    assert numbers == [16, 8]


async def rows_with(concurrent_calls: int | None, *, rows: int, busy_s: float = 0.0) -> tuple[float, int, int]:
    """Return the seconds that rows of 200 ms take, the most concurrent calls and the number of refused ones.

    The server refuses calls above `concurrent_calls`. With `busy_s` it works on one call at a time, so long for each.
    """
    now = asyncio.get_running_loop().time
    backend, active, most, refused, free_at = LocalBackend(START), 0, 0, 0, 0.0
    tuner = WorkerTuner(backend.resize, AutoWorkers())

    async def is_answered() -> bool:
        nonlocal active, most, refused, free_at
        if concurrent_calls is not None and active >= concurrent_calls:
            refused += 1
            await let_pass(0.002)
            return False
        active += 1
        most = max(most, active)
        free_at = max(free_at, now()) + busy_s
        await let_pass(max(0.2, free_at - now()))
        active -= 1
        return True

    async def row(_number: int) -> None:
        while True:
            sent_at, began = tuner.policy.changes, now()
            if await is_answered():
                tuner.answered(now() - began, sent_at=sent_at)
                return
            tuner.refused(sent_at=sent_at)
            await let_pass(1.0)

    await backend.run(row, range(rows), lambda _result: None)
    return now(), most, refused


def test_a_server_without_a_limit_is_called_by_the_most_workers() -> None:
    took_s, most, refused = run_virtually(rows_with(None, rows=800))
    assert (most, refused) == (MOST, 0)
    assert took_s < 6  # one call at a time: 160 s


@pytest.mark.parametrize("limit", [1, 2, 5, 20])
def test_a_server_that_refuses_calls_above_a_number_is_seldom_refused(limit: int) -> None:
    took_s, most, refused = run_virtually(rows_with(limit, rows=800))
    assert most <= limit
    assert took_s < 800 * 0.2 / limit * 2.1
    assert refused < 0.3 * 800


def test_a_server_that_works_on_one_call_at_a_time_is_not_flooded() -> None:
    took_s, most, _ = run_virtually(rows_with(None, rows=800, busy_s=0.1))
    assert took_s == pytest.approx(80, rel=0.2)
    assert most <= 8
