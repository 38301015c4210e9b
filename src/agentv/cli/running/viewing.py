"""`--view`: the viewer of a run as a program of its own, which outlives the run."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from agentv.types.events import RunEvent, RunStarted

_ENDS_WITHIN_S = 5.0


class RunViewer:
    """An observer that starts `agentv view` when the run begins, and prints its address as soon as it is known.

    The viewer does not share the run's time, and the signals of the terminal reach only the run.
    """

    event_types = (RunStarted,)
    needs_whole_rows = False

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def notify(self, event: RunEvent) -> None:
        """Start the viewer on a run that is stored."""
        if not isinstance(event, RunStarted) or event.folder is None or self._process is not None:
            return
        command = [sys.executable, "-m", "agentv", "view", event.folder]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)  # noqa: S603 - our own program
        threading.Thread(target=self._print_address, args=(self._process,), daemon=True).start()

    def close(self) -> None:
        """Do nothing: the viewer stays open until `wait_until_closed` returns."""

    def wait_until_closed(self) -> None:
        """Wait until the user presses Ctrl-C or the viewer ends; then end it. Return at once if it did not start."""
        if self._process is None or self._process.poll() is not None:
            return
        with _ended(self._process), suppress(KeyboardInterrupt):
            click.echo("The viewer is open until Ctrl-C.", err=True)
            self._process.wait()

    @staticmethod
    def _print_address(process: "subprocess.Popen[str]") -> None:
        for line in process.stdout or ():
            if "://" in line:
                click.echo(line.rstrip(), err=True)


@contextmanager
def _ended(process: "subprocess.Popen[str]") -> Iterator[None]:
    """End the process after the block."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_WITHIN_S)
