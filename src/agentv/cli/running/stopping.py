"""Signal handling: the first signal stops cleanly, the second kills all children and exits at once."""

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
def stopping_on_signals(
    stop: StopSignal, *, cleanup: Callable[[], None] = lambda: None, first: Callable[[], None] | None = None
) -> Iterator[None]:
    """Make the first SIGINT, SIGTERM or SIGHUP interrupt `stop` in the running event loop.

    The second one kills all children, calls `cleanup` and exits at once. `cleanup` may only do what a signal handler
    may. With `first`, there is one more signal before these, which only calls it in the event loop. In forked
    processes, signals do what they did before.
    """
    loop = asyncio.get_running_loop()
    process = os.getpid()
    calls = [] if first is None else [first]

    def on_signal(number: int, _frame: object) -> None:
        if os.getpid() != process:  # a process that user code forked: the signal does there what it did before
            signal.signal(number, before[signal.Signals(number)])
            os.kill(os.getpid(), number)
            return
        if calls:
            loop.call_soon_threadsafe(calls.pop())
            return
        if stop.state == "interrupted":
            try:
                kill_all()
                cleanup()
            finally:
                os._exit(SIGNALLED + number)
        stop.state = "interrupted"  # now, as the next signal may come before the event loop calls `interrupt`
        loop.call_soon_threadsafe(stop.interrupt, signal.Signals(number).name, number)

    before = {number: signal.signal(number, on_signal) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def show_cursor(descriptor: int) -> None:
    """Show the cursor of a terminal again and start a new line, without locking or raising."""
    with suppress(OSError):
        os.write(descriptor, b"\x1b[?25h\n")
