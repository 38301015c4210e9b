"""Signals: the first stops cleanly, the second leaves at once with no child alive."""

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from agentv.execution.live_trees import kill_all
from agentv.pipeline.ledger import Stop
from agentv.scoring.run_verdict import SIGNALLED

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a hang-up stop what goes on in the running event loop."""
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: object) -> None:
        if stop.state == "interrupted":
            try:
                kill_all()
            finally:
                os._exit(SIGNALLED + number)
        stop.state = "interrupted"
        loop.call_soon_threadsafe(stop.interrupt, signal.Signals(number).name, number)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
