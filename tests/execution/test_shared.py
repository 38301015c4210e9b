import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from agentv.execution.shared import Shared


def test_a_part_is_opened_once_and_closed_at_the_end_last_first() -> None:
    happened: list[str] = []

    @asynccontextmanager
    async def part(name: str) -> AsyncIterator[str]:
        happened.append(f"open {name}")
        await asyncio.sleep(0)
        yield name
        happened.append(f"close {name}")

    async def run() -> None:
        async with Shared() as shared:
            asked = [shared.get("a", lambda: part("a")) for _ in range(5)]
            assert await asyncio.gather(*asked) == ["a"] * 5
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
        async with Shared() as shared:
            with pytest.raises(OSError, match="not yet"):
                await shared.get("part", part)
            return await shared.get("part", part)

    assert asyncio.run(run()) == "open"
