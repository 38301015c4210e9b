"""Calls of user code in a guarded loop: what one does to tasks ends with it, and nothing of it is kept."""

import asyncio
import gc
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from agentv.execution.loops import guarded_loop, run_in_own_loop
from agentv.execution.threads import abandon, abandoned_calls
from agentv.execution.user_code import DeadlineError, call_user_code


async def cancels_all() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def starts_tasks() -> str:
    await asyncio.gather(*(asyncio.sleep(0.02) for _ in range(3)))
    return "good"


def test_code_that_cancels_all_tasks_cancels_none_of_other_calls() -> None:
    async def run() -> list[object]:
        calls = (call_user_code(function, timeout_s=10) for function in (starts_tasks, cancels_all, starts_tasks))
        return list(await asyncio.gather(*calls))

    assert run_in_own_loop(run()) == ["good", None, "good"]


def test_own_tasks_are_ended_before_the_loop_is_closed() -> None:
    ended: list[str] = []

    async def remains() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("remains")

    async def interrupted() -> None:
        task = asyncio.create_task(remains())
        await asyncio.sleep(0)
        assert not task.done()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_in_own_loop(interrupted())
    assert ended == ["remains"]


def test_an_abandoned_task_does_not_count_when_its_loop_is_closed() -> None:
    before = abandoned_calls()

    async def run() -> None:
        task = asyncio.create_task(asyncio.sleep(600))
        await asyncio.sleep(0)
        abandon(task)
        assert abandoned_calls() == before + 1

    with asyncio.Runner(loop_factory=guarded_loop) as runner:
        runner.run(run())
    assert abandoned_calls() == before


async def returns() -> int:
    return 1


async def raises() -> None:
    raise KeyError("x")


def raises_in_a_thread() -> None:
    raise KeyError("x")


async def is_late() -> None:
    await asyncio.sleep(600)


@pytest.mark.parametrize("function", [returns, raises, raises_in_a_thread, is_late])
def test_a_call_leaves_nothing_for_the_garbage_collector(function: Callable[[], Any]) -> None:
    calls = 20

    async def run() -> int:
        await call()  # starts a thread, for example
        gc.collect()
        gc.disable()
        try:
            for _ in range(calls):
                await call()
            return gc.collect()
        finally:
            gc.enable()

    async def call() -> None:
        with suppress(KeyError, DeadlineError):
            await call_user_code(function, timeout_s=0.001 if function is is_late else 10)

    # What other tests left may be collected once; what a call leaves is there each time.
    assert min(asyncio.run(run()) for _ in range(3)) < calls
