"""Pin a helper process to a core of its own."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def core_of_its_own(pid: int) -> Iterator[None]:
    """Pin a process to one core, and this process and its children to the others, until the end of the block.

    By default Linux tends to schedule both ends of a connection on one core, where each waits for the other while
    another core is idle: the time of the server would be measured too. Does nothing on a machine with a single core,
    nor where the system does not support pinning (macOS, Windows).
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
