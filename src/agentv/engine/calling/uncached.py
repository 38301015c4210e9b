"""Calls that must not be answered from a cache, such as those that confirm a regression."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar

from agentv.engine.planning.plan import CaseTask

_is_uncached: ContextVar[bool] = ContextVar("uncached_calls", default=False)


@contextmanager
def uncached_calls() -> Iterator[None]:
    """Send all calls of a `with` block, also those of judges, and save no answer to a cache."""
    token = _is_uncached.set(True)
    try:
        yield
    finally:
        _is_uncached.reset(token)


def calls_of(task: CaseTask) -> AbstractContextManager[None]:
    """Return the context of the calls for a task."""
    return uncached_calls() if task.rerun == "confirm" else nullcontext()


def is_uncached() -> bool:
    """Return True within a `with` block of `uncached_calls`."""
    return _is_uncached.get()
