"""Where a run is shown and written besides its folder: the screen, `-v`, the log file, exports."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TextIO

from msgspec import Struct

from agentv.cli.screen_options import Screen
from agentv.cli.streams import reader_is_gone
from agentv.registry import Registry
from agentv.reports import REPORTS, STDOUT
from agentv.reports.observers import make_observer
from agentv.storage.records.export import export_record
from agentv.types.events import Observer, RunEvent
from agentv.types.protocols import Clock


class Watched(Struct):
    """An observer whose first error is kept, for whoever closes it. `target` is what an export was asked for by."""

    name: str
    observer: Observer
    target: str | None = None
    error: OSError | None = None

    def notify(self, event: RunEvent) -> None:
        """Hand on one event."""
        try:
            self.observer.notify(event)
        except OSError as error:
            self.error = self.error or error
            raise

    def close(self) -> None:
        """Close the observer; what that raises is kept."""
        try:
            self.observer.close()
        except OSError as error:
            self.error = self.error or error


@contextmanager
def open_outputs(
    screen: Screen, stdout: TextIO, clock: Clock, *, formats: Registry = REPORTS
) -> Iterator[Sequence[Watched]]:
    """Yield the observers of a run, the screen first; all are closed at the end, the screen last, without raising.

    `formats` are those that files may be written in.

    Raises ConfigError, before anything runs, for what cannot be written.
    """
    opened: list[Watched] = []
    try:
        opened.extend(_open(screen, stdout, clock, formats))
        yield opened
    finally:
        for watched in reversed(opened):
            watched.close()


def _open(screen: Screen, stdout: TextIO, clock: Clock, formats: Registry) -> Iterator[Watched]:
    stream = screen.stream(stdout)
    to_record = partial(export_record, include_trace=screen.include_trace)
    shown = make_observer(
        screen.display, stream, is_terminal=stream.isatty(), env=os.environ, clock=clock, to_record=to_record
    )
    yield Watched("the screen", shown)
    if screen.verbose:
        from agentv.reports.verbose import VerboseLines

        # The live block takes standard error's place while it is shown.
        yield Watched("-v", VerboseLines(lambda: sys.stderr))
    if screen.log_file is not None:
        from agentv.cli.log_file import LogFile

        log = LogFile(screen.folder / screen.log_file, to_record=to_record)
        yield Watched(f"--log-file {screen.log_file}", log)
    if not screen.outputs:
        return
    from agentv.cli.report_tools import report_tools
    from agentv.reports.exports import make_export

    for target in screen.outputs:
        place = target if target == STDOUT else str(screen.folder / target)
        tools = report_tools(include_trace=screen.include_trace)
        yield Watched(f"-o {target}", make_export(place, tools=tools, stdout=stdout, formats=formats), target)


def losses(observers: Sequence[Watched], stdout: TextIO) -> Iterator[str]:
    """Yield a sentence for each thing that was asked for and could not be written.

    A screen that nobody reads any more is no loss; an export to standard output is.
    """
    for watched in observers:
        gone = reader_is_gone(stdout) if watched.target == STDOUT else None
        error = watched.error or gone
        if error is not None:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            yield f"{watched.name}: cannot be written: {cause.strerror or cause}"
