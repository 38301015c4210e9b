"""What a forked process has of its own: none of its parent's threads, locks, event loops and connections is used."""

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from types import MethodType


def call_in_forks(function: Callable[[], object]) -> None:
    """Call `function` first in each process that this one forks; a method only while its object exists.

    Its parent's threads do not run there, and what they held stays as it was at the fork.
    """
    if not hasattr(os, "register_at_fork"):
        return
    if isinstance(function, MethodType):
        function = partial(_call_if_alive, weakref.WeakMethod(function))
    os.register_at_fork(after_in_child=function)


def _call_if_alive(method: "weakref.WeakMethod[Callable[[], object]]") -> None:
    found = method()
    if found is not None:
        found()


class ProcessLock:
    """A lock among the threads of one process: a thread of the parent that held it at a fork does not block a child."""

    def __init__(self) -> None:
        self._renew()
        call_in_forks(self._renew)

    def _renew(self) -> None:
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        """Wait for the lock, and take it."""
        self._lock.acquire()

    def __exit__(self, *_error: object) -> None:
        """Release the lock."""
        self._lock.release()
