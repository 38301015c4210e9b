"""A clock of the time of day that never runs backwards."""

import time
from datetime import UTC, datetime

from agentv.types.protocols import Clock


def make_clock() -> Clock:
    """Return a clock that reads the time of day once and then follows a monotonic counter.

    Differences between its readings are durations, even if the machine's clock is set in between.
    """
    now, of = time.perf_counter, datetime.fromtimestamp
    zero_s = time.time() - now()
    return lambda: of(zero_s + now(), UTC)
