"""Write results and reports to files: `-o FILE`, in the format of its suffix. A file is written whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentv.registry import Registry, ReportSpec
from agentv.reports import REPORTS, STDOUT, format_named
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.text.printable import escape_commands, printable, printable_json
from agentv.types.errors import ConfigError, StorageError
from agentv.types.events import RunEvent


class Export:
    """An observer that writes `text_of(event)` for each event to a part file, renamed to `path` when it is closed.

    The file of an interrupted run has the finished results. If no event had a text, `empty` is written; if that is
    None, or if there was no event at all, an existing file stays unchanged. Raises ConfigError if the file cannot be
    opened, StorageError if it cannot be written.
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
        """Write the text of an event."""
        self._has_begun = True
        text = self._text_of(event)
        if text:
            self._has_text = True
            with self._cleaning_up():
                self._file.write(text)

    def close(self) -> None:
        """Move the part file into place, or discard it if there is nothing to write."""
        with self._cleaning_up():
            if self._has_begun and not self._has_text and self._empty:
                self._file.write(self._empty)
            self._file.close()
            if self._has_begun and (self._has_text or self._empty is not None):
                self._part.replace(self.path)
            else:
                self._part.unlink()

    def abandon(self) -> None:
        """Discard the part file and leave an existing file unchanged."""
        self._file.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

    @contextmanager
    def _cleaning_up(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)
            raise StorageError(f"cannot write {self.path}: {error.strerror}") from error


class StreamExport:
    """An observer that writes `text_of(event)` to an open stream, made safe to print."""

    def __init__(
        self, stream: TextIO, text_of: Callable[[RunEvent], str], *, make_safe: Callable[[str], str] = printable_json
    ) -> None:
        self._stream = stream
        self._text_of = text_of
        self._make_safe = make_safe

    def notify(self, event: RunEvent) -> None:
        """Write the text of an event."""
        self._stream.write(self._make_safe(self._text_of(event)))

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()

    def abandon(self) -> None:
        """Flush the stream; written text cannot be taken back."""
        self._stream.flush()


def make_export(
    destination: str,
    *,
    tools: ReportTools,
    stdout: TextIO,
    formats: Registry[ReportSpec] = REPORTS,
    stdout_format: str = "jsonl",
    is_parsed: bool = False,
) -> Export | StreamExport:
    """Return the observer that writes `destination`, a value of `-o`: a file in the format of its suffix, or `stdout`.

    `formats` are the available formats, `stdout_format` is that of `stdout`. `is_parsed` is True if a CI runner parses
    the output for commands. Raises ConfigError for an unknown suffix or a file that cannot be written, UnknownNameError
    for an unknown `stdout_format`.
    """
    if destination == STDOUT:
        spec = formats.get(stdout_format)
        text_of = spec.load_factory()(tools).text_of
        return StreamExport(stdout, text_of, make_safe=_escaping_of(spec.name, is_parsed=is_parsed))
    path = Path(destination)
    named = format_named(path.name, formats)
    if named is None:
        *suffixes, last = (f".{name}" for each in formats for name in (each.name, *each.aliases))
        known = f"{', '.join(suffixes)} or {last}"
        raise ConfigError(f"-o {destination}: unknown format; the file name must end in {known}, or be -")
    format_: Format = named.load_factory()(tools)
    return Export(path, format_.text_of, empty=format_.empty)


def _escaping_of(name: str, *, is_parsed: bool) -> Callable[[str], str]:
    """Return the function that makes the text of a format safe to print; in parsed output, commands are escaped."""
    if name in ("jsonl", "json", "sarif"):
        return printable_json
    return _escaped_lines if is_parsed and name != "github" else printable


def _escaped_lines(text: str) -> str:
    return "\n".join(map(escape_commands, printable(text).split("\n")))
