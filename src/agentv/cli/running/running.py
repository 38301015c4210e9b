"""Run a plan with its display and exports, stop cleanly on a signal, and print the report at the end."""

import os
import random
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TextIO, TypeAlias

import click
from msgspec import Struct

from agentv.cli.main import exit_code_after_write_error
from agentv.cli.options import OutputOptions
from agentv.cli.running.stopping import show_cursor, stopping_on_signals
from agentv.cli.terminal import broken_pipe_error, command_stream, terminal_columns
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.runs.run import connect_to_cluster, run_plan
from agentv.execution.loops import run_in_own_loop
from agentv.loading.files.places import find_home
from agentv.registry import Registry, ReportSpec
from agentv.reports import REPORTS, STDOUT
from agentv.reports.progress.observers import choose_display, make_observer
from agentv.reports.run.end_table import end_report
from agentv.reports.run.row_text import RowLabels
from agentv.reports.text.printable import escape_commands, is_github, printable, runner_parses_log
from agentv.reports.text.signs import UNICODE, choose_paint, signs_for
from agentv.storage.records.encode import export_record
from agentv.types.errors import ConfigError
from agentv.types.events import Observer, RunEvent
from agentv.types.protocols import Clock, QuotaService, ResultStore
from agentv.types.results import RunReport

if TYPE_CHECKING:
    from agentv.engine.stored.resume import ResumePlan


def end_text(
    report: RunReport,
    plan: RunPlan,
    files: Sequence[str],
    output: OutputOptions,
    stdout: TextIO,
    *,
    shown_notes: Collection[str] = (),
) -> str:
    """Return the report at the end of a run, laid out for the terminal if the display is live, else as plain lines.

    `files` are the written exports, `shown_notes` the notes that the display has printed.
    """
    stream = output.stream(stdout)
    is_terminal = stream.isatty()
    is_live = is_terminal and choose_display(output.display, is_terminal=is_terminal, env=os.environ) == "live"
    text = end_report(
        report,
        width=terminal_columns() if is_live else None,
        unicode=signs_for(stream.encoding) is UNICODE,
        paint=choose_paint(is_terminal=is_live, env=os.environ),
        files=files,
        labels=RowLabels(with_suite=len(plan.suites) > 1, with_target=len(plan.targets) > 1),
        is_full=output.verbose,
        shown_notes=shown_notes,
    )
    return "".join(map(escape_commands, text.splitlines(keepends=True))) if runner_parses_log(os.environ) else text


class CheckedOutput(Struct):
    """An observer with its first error, which is reported after the run."""

    name: str
    """The name of the output in messages."""
    observer: Observer
    destination: str | None = None
    """The value of `-o`; None for other outputs."""
    error: OSError | None = None

    @property
    def event_types(self) -> object:
        """The types of events that the observer takes; None for all except `LogLine`."""
        return getattr(self.observer, "event_types", None)

    @property
    def shown_notes(self) -> Collection[str]:
        """The notes that a display has printed."""
        return getattr(self.observer, "shown_notes", ())

    @property
    def needs_whole_rows(self) -> bool:
        """False if the observer declares that it does not use the large fields of finished rows."""
        return getattr(self.observer, "needs_whole_rows", True)

    def notify(self, event: RunEvent) -> None:
        """Forward one event. An OSError is stored and raised."""
        try:
            self.observer.notify(event)
        except OSError as error:
            self.error = self.error or error
            raise

    def close(self) -> None:
        """Close the observer; an OSError is stored and not raised."""
        try:
            self.observer.close()
        except OSError as error:
            self.error = self.error or error


@contextmanager
def open_outputs(
    output: OutputOptions, stdout: TextIO, clock: Clock, *, formats: Registry[ReportSpec] = REPORTS
) -> Iterator[Sequence[CheckedOutput]]:
    """Yield the observers of a run, the display first. At the end, close all, the display last.

    `formats` are the available export formats. Raises ConfigError, before the `with` block, for an output that has an
    unknown format or cannot be written. Closing does not raise an OSError.
    """
    opened: list[CheckedOutput] = []
    try:
        # If an output cannot be opened, `opened` has those before it, which are then closed.
        opened.extend(_open_observers(output, stdout, clock, formats))
        yield opened
    finally:
        for checked in reversed(opened):
            checked.close()


def _open_observers(
    output: OutputOptions, stdout: TextIO, clock: Clock, formats: Registry[ReportSpec]
) -> Iterator[CheckedOutput]:
    stream = output.stream(stdout)
    # On GitHub, plain progress writes `::error` commands and itself escapes commands in all its other lines.
    stream = command_stream(stream) if is_github(os.environ) else stream
    to_record = partial(export_record, include_trace=output.include_trace)
    display = make_observer(
        output.display, stream, is_terminal=stream.isatty(), env=os.environ, clock=clock, to_record=to_record
    )
    yield CheckedOutput("the screen", display)
    if output.verbose:
        from agentv.reports.progress.progress import VerboseLines

        # The live display replaces sys.stderr while it is active.
        width = terminal_columns() - 1 if sys.stderr.isatty() else None
        yield CheckedOutput("-v", VerboseLines(lambda: sys.stderr, width=width))
    if output.log_file is not None:
        from agentv.reports.progress.json_lines import JsonLinesFile

        path = output.folder / output.log_file
        try:
            log = JsonLinesFile(path, to_record=to_record)
        except OSError as error:
            raise ConfigError(f"--log-file {path}: cannot be written: {error.strerror}") from error
        yield CheckedOutput(f"--log-file {output.log_file}", log)
    if output.view:
        from agentv.cli.running.viewing import RunViewer

        yield CheckedOutput("--view", RunViewer())
    if output.sending.given:
        from agentv.cli.running.sending import make_exports

        for sending in make_exports(output.sending, find_home(output.folder)):
            yield CheckedOutput(f"the export to {sending.destination.title}", sending)
    if output.dump_traces:
        from agentv.reports.progress.trace_files import TraceFiles

        yield CheckedOutput("--dump-traces", TraceFiles(find_home(output.folder) / "traces"))
    if not output.outputs:
        return
    from agentv.engine.stored.report_tools import report_tools
    from agentv.reports.run.exports import make_export as make_report

    for destination in output.outputs:
        place = destination if destination == STDOUT else str(output.folder / destination)
        tools = report_tools(include_trace=output.include_trace)
        is_parsed = runner_parses_log(os.environ)
        export = make_report(place, tools=tools, stdout=command_stream(stdout), formats=formats, is_parsed=is_parsed)
        yield CheckedOutput(f"-o {destination}", export, destination)


def write_error_messages(observers: Sequence[CheckedOutput], stdout: TextIO) -> Iterator[str]:
    """Yield a message for each output that could not be written.

    A closed pipe is an error for an export to standard output; for the display it is not.
    """
    for checked in observers:
        broken_pipe = broken_pipe_error(stdout) if checked.destination == STDOUT else None
        error = checked.error or broken_pipe
        if error is not None:
            cause = error.__cause__ if isinstance(error.__cause__, OSError) else error
            yield f"{checked.name}: cannot be written: {cause.strerror or cause}"


OpenStore: TypeAlias = "Callable[[Clock], tuple[ResultStore, ResumePlan | None]]"
"""Opens the store of a run; returns it with the resume plan, which is None for a new run."""


def run_and_report(
    plan: RunPlan, output: OutputOptions, stdout: TextIO, open_store: OpenStore, *, quota: QuotaService | None = None
) -> int:
    """Run the plan, print the report and an error for each output that could not be written; return the exit code."""
    clock = make_clock()
    rng = random.Random(plan.options.seed)  # noqa: S311 - jitter of retries, not security
    # Outputs that cannot be written are refused before the run folder is created.
    with open_outputs(output, stdout, clock, formats=plan.specs.reports) as observers:
        report = run_in_own_loop(
            _run_with_signals(
                plan,
                open_store=open_store,
                observers=observers,
                clock=clock,
                rng=rng,
                quota=quota,
                cleanup=_terminal_cleanup(stdout),
            )
        )
    if output.display not in ("json", "none"):
        exports = [each for each in observers if each.destination not in (None, STDOUT)]
        written = [str(each.destination) for each in exports if not each.error]
        notes = observers[0].shown_notes
        text = end_text(report, plan=plan, files=written, output=output, stdout=stdout, shown_notes=notes)
        click.echo(text, file=output.stream(stdout), nl=False)
    elif output.display == "none" and output.has_verdict:
        click.echo(f"{printable(report.verdict.sentence)} Exit code {report.exit_code}.", err=True)
    print_sent(output, observers)
    code = report.exit_code
    for message in write_error_messages(observers, stdout):
        code = exit_code_after_write_error(code, message)
    if output.view:
        _wait_for_viewer(observers)
    return code


def print_sent(output: OutputOptions, observers: Sequence[CheckedOutput]) -> None:
    """Print what `--otel` and `--export` have sent, if they were given."""
    if output.sending.given:
        from agentv.cli.running.sending import print_exports

        print_exports(checked.observer for checked in observers)


def _wait_for_viewer(observers: Sequence[CheckedOutput]) -> None:
    from agentv.cli.running.viewing import RunViewer

    for checked in observers:
        if isinstance(checked.observer, RunViewer):
            checked.observer.wait_until_closed()


def _terminal_cleanup(stdout: TextIO) -> Callable[[], None]:
    """Return a function that restores the terminal when a second signal ends the process."""
    return partial(show_cursor, stdout.fileno()) if stdout.isatty() else lambda: None


async def _run_with_signals(
    plan: RunPlan,
    open_store: OpenStore,
    observers: Sequence[Observer],
    clock: Clock,
    rng: random.Random,
    *,
    quota: QuotaService | None,
    cleanup: Callable[[], None],
) -> RunReport:
    """Run the plan and return its report; the signal handling is that of `stopping_on_signals`."""
    stop = StopSignal()
    async with connect_to_cluster(plan):
        store, resume_plan = open_store(clock)
        with stopping_on_signals(stop, cleanup=cleanup):
            return await run_plan(
                plan,
                store=store,
                observers=observers,
                clock=clock,
                rng=rng,
                stop=stop,
                resume_plan=resume_plan,
                quota=quota,
            )
