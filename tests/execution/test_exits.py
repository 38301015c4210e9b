import asyncio
import subprocess
from collections.abc import Iterator

import pytest

from agentv.execution.exits import Exits

PATIENCE_S = 30.0


@pytest.fixture
def waiting() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield process


@pytest.fixture
def over() -> Iterator["subprocess.Popen[bytes]"]:
    with subprocess.Popen(["true"]) as process:
        yield process


class Told:
    """Who was said to have exited, in order."""

    def __init__(self) -> None:
        self.names: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> str:
        return await asyncio.wait_for(self.names.get(), PATIENCE_S)


def test_to_forget_a_command_that_is_over_leaves_the_next_one_watched(
    over: "subprocess.Popen[bytes]", waiting: "subprocess.Popen[bytes]"
) -> None:
    async def one_after_another() -> list[str]:
        exits, told = Exits.of(asyncio.get_running_loop()), Told()
        first = exits.watch(over, lambda: told.names.put_nowait("first"))
        names = [await told.next()]
        exits.watch(waiting, lambda: told.names.put_nowait("second"))  # its pidfd has the number that is free again
        exits.forget(first)
        waiting.communicate()
        names.append(await told.next())
        exits.leave()
        return names

    assert asyncio.run(one_after_another()) == ["first", "second"]


def test_a_command_that_is_forgotten_is_not_told_of(
    over: "subprocess.Popen[bytes]", waiting: "subprocess.Popen[bytes]"
) -> None:
    async def forgotten() -> str:
        exits, told = Exits.of(asyncio.get_running_loop()), Told()
        exits.forget(exits.watch(over, lambda: told.names.put_nowait("forgotten")))
        exits.watch(waiting, lambda: told.names.put_nowait("watched"))
        waiting.communicate()
        first = await told.next()
        exits.leave()
        return first

    assert asyncio.run(forgotten()) == "watched"
