"""Functions that may block: run in daemon threads, abandoned at their deadline (nobody can kill a thread)."""

import asyncio
import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

_lock = threading.Lock()
_idle: list["_Thread"] = []
_abandoned: set["_Thread"] = set()


class AbandonedError(TimeoutError):
    """A call did not return in time; its thread still runs."""


def abandoned_calls() -> int:
    """How many calls were given up and have not returned to this moment."""
    return len(_abandoned)


async def call_in_thread(function: Callable[[*Ts], R], *args: *Ts, timeout_s: float | None) -> R:
    """Call `function` in a daemon thread, with the caller's context variables, and return what it returns.

    Past `timeout_s` AbandonedError is raised. A call that is given up, then or by cancellation, keeps its thread until
    it returns by itself. What would end this process, like `sys.exit()`, becomes a RuntimeError.
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
        except BaseException as raised:  # noqa: BLE001 - whatever it is belongs to the caller
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, error, result)

    thread = _take_thread()
    thread.start(work)
    deadline = asyncio.timeout(timeout_s)
    try:
        async with deadline:
            return await outcome
    except TimeoutError:
        if not deadline.expired():
            raise
        raise AbandonedError(f"no return within {timeout_s:g} s") from None
    finally:
        if outcome.cancelled():
            thread.abandon_if(work)


def _harmless(error: BaseException) -> BaseException:
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")


def _take_thread() -> "_Thread":
    with _lock:
        return _idle.pop() if _idle else _Thread()


class _Thread:
    """A daemon thread that does one piece of work after another."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._doing: Callable[[], None] | None = None
        threading.Thread(target=self._run, daemon=True, name="agentv-call").start()

    def start(self, work: Callable[[], None]) -> None:
        """Do `work` now."""
        self._doing = work
        self._queue.put(work)

    def abandon_if(self, work: Callable[[], None]) -> None:
        """Count the thread as abandoned if it is still busy with `work`."""
        with _lock:
            if self._doing is work:
                _abandoned.add(self)

    def _run(self) -> None:
        while True:
            self._queue.get()()
            with _lock:
                self._doing = None
                _abandoned.discard(self)
                _idle.append(self)
