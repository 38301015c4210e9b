"""The log of one agent call: a file that is written while the agent runs."""

import os
import re
import secrets
from datetime import datetime
from pathlib import Path
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["summary", "json"]

MAX_LOG_BYTES = 64 * 2**20
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_NAME = 60


class AgentLog:
    """Writes lines as they arrive: readable lines (`summary`) or the raw events (`json`).

    Only the current user can read the file. If it cannot be written, logging stops, since it must not cost an answer,
    and `problem` holds the reason. Without a path nothing is written.
    """

    def __init__(self, path: Path | None, log_format: LogFormat = "summary") -> None:
        self.paths: tuple[str, ...] = ()
        self.problem: str | None = None
        self._format = log_format
        self._left = MAX_LOG_BYTES
        self._descriptor: int | None = None
        if path is None:
            return
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            self.problem = f"no log can be written to {path.parent}: {error.strerror}"
        else:
            self.paths = (str(path),)

    def raw(self, line: str) -> None:
        """Write a raw line of the agent's output."""
        if self._format == "json":
            self._write(line)

    def line(self, at: str, text: str) -> None:
        """Write a readable line; `at` is ISO 8601."""
        if self._format == "summary":
            self._write(f"{at[11:19]} {text}")

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, line: str) -> None:
        if self._descriptor is None or self.problem is not None:
            return
        content = f"{line}\n".encode(errors="replace")
        self._left -= len(content)
        try:
            if self._left < 0:
                self.problem = f"the log ends at {MAX_LOG_BYTES / 2**20:g} MiB: {self.paths[0]}"
            else:
                os.write(self._descriptor, content)
        except OSError as error:
            self.problem = f"the log cannot be written: {error.strerror}: {self.paths[0]}"


def log_path(folder: Path, case_id: str, log_format: LogFormat, *, now: datetime) -> Path:
    """Return the path of a new log, named after the time and the case."""
    case = _UNSAFE.sub("-", case_id)[:_NAME] or "case"
    suffix = "jsonl" if log_format == "json" else "log"
    return folder / f"{now:%Y%m%dT%H%M%SZ}-{case}-{secrets.token_hex(4)}.{suffix}"
