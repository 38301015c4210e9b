"""Commands that misbehave, and a check for processes that they leave behind."""

import os
import sys
import uuid
from pathlib import Path

import psutil

AGENT = Path(__file__).parents[1] / "fixtures" / "hostile_agent.py"


def hostile(mode: str, *arguments: str) -> tuple[str, ...]:
    """Return the argument list of a command that misbehaves in the way of `mode`."""
    return (sys.executable, "-S", "-E", str(AGENT), mode, *arguments)


class Family:
    """All processes that were started with `env` in their environment, including detached ones."""

    def __init__(self) -> None:
        self.env = {"HOSTILE_FAMILY": uuid.uuid4().hex}

    def alive(self) -> list[psutil.Process]:
        """Return those that are still running."""
        return [process for process in psutil.process_iter() if self._is_member(process)]

    def end(self) -> None:
        """Kill them all."""
        for process in self.alive():
            process.kill()

    def _is_member(self, process: psutil.Process) -> bool:
        try:
            environment = process.environ()
            is_running = process.status() != psutil.STATUS_ZOMBIE and process.pid != os.getpid()
        except psutil.Error:
            return False
        return is_running and environment.items() >= self.env.items()
