"""Deadlines of user code."""

import asyncio
from collections.abc import Generator

import pytest

from agentv.execution.user_code import DeadlineError, call_user_code, off_the_clock


async def wait_s(seconds: float) -> None:
    """Wait for an event that is set at that time."""
    event = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, event.set)
    await event.wait()


def test_waiting_for_a_turn_is_left_out_of_every_deadline_around() -> None:
    async def inner() -> str:
        with off_the_clock():
            await wait_s(0.3)
        return "done"

    async def outer() -> object:
        return await call_user_code(inner, timeout_s=0.1)

    assert asyncio.run(call_user_code(outer, timeout_s=0.1)) == "done"


def test_several_who_wait_at_once_stop_the_clock_until_the_last_goes_on() -> None:
    async def turn(seconds: float) -> None:
        with off_the_clock():
            await wait_s(seconds)

    async def both() -> str:
        await asyncio.gather(turn(0.05), turn(0.3))
        return "done"

    assert asyncio.run(call_user_code(both, timeout_s=0.1)) == "done"


def test_the_clock_goes_on_after_the_waiting() -> None:
    async def slow() -> None:
        with off_the_clock():
            await wait_s(0.05)
        await asyncio.Event().wait()

    with pytest.raises(DeadlineError):
        asyncio.run(call_user_code(slow, timeout_s=0.1))


def test_a_task_that_is_left_behind_changes_nothing() -> None:
    async def run() -> str:
        left: list[asyncio.Task[None]] = []

        async def late() -> None:
            with off_the_clock():
                await wait_s(0.05)

        async def quick() -> str:
            left.append(asyncio.create_task(late()))
            await asyncio.sleep(0)
            return "done"

        said: str = await call_user_code(quick, timeout_s=0.1)
        await left[0]
        return said

    assert asyncio.run(run()) == "done"


def test_an_object_that_has_every_attribute_is_a_result_and_not_awaited() -> None:
    class Permissive(dict[str, str]):
        def __getattr__(self, name: str) -> str | None:
            return self.get(name)

    given = Permissive(text="hi")

    assert asyncio.run(call_user_code(lambda: given, timeout_s=None)) is given


class Faulty:
    """Something awaitable whose own code runs out of an iterator."""

    def __await__(self) -> Generator[None, None, str]:
        raise StopIteration("an answer?")


@pytest.mark.parametrize("timeout_s", [1.0, None])
def test_a_fault_before_the_first_step_is_no_result(timeout_s: float | None) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        asyncio.run(call_user_code(Faulty, timeout_s=timeout_s, inline=True))
