"""Calling code that is not ours: under a deadline, never in the way of the event loop, unable to end who waits."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Optional

from agentv.execution.threads import AbandonedError, call_in_thread


class DeadlineError(TimeoutError):
    """The code did not return in time. Its own TimeoutErrors are passed on as they are."""


class StrayCancelError(RuntimeError):
    """The code raised CancelledError although nobody had cancelled it; passed on, it would end a worker in silence."""


class Deadline:
    """How long a call may take, with the time spent waiting for others left out."""

    def __init__(self, timeout_s: float | None, outer: Optional["Deadline"]) -> None:
        self.timeout = asyncio.timeout(timeout_s)
        self._outer = outer
        self._loop = asyncio.get_running_loop()
        self._waiting = 0
        self._left_s: float | None = None
        self._is_over = False

    def pause(self) -> None:
        """Stop the clock, and that of every call around this one; it may be stopped more than once."""
        self._waiting += 1
        ends_at = self.timeout.when()
        if self._waiting == 1 and ends_at is not None and self._may_change():
            self._left_s = ends_at - self._loop.time()
            self.timeout.reschedule(None)
        if self._outer is not None:
            self._outer.pause()

    def go_on(self) -> None:
        """Start the clock again when nobody waits any more."""
        self._waiting -= 1
        if self._waiting == 0 and self._left_s is not None and self._may_change():
            self.timeout.reschedule(self._loop.time() + self._left_s)
        if self._outer is not None:
            self._outer.go_on()

    def end(self) -> None:
        """Say that the call is over: a task that it left behind changes nothing any more."""
        self._is_over = True

    def _may_change(self) -> bool:
        is_ours = asyncio.get_running_loop() is self._loop  # a thread with a loop of its own inherits the context
        return is_ours and not self._is_over and not self.timeout.expired()


_current: ContextVar[Deadline | None] = ContextVar("deadline", default=None)


@contextmanager
def off_the_clock() -> Iterator[None]:
    """Leave the time spent in here out of the deadlines of all calls around: waiting for a turn is nobody's fault."""
    deadline = _current.get()
    if deadline is None:
        yield
        return
    deadline.pause()
    try:
        yield
    finally:
        deadline.go_on()


async def call_foreign(
    function: Callable[..., Any], *args: object, timeout_s: float | None, inline: bool = False
) -> Any:
    """Call `function` and return its result, awaited when it can be.

    A plain function runs in a thread, which is abandoned at the deadline; `inline` is for those that return at once.
    Raises DeadlineError past `timeout_s` (None: only the deadlines around this call hold), StrayCancelError, and
    whatever the code raises.
    """
    try:
        if inline or inspect.iscoroutinefunction(function):
            output = function(*args)
        else:
            output = await call_in_thread(function, *args, timeout_s=timeout_s)
        if not inspect.isawaitable(output):
            return output
        return await (output if timeout_s is None else _awaited(output, timeout_s))
    except AbandonedError as error:
        raise DeadlineError(f"no return within {timeout_s:g} s") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StrayCancelError("the code cancelled itself (it raised CancelledError)") from error


async def _awaited(output: Awaitable[Any], timeout_s: float) -> Any:
    deadline = Deadline(timeout_s, _current.get())
    try:
        async with deadline.timeout:
            return await _timed_by(deadline, output)
    except TimeoutError as error:
        if deadline.timeout.expired():
            raise DeadlineError(f"no return within {timeout_s:g} s") from error
        raise


async def _timed_by(deadline: Deadline, output: Awaitable[Any]) -> Any:
    token = _current.set(deadline)
    try:
        return await output
    finally:
        deadline.end()
        _current.reset(token)
