"""Rows and reports as files: `-o FILE`, format by suffix. A file appears whole or not at all."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from agentv.registry import Registry
from agentv.reports import REPORTS, STDOUT, format_named
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.github import harmless
from agentv.reports.text.printable import printable, printable_json
from agentv.types.errors import ConfigError, StorageError
from agentv.types.events import RunEvent


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

    def abandon(self) -> None:
        """Leave what stood at the place before."""
        self._file.close()
        with suppress(OSError):
            self._part.unlink(missing_ok=True)

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

    def __init__(
        self, stream: TextIO, text_of: Callable[[RunEvent], str], *, make_safe: Callable[[str], str] = printable_json
    ) -> None:
        self._stream = stream
        self._text_of = text_of
        self._make_safe = make_safe

    def notify(self, event: RunEvent) -> None:
        """Write what there is to say of an event."""
        self._stream.write(self._make_safe(self._text_of(event)))

    def close(self) -> None:
        """Hand over what is written."""
        self._stream.flush()

    def abandon(self) -> None:
        """Hand over what is written; nothing of it can be taken back."""
        self._stream.flush()


def make_export(
    target: str,
    *,
    tools: ReportTools,
    stdout: TextIO,
    formats: Registry = REPORTS,
    stdout_format: str = "jsonl",
    in_log: bool = False,
) -> Export | StreamExport:
    """Return the observer that writes `-o TARGET` in the format its name ends in, or `stdout_format` to `stdout`.

    `formats` are those there are. `in_log` says that what is printed may end in a log of GitHub Actions. Raises
    ConfigError, before anything runs, for an end that there is not and a place that cannot be written,
    UnknownNameError for a `stdout_format` that there is not.
    """
    if target == STDOUT:
        shown = formats.get(stdout_format)
        return StreamExport(
            stdout, shown.load_factory()(tools).text_of, make_safe=_make_safe(shown.name, in_log=in_log)
        )
    path = Path(target)
    spec = format_named(path.name, formats)
    if spec is None:
        *ends, last = (f".{name}" for each in formats for name in (each.name, *each.aliases))
        known = f"{', '.join(ends)} or {last}"
        raise ConfigError(f"cannot tell the format of {target!r}; a file for -o ends in {known}, or is -")
    made: Format = spec.load_factory()(tools)
    return Export(path, made.text_of, empty=made.empty)


def _make_safe(name: str, *, in_log: bool) -> Callable[[str], str]:
    """Return what makes the text of a format safe to print; in a log no line of it may be taken for a command."""
    if name in ("jsonl", "json", "sarif"):
        return printable_json
    return _harmless_lines if in_log and name != "github" else printable


def _harmless_lines(text: str) -> str:
    return "\n".join(map(harmless, printable(text).split("\n")))
