"""A small process that ends the commands of this one if it is killed, when nothing in it can do so any more.

It is started before the first command, and reads from a pipe which commands run. The pipe closes when this process
ends, in whatever way; what then still runs is ended, and temporary folders are removed (left_behind.py). A signal to
commands on the death of their parent would not do: it follows the thread that started them.
"""

import os
import subprocess
import sys
import threading
from contextlib import suppress

from agentv.execution.processes.live_trees import LIVE, PROCESS_MARK


class Watcher:
    """This process's end of the pipe. If the watcher cannot be started, or dies, commands run without it."""

    def __init__(self) -> None:
        self._pipe: int | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the watcher unless it runs."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                return
            self._close()
            with suppress(OSError):
                self._start()

    def add(self, pid: int) -> None:
        """Report the start of a command."""
        self._write(f"+{pid}")

    def remove(self, pid: int) -> None:
        """Report the end of a command, whose pid may be reused from then on."""
        self._write(f"-{pid}")

    def forget(self) -> None:
        """Close a fork's copy of the pipe, which would hide the death of its parent."""
        self._lock = threading.Lock()
        self._close()
        self._process = None

    def _start(self) -> None:
        reading, self._pipe = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - ours
                (sys.executable, "-I", "-m", "agentv.execution.processes.watcher_process", PROCESS_MARK),
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,
            )
        except OSError:
            self._close()
            raise
        finally:
            os.close(reading)
        for pid in tuple(LIVE):
            self._write(f"+{pid}")

    def _write(self, line: str) -> None:
        if self._pipe is not None:
            with suppress(OSError):  # the watcher died
                os.write(self._pipe, f"{line}\n".encode())

    def _close(self) -> None:
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            with suppress(OSError):
                os.close(pipe)


WATCHER = Watcher()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WATCHER.forget)
