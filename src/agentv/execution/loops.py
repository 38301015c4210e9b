"""Event loops that user code, which runs in them, can neither stop nor take tasks of others from."""

import asyncio
import weakref
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentv.execution.threads import is_abandoned
from agentv.execution.user_code import end_user_code, user_call

R = TypeVar("R")


def run_in_own_loop(main: Coroutine[Any, Any, R]) -> R:
    """Do the same as `asyncio.run`, in a loop of `guarded_loop`."""
    with asyncio.Runner(loop_factory=guarded_loop) as runner:
        return runner.run(main)


def guarded_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that user code cannot stop. `asyncio.all_tasks()` there returns the tasks of user code only.

    A call of user code cancels only its own tasks. Code that cancels all tasks is common at the end of programs; here
    it would cancel the calls of other cases.
    """
    return _GuardedLoop()


class _GuardedLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        super().__init__()
        self._own_tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.set_task_factory(self._make_task)

    def stop(self) -> None:
        if not end_user_code("the code stopped the event loop, which runs other cases too"):
            super().stop()

    async def shutdown_asyncgens(self) -> None:
        """Before the loop is closed, also end our tasks that remain: `all_tasks` does not return them."""
        tasks = [task for task in self._own_tasks if not task.done() and not is_abandoned(task)]
        remaining = [task for task in tasks if task is not asyncio.current_task()]
        for task in remaining:
            task.cancel()
        await asyncio.gather(*remaining, return_exceptions=True)
        await super().shutdown_asyncgens()

    def _make_task(self, _loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        if user_call() is not None:
            return _UserTask(coroutine, loop=self, **options)
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=self, **options)
        asyncio._unregister_task(task)  # noqa: SLF001 - documented for event loops of others
        self._own_tasks.add(task)
        return task


class _UserTask(asyncio.Task[Any]):
    """A task that user code started. Other calls of user code cannot cancel it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._call = user_call()

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task; do nothing in another call of user code."""
        return user_call() in (None, self._call) and super().cancel(msg)
