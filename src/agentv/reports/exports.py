"""Rows and reports as files: `-o FILE`, format by suffix. A file appears whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentv.registry import Registry
from agentv.reports.formats import REPORTS, Format, ReadRows, ReportTools, format_named, make_json_lines
from agentv.reports.json_lines import ToRecord
from agentv.reports.printable import printable_json
from agentv.types.errors import ConfigError, StorageError
from agentv.types.events import RunEvent

STDOUT = "-"
"""Stands for standard output, which gets JSON lines."""


class Export:
    """An observer that writes what `text_of` makes of events beside `path`, and puts it there when it is closed.

    A run that was interrupted leaves the rows that were finished; `empty` stands for a run without any, None leaves
    no file then. Raises StorageError when the disk refuses.
    """

    def __init__(self, path: Path, text_of: Callable[[RunEvent], str], *, empty: str | None = "") -> None:
        self.path = path
        self._text_of = text_of
        self._empty = empty
        self._has_text = False
        self._has_begun = False
        self._part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            self._file: TextIO = self._part.open("w", encoding="utf-8", errors="replace")
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror}") from error

    def notify(self, event: RunEvent) -> None:
        """Write what there is to say of an event."""
        self._has_begun = True
        text = self._text_of(event)
        if text:
            self._has_text = True
            with self._disk():
                self._file.write(text)

    def close(self) -> None:
        """Put the file in its place; a run that never began leaves what stood there."""
        with self._disk():
            if self._has_begun and not self._has_text and self._empty:
                self._file.write(self._empty)
            self._file.close()
            if self._has_begun and (self._has_text or self._empty is not None):
                self._part.replace(self.path)
            else:
                self._part.unlink()

    @contextmanager
    def _disk(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error


class StreamExport:
    """An observer that writes rows to an open stream as they finish, safe to look at."""

    def __init__(self, stream: TextIO, text_of: Callable[[RunEvent], str]) -> None:
        self._stream = stream
        self._text_of = text_of

    def notify(self, event: RunEvent) -> None:
        """Write what there is to say of an event."""
        self._stream.write(printable_json(self._text_of(event)))

    def close(self) -> None:
        """Hand over what is written."""
        self._stream.flush()


def make_export(
    target: str,
    *,
    to_record: ToRecord,
    stdout: TextIO,
    formats: Registry = REPORTS,
    rows: ReadRows = lambda report: report.results,
) -> Export | StreamExport:
    """Return the observer that writes `-o TARGET` in the format its name ends in, or JSON lines to standard output.

    `formats` are those there are, `rows` reads a run's rows for those that want all of them at the end. Raises
    ConfigError, before anything runs, for an end that there is not and a place that cannot be written.
    """
    tools = ReportTools(to_record, rows)
    if target == STDOUT:
        return StreamExport(stdout, make_json_lines(tools).text_of)
    path = Path(target)
    spec = format_named(path.name, formats)
    if spec is None:
        *ends, last = (f".{name}" for each in formats for name in (each.name, *each.aliases))
        known = f"{', '.join(ends)} or {last}"
        raise ConfigError(f"cannot tell the format of {target!r}; a file for -o ends in {known}, or is -")
    made: Format = spec.load_factory()(tools)
    return Export(path, made.text_of, empty=made.empty)
