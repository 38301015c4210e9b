"""Resources opened once per process, such as HTTP sessions and worker processes; and a queue that paces tasks."""

import asyncio
from collections import defaultdict, deque
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self, TypeVar, cast

from agentv.types.protocols import OpenShared

T = TypeVar("T")


class SharedResources:
    """Opens each resource on first use and closes all of them in reverse order.

    A resource that takes long to open delays only the callers of the same one.
    Use it as an async context manager, or call `aclose` in the same event loop.
    """

    def __init__(self) -> None:
        self._resources: dict[str, object] = {}
        self._opening: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Return the container itself; nothing is opened yet."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all resources."""
        await self.aclose()

    async def get(self, key: str, opener: "OpenShared[T]") -> T:
        """Return the resource `key`; open it on the first call. After a failure, the next call tries again."""
        if key not in self._resources:
            async with self._opening[key]:
                if key not in self._resources:
                    self._resources[key] = await self._stack.enter_async_context(opener())
        return cast(T, self._resources[key])

    async def aclose(self) -> None:
        """Close all resources."""
        self._resources.clear()
        await self._stack.aclose()


WAITING_PER_EXTRA_TASK = 10
"""Each iteration resumes one task, plus one for every 10 waiting, so that a long queue drains in few iterations."""


class TurnQueue:
    """A queue that resumes waiting tasks in order of arrival.

    Each event-loop iteration resumes one task, plus one for every `WAITING_PER_EXTRA_TASK` that wait.

    One iteration reads all responses that have arrived, then resumes all tasks that waited for them; their next
    requests leave only in the following iteration. Without the queue, no request leaves before all earlier responses
    are evaluated, so that responses keep arriving in bursts while the machine idles between them. An instance belongs
    to one event loop.
    """

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_active = False

    async def turn(self) -> None:
        """Wait for this task's turn; the first task of an iteration does not wait."""
        loop = asyncio.get_running_loop()
        if not self._is_active:
            self._is_active = True
            loop.call_soon(self._continue_next, loop)
            return
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _continue_next(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting
        self._is_active = bool(waiting)
        if not waiting:
            return
        for _ in range(1 + len(waiting) // WAITING_PER_EXTRA_TASK):
            first = waiting.popleft()
            if not first.done():  # it was cancelled meanwhile
                first.set_result(None)
        loop.call_soon(self._continue_next, loop)
