"""Rows and reports as files: `-o FILE`, format by suffix. A file appears whole or not at all."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TextIO

from agentv.reports.json_lines import ToRecord
from agentv.reports.printable import printable_json
from agentv.reports.report_json import report_text
from agentv.reports.yaml_text import yaml_item
from agentv.types.errors import ConfigError, StorageError
from agentv.types.events import RowFinished, RunEnded, RunEvent
from agentv.types.messages_json import compact_json
from agentv.types.results import CaseResult

STDOUT = "-"
"""Stands for standard output, which gets JSON lines."""


class Export:
    """An observer that writes rows as they finish into `FILE.part`, which becomes `FILE` when it is closed.

    A run that was interrupted leaves the rows that were finished. Raises StorageError when the disk refuses.
    """

    def __init__(self, path: Path, row_text: Callable[[CaseResult], str] | None) -> None:
        self.path = path
        self._row_text = row_text
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._file: TextIO = self._part.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from error

    def notify(self, event: RunEvent) -> None:
        """Write a row that has finished, or the report at the end."""
        try:
            if self._row_text is None:
                if isinstance(event, RunEnded):
                    self._file.write(report_text(event.report))
            elif isinstance(event, RowFinished):
                self._file.write(self._row_text(event.result))
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Put the file in its place."""
        try:
            self._file.close()
            self._part.replace(self.path)
        except OSError as error:
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error


class StreamExport:
    """An observer that writes rows to an open stream as they finish."""

    def __init__(self, stream: TextIO, row_text: Callable[[CaseResult], str]) -> None:
        self._stream = stream
        self._row_text = row_text

    def notify(self, event: RunEvent) -> None:
        """Write a row that has finished."""
        if isinstance(event, RowFinished):
            self._stream.write(printable_json(self._row_text(event.result)))

    def close(self) -> None:
        """Hand over what is written."""
        self._stream.flush()


def make_export(target: str, *, to_record: ToRecord, stdout: TextIO) -> Export | StreamExport:
    """Return the observer that writes `-o TARGET`: `.jsonl`, `.yaml`, `.yml`, `.json`, or `-` for standard output.

    Raises ConfigError, before anything runs, for a suffix that there is not and a place that cannot be written.
    """

    def json_line(result: CaseResult) -> str:
        return compact_json(to_record(result)) + "\n"

    def yaml_row(result: CaseResult) -> str:
        return yaml_item(to_record(result))

    if target == STDOUT:
        return StreamExport(stdout, json_line)
    formats: Mapping[str, Callable[[CaseResult], str] | None] = {
        ".jsonl": json_line,
        ".yaml": yaml_row,
        ".yml": yaml_row,
        ".json": None,
    }
    path = Path(target)
    if path.suffix not in formats:
        allowed = ", ".join(formats)
        raise ConfigError(f"cannot tell the format of {target!r}; a file for -o ends in one of {allowed}, or is -")
    return Export(path, formats[path.suffix])
