"""Calling code that is not ours: under a deadline, never in the way of the event loop, unable to end who waits."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from agentv.execution.threads import AbandonedError, call_in_thread


class DeadlineError(TimeoutError):
    """The code did not return in time. Its own TimeoutErrors are passed on as they are."""


class StrayCancelError(RuntimeError):
    """The code raised CancelledError although nobody had cancelled it; passed on, it would end a worker in silence."""


async def call_foreign(
    function: Callable[..., Any], *args: object, timeout_s: float | None, inline: bool = False
) -> Any:
    """Call `function` and return its result, awaited when it can be.

    A plain function runs in a thread, which is abandoned at the deadline; `inline` is for those that return at once.
    Raises DeadlineError past `timeout_s`, StrayCancelError, and whatever the code raises.
    """
    deadline = asyncio.timeout(timeout_s)
    try:
        if inline or inspect.iscoroutinefunction(function):
            output = function(*args)
        else:
            output = await call_in_thread(function, *args, timeout_s=timeout_s)
        if not inspect.isawaitable(output):
            return output
        async with deadline:
            return await output
    except AbandonedError as error:
        raise DeadlineError(f"no return within {timeout_s:g} s") from error
    except TimeoutError as error:
        if deadline.expired():
            raise DeadlineError(f"no return within {timeout_s:g} s") from error
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise StrayCancelError("the code cancelled itself (it raised CancelledError)") from error
