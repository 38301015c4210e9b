"""Ctrl-C while a run is prepared."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from threading import current_thread, main_thread

from agentv.cli.main import EXIT_INTERRUPTED


@contextmanager
def leaving_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once: nothing is asked, nothing is kept yet, and imports must not be broken off.

    Who ignores Ctrl-C or has a handler of his own keeps that.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
