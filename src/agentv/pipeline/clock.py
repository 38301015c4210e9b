"""The time of day, from a clock that never runs backwards."""

import time
from datetime import UTC, datetime, timedelta

from agentv.types.protocols import Clock


def make_clock() -> Clock:
    """Return a clock that reads the time of day once and then follows a monotonic counter.

    Differences of its readings are durations, whatever is done to the machine's clock in between.
    """
    begin = datetime.now(UTC)
    zero = time.perf_counter()
    return lambda: begin + timedelta(seconds=time.perf_counter() - zero)
