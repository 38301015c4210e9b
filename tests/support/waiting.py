"""Waiting for what another process does soon."""

import time
from collections.abc import Callable

PATIENCE_S = 30.0


def until(is_so: Callable[[], object]) -> bool:
    """Return True as soon as a condition holds, False if it does not within half a minute."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
