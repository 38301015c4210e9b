"""The time of day, from a clock that never runs backwards."""

import time
from datetime import UTC, datetime, timedelta

from agentv.types.protocols import Clock


def make_clock() -> Clock:
    """Return a clock that reads the time of day once and then follows a monotonic counter.

    Differences of its readings are durations, whatever is done to the machine's clock in between.
    """
    begin = datetime.now(UTC)
    now = time.perf_counter
    zero = now()
    return lambda: begin + timedelta(0, now() - zero)
