import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentv.execution.sharing import SharedResources


def test_a_part_is_opened_once_and_closed_at_the_end_last_first() -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def part(name: str) -> AsyncIterator[str]:
        happened.append(f"open {name}")
        await asyncio.sleep(0)
        yield name
        happened.append(f"close {name}")

    async def run() -> None:
        async with SharedResources() as shared:
            calls = [shared.get("a", lambda: part("a")) for _ in range(5)]
            assert await asyncio.gather(*calls) == ["a"] * 5
            assert await shared.get("b", lambda: part("b")) == "b"

    asyncio.run(run())

    assert happened == ["open a", "open b", "close b", "close a"]


def test_a_part_that_failed_to_open_is_tried_again() -> None:
    results = [OSError("not yet"), None]

    @asynccontextmanager
    async def part() -> AsyncIterator[str]:
        if (error := results.pop(0)) is not None:
            raise error
        yield "open"

    async def run() -> str:
        async with SharedResources() as shared:
            with pytest.raises(OSError, match="not yet"):
                await shared.get("part", part)
            return await shared.get("part", part)

    assert asyncio.run(run()) == "open"


def test_a_part_that_takes_long_to_open_holds_up_no_other() -> None:
    happened: list[str] = []
    may_open = asyncio.Event()

    @asynccontextmanager
    async def part(name: str) -> AsyncIterator[str]:
        if name == "slow":
            await may_open.wait()
        happened.append(f"open {name}")
        yield name
        happened.append(f"close {name}")

    async def run() -> None:
        async with asyncio.timeout(30), SharedResources() as shared:
            slow = [asyncio.ensure_future(shared.get("slow", lambda: part("slow"))) for _ in range(2)]
            await asyncio.sleep(0)
            assert await shared.get("quick", lambda: part("quick")) == "quick"
            may_open.set()
            assert await asyncio.gather(*slow) == ["slow"] * 2

    asyncio.run(run())

    assert happened == ["open quick", "open slow", "close slow", "close quick"]


def test_a_part_may_be_made_of_another() -> None:
    happened: list[str] = []

    async def run() -> None:
        async with asyncio.timeout(30), SharedResources() as shared:

            @asynccontextmanager
            async def inner() -> AsyncIterator[str]:
                yield "inner"
                happened.append("close inner")

            @asynccontextmanager
            async def outer() -> AsyncIterator[str]:
                yield "outer of " + await shared.get("inner", inner)
                happened.append("close outer")

            assert await shared.get("outer", outer) == "outer of inner"

    asyncio.run(run())

    assert happened == ["close outer", "close inner"]
