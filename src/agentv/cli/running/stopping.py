"""Signals: the first stops cleanly, the second leaves at once with no child alive."""

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from agentv.engine.running.recorder import StopSignal
from agentv.execution.processes.live_trees import kill_all
from agentv.scoring.gates.run_verdict import SIGNALLED

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def stopping_on_signals(stop: StopSignal, *, leave: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and a hang-up stop what goes on in the running event loop.

    `leave` is called before the process ends at once; it may only do what a signal handler may.
    """
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: object) -> None:
        if stop.state == "interrupted":
            try:
                kill_all()
                leave()
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


def show_cursor(descriptor: int) -> None:
    """Give a terminal its cursor back, and a fresh line; waits for no lock and raises nothing."""
    with suppress(OSError):
        os.write(descriptor, b"\x1b[?25h\n")
