"""Which cores processes run on: what plays the other side has one of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def core_of_its_own(pid: int) -> Iterator[None]:
    """Keep a process on one core, and this one with all that it starts off it, until the end of the block.

    Left to itself, Linux likes to put both ends of a connection on one core, where each waits for the other while
    the next core has nothing to do: then a harness is measured by what its server takes. Nothing happens on a machine
    with a single core, nor where the system cannot be asked for this (macOS, Windows).
    """
    if sys.platform != "linux":
        yield
        return
    ours = os.sched_getaffinity(0)
    its_own = {max(ours)}
    if ours == its_own:
        yield
        return
    os.sched_setaffinity(pid, its_own)
    os.sched_setaffinity(0, ours - its_own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)
