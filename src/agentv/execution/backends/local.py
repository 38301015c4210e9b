"""Process many items on this machine: a number of workers take them from one iterator."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from time import monotonic as now
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")

YIELD_INTERVAL_S = 0.02
"""Seconds that work without waits may occupy the event loop before it yields to signals, timers and the display."""


class LocalBackend:
    """Processes at most `workers` items at once. Memory is bounded by the workers, not by the number of items."""

    def __init__(self, workers: int) -> None:
        self.workers = 0
        self._start_missing_workers: Callable[[], None] = lambda: None
        self.resize(workers)

    def resize(self, workers: int) -> None:
        """Change the number of workers, also during a run; items in progress are finished. ValueError below 1."""
        if workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.workers = workers
        self._start_missing_workers()

    async def run(
        self,
        work: Callable[[T], Awaitable[R]],
        items: Iterable[T | None],
        emit: Callable[[R], Awaitable[None] | None],
    ) -> None:
        """Call `work` on each item, concurrently, and `emit` on each result, one at a time in order of completion.

        An item is taken from `items` only when a worker is free; a None yields to the event loop once. An exception
        from `work`, `items` or `emit` cancels the other workers and is raised after they have ended.
        """
        source = iter(items)
        turn = asyncio.Lock()
        yielded_at = now()
        running, is_over = 0, False

        async def pull() -> None:
            nonlocal yielded_at, running, is_over
            is_surplus = False
            try:
                for item in source:
                    if item is None:
                        await asyncio.sleep(0)
                        continue
                    result = await work(item)
                    emitted = emit(result)
                    if emitted is not None:
                        async with turn:
                            await emitted
                    if now() - yielded_at > YIELD_INTERVAL_S:
                        await asyncio.sleep(0)
                        yielded_at = now()
                    is_surplus = running > self.workers
                    if is_surplus:
                        return
            finally:
                running -= 1
                is_over = is_over or not is_surplus  # no item is left, or something failed

        def start_worker() -> None:
            nonlocal running
            running += 1
            tasks.create_task(pull())

        def start_missing_workers() -> None:
            while running < self.workers and not is_over:
                start_worker()

        try:
            async with asyncio.TaskGroup() as tasks:
                while running < self.workers and not is_over:
                    start_worker()
                    await asyncio.sleep(0)  # the first calls are in flight before the last workers start
                self._start_missing_workers = start_missing_workers
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group.exceptions[0].__cause__
        finally:
            self._start_missing_workers = lambda: None
