"""The commands that run now, so that all of them can be killed at once, also from a signal handler.

Apart from `tree`, whose imports take 20 ms: what ends commands is needed by every run, what starts them by few.
"""

import atexit
import os
import time
from collections.abc import Iterable
from typing import Protocol

KILL_S = 3.0
PAUSE_S = 0.01


class Killable(Protocol):
    """A command with all its descendants."""

    def kill(self) -> bool:
        """Send SIGKILL to all that can be found; return whether nobody is left."""


LIVE: dict[int, Killable] = {}
"""What runs, by the process id of the command itself."""

STARTING: set[Killable] = set()
"""What is about to run."""


def kill_all() -> None:
    """Kill every live tree at once and wait till nobody is left: for a second Ctrl-C and for the end of the process."""
    kill_until_gone([*STARTING, *LIVE.values()])


def kill_until_gone(trees: Iterable[Killable]) -> None:
    """Kill these, again and again for three seconds, until nobody is left of them."""
    left = list(trees)
    deadline = time.monotonic() + KILL_S
    while left := [tree for tree in left if not tree.kill()]:
        if time.monotonic() > deadline:  # stuck in the kernel: not even SIGKILL ends it now
            return
        time.sleep(PAUSE_S)


atexit.register(kill_all)


def _forget_our_parents() -> None:
    """Leave the commands of the process that we are a copy of to it: it waits for them."""
    LIVE.clear()
    STARTING.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_our_parents)
