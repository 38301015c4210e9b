"""Parts that are opened once per process and closed at its end: HTTP sessions, worker processes."""

import asyncio
from collections import defaultdict
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar, cast

from agentv.types.protocols import OpenShared

T = TypeVar("T")


class Shared:
    """Opens each part when it is first asked for, and closes them all, the one that was open last first.

    A part that takes long to open keeps nobody waiting but those who ask for the same one.
    Use it as an async context manager, or call `aclose` in the same event loop.
    """

    def __init__(self) -> None:
        self._parts: dict[str, object] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Start owning."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what was opened."""
        await self.aclose()

    async def get(self, key: str, opener: "OpenShared[T]") -> T:
        """Return the part called `key`, opening it the first time. One that failed to open is tried again."""
        if key not in self._parts:
            async with self._opening[key]:
                if key not in self._parts:
                    self._parts[key] = await self._stack.enter_async_context(opener())
        return cast(T, self._parts[key])

    async def aclose(self) -> None:
        """Close what was opened."""
        self._parts.clear()
        await self._stack.aclose()
