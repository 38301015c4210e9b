"""A wall clock that never runs backwards."""

import time
from datetime import UTC, datetime

from agentv.types.protocols import Clock


def make_clock() -> Clock:
    """Return a clock that reads the time of day once and then follows a monotonic counter.

    Differences between its readings are durations, even if the machine's clock is set in between.
    """
    counter_s, from_timestamp = time.perf_counter, datetime.fromtimestamp
    offset_s = time.time() - counter_s()
    return lambda: from_timestamp(offset_s + counter_s(), UTC)
