"""Programs that are started and left alone: an editor goes on when we are done with it.

`run_process` is for everything else. It ends the whole family of a command, and with it an editor that the command
has just opened.
"""

import os
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path


class Launched:
    """A program that was started. `exit_code` is None as long as it runs; -N when signal N ended it."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.exit_code: int | None = None
        self._process = process
        threading.Thread(target=self._wait, daemon=True, name="agentv-launched").start()

    def _wait(self) -> None:
        self.exit_code = self._process.wait()


def launch(argv: Sequence[str], *, cwd: Path, log: Path, env: Mapping[str, str] | None = None) -> Launched:
    """Start a program in a session of its own; what it prints is added to `log`. Raises OSError when it cannot be."""
    with log.open("ab") as output:
        process = subprocess.Popen(  # noqa: S603 - running what the user wrote is the job
            list(argv),
            cwd=cwd,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return Launched(process)
