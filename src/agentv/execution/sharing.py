"""Parts that are opened once per process and closed at its end: HTTP sessions, worker processes."""

import asyncio
from collections import defaultdict, deque
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


CROWD = 10
"""Of so many who wait one more goes on in a round: where work never pauses, a round for each costs a tenth more."""


class TurnQueue:
    """Lets tasks go on in the order in which they came, one in a round of the event loop, or a tenth of a crowd.

    A round of the loop takes up all replies that are there, then goes on with all who waited for them, and only in
    the next one sends what these ask now. Without turns, nobody's question leaves before everybody's last answer is
    judged; so all of them come back together, and so it goes on, however idle the machine is. For one event loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_going = False

    async def turn(self) -> None:
        """Wait for one's turn; who comes first in a round does not wait."""
        loop = asyncio.get_running_loop()
        if not self._is_going:
            self._is_going = True
            loop.call_soon(self._go_on, loop)
            return
        mine: asyncio.Future[None] = loop.create_future()
        self._waiting.append(mine)
        await mine

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._is_going = bool(waiting)
        if not waiting:
            return
        for _ in range(1 + len(waiting) // CROWD):
            first = waiting.popleft()
            if not first.done():  # it was cancelled meanwhile
                first.set_result(None)
        loop.call_soon(self._go_on, loop)
