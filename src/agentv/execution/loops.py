"""Event loops that user code, which runs in them, can neither stop nor take our tasks from."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from agentv.execution.user_code import end_user_code, is_user_code

R = TypeVar("R")


def run_in_own_loop(main: Coroutine[Any, Any, R]) -> R:
    """Do the same as `asyncio.run`, in a loop of `guarded_loop`."""
    with asyncio.Runner(loop_factory=guarded_loop) as runner:
        return runner.run(main)


def guarded_loop() -> asyncio.AbstractEventLoop:
    """Return a loop that user code cannot stop. `asyncio.all_tasks()` there returns the tasks of user code only.

    Code that cancels all tasks is common at the end of programs; here it would cancel the calls of other cases.
    """
    loop = _GuardedLoop()
    loop.set_task_factory(_make_task)
    return loop


class _GuardedLoop(asyncio.SelectorEventLoop):
    def stop(self) -> None:
        if not end_user_code("the code stopped the event loop, which runs other cases too"):
            super().stop()


def _make_task(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    if not is_user_code():
        asyncio._unregister_task(task)  # noqa: SLF001 - documented for event loops of others
    return task
