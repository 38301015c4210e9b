"""The time of day, from a clock that never runs backwards."""

import time
from datetime import UTC, datetime

from agentv.types.protocols import Clock


def make_clock() -> Clock:
    """Return a clock that reads the time of day once and then follows a monotonic counter.

    Differences of its readings are durations, whatever is done to the machine's clock in between.
    """
    now, of = time.perf_counter, datetime.fromtimestamp
    zero_s = time.time() - now()
    return lambda: of(zero_s + now(), UTC)
