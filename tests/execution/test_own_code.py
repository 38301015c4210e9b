"""Calls of agentv's own coroutines: in the task of the caller, with a deadline that always holds."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.support.virtual_time import run_virtually

from agentv.execution.user_code import DeadlineError, call_own_code, is_own_code, off_the_clock
from agentv.providers.local.mock import MockProvider


async def sleeps() -> str:
    await asyncio.sleep(100)
    return "late"


async def fails_in_its_cleanup() -> str:
    try:
        return await sleeps()
    except asyncio.CancelledError:
        raise OSError("the folder is gone") from None


async def goes_on() -> str:
    try:
        return await sleeps()
    except asyncio.CancelledError:
        return "whatever"


@pytest.mark.parametrize("function", [sleeps, fails_in_its_cleanup, goes_on])
def test_a_call_past_its_deadline_is_a_deadline_error_whatever_it_does(
    function: Callable[[], Awaitable[str]],
) -> None:
    with pytest.raises(DeadlineError, match="did not return within 5 s"):
        run_virtually(call_own_code(function, timeout_s=5))


@pytest.mark.parametrize("function", [sleeps, fails_in_its_cleanup])
def test_a_cancelled_call_stays_cancelled_if_its_cleanup_fails(function: Callable[[], Awaitable[str]]) -> None:
    async def cancelled() -> bool:
        task = asyncio.create_task(call_own_code(function, timeout_s=50))
        await asyncio.sleep(1)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert run_virtually(cancelled())


def test_an_error_of_the_call_is_raised_unchanged_also_a_time_out_of_its_own() -> None:
    async def times_out() -> None:
        raise TimeoutError("the server said so")

    with pytest.raises(TimeoutError, match="the server said so") as raised:
        run_virtually(call_own_code(times_out, timeout_s=5))
    assert not isinstance(raised.value, DeadlineError)


def test_time_off_the_clock_does_not_count() -> None:
    async def waits() -> str:
        with off_the_clock():
            await asyncio.sleep(100)
        return "done"

    assert run_virtually(call_own_code(waits, timeout_s=5)) == "done"


def test_only_classes_of_agentv_are_its_own_code() -> None:
    class Mine(MockProvider):
        pass

    assert is_own_code(MockProvider.invoke.__get__(object.__new__(MockProvider)))
    assert not is_own_code(Mine.invoke.__get__(object.__new__(Mine)))
    assert not is_own_code(sleeps)
