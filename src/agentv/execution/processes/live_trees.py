"""The running commands of this process, so that all of them can be killed at once, also from a signal handler.

Separate from `tree`, whose imports are slow: every run needs the code that ends commands, few the code that starts
them.
"""

import atexit
import os
import time
from collections.abc import Iterable
from typing import Protocol

from agentv.execution.forks import call_in_forks

KILL_S = 3.0
PAUSE_S = 0.01


_mark = ""


def process_mark() -> str:
    """Return what identifies this process: 16 hexadecimal digits. A fork has a mark of its own.

    It is in the environments of its commands, in the names of its temporary folders, and, with its pid, in the lock of
    a run.
    """
    return _mark


def _renew_mark() -> None:
    global _mark  # noqa: PLW0603 - a property of the whole process
    _mark = os.urandom(8).hex()


_renew_mark()
call_in_forks(_renew_mark)


class Killable(Protocol):
    """A command with all its descendants."""

    def kill(self) -> bool:
        """Send SIGKILL to all processes found; return True if none is left."""


LIVE: dict[int, Killable] = {}
"""Running commands, by the process id of the command itself."""

STARTING: set[Killable] = set()
"""Commands that are about to start."""


def kill_all() -> None:
    """Kill every running command and wait until none is left: for a second Ctrl-C and the end of the process."""
    kill_until_gone([*STARTING, *LIVE.values()])


def kill_until_gone(trees: Iterable[Killable]) -> None:
    """Kill these commands repeatedly, for up to three seconds, until no process is left."""
    left = list(trees)
    deadline = time.monotonic() + KILL_S
    while left := [tree for tree in left if not tree.kill()]:
        if time.monotonic() > deadline:  # stuck in the kernel: not even SIGKILL ends it now
            return
        time.sleep(PAUSE_S)


atexit.register(kill_all)


call_in_forks(LIVE.clear)  # the parent waits for its commands
call_in_forks(STARTING.clear)
