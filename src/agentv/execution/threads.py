"""Run blocking functions in daemon threads, which are abandoned at a deadline because a thread cannot be killed."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

from agentv.execution.forks import ProcessLock, call_in_forks

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_lock = ProcessLock()
_idle: list["_Thread"] = []
_abandoned: set[object] = set()
"""Threads and tasks; a task is referred to by nothing else."""
call_in_forks(_idle.clear)
call_in_forks(_abandoned.clear)


class AbandonedError(TimeoutError):
    """A call did not return in time; its thread still runs."""


def abandon(task: asyncio.Task[object]) -> None:
    """Abandon a task that ignores its cancellation: `asyncio.run` does not wait for it at its end."""
    asyncio._unregister_task(task)  # noqa: SLF001 - documented for event loops of others
    task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - as `asyncio.gather` does
    _abandoned.add(task)
    task.add_done_callback(_abandoned.discard)


def is_abandoned(task: asyncio.Task[object]) -> bool:
    """Return True for a task that was abandoned and has not ended."""
    return task in _abandoned


def abandoned_calls() -> int:
    """Return the number of abandoned calls that have not returned yet; a task ends with its event loop."""
    tasks = [each for each in _abandoned if isinstance(each, asyncio.Task)]
    _abandoned.difference_update(task for task in tasks if task.get_loop().is_closed())
    return len(_abandoned)


async def call_in_thread(function: Callable[[*Ts], R], *args: *Ts, timeout_s: float | None) -> R:
    """Call `function` in a daemon thread, with the caller's context variables, and return what it returns.

    Raises AbandonedError after `timeout_s`. An abandoned or cancelled call occupies its thread until it returns. An
    exception that would end this process, such as SystemExit, becomes a RuntimeError.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def settle(error: BaseException | None, result: list[R]) -> None:
        if outcome.cancelled():
            return
        if error is not None:
            outcome.set_exception(_harmless(error))
        else:
            outcome.set_result(result[0])

    def work() -> None:
        error: BaseException | None = None
        result: list[R] = []
        try:
            result.append(context.run(function, *args))
        except BaseException as raised:  # noqa: BLE001 - the caller handles every exception
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nothing waits any more
            loop.call_soon_threadsafe(settle, error, result)
        error = None  # its traceback refers to this frame

    thread = _take_thread()
    thread.start(work)
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await outcome
    except TimeoutError:
        if not deadline.expired():
            raise
        raise AbandonedError(f"did not return within {timeout_s:g} s") from None
    finally:
        if outcome.cancelled():
            thread.abandon_if(work)
        elif outcome.done():
            del outcome  # the traceback of its exception refers to this frame


def _harmless(error: BaseException) -> BaseException:
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _take_thread() -> "_Thread":
    with _lock:
        return _idle.pop() if _idle else _Thread()


class _Thread:
    """A daemon thread that runs one piece of work after another."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._current: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True, name="agentv-call").start()

    def start(self, work: Callable[[], None]) -> None:
        """Run `work` now."""
        self._current = work
        self._queue.put(work)

    def abandon_if(self, work: Callable[[], None]) -> None:
        """Count the thread as abandoned if it is still busy with `work`."""
        with _lock:
            if self._current is work:
                _abandoned.add(self)

    def _run(self) -> None:
        while True:
            self._queue.get()()
            with _lock:
                self._current = None
                _abandoned.discard(self)
                _idle.append(self)
