"""What `--otel` and `--export` do for a command that makes results.

The results are sent while it runs, and its end says what was sent.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from agentv.cli.options import SendingOptions
from agentv.engine.stored.destinations import collector_destination, service_destination
from agentv.engine.stored.sending import BackgroundExport, ExportReport
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import printable
from agentv.telemetry.sending.destination import Destination
from agentv.types.errors import StorageError


def destinations(options: SendingOptions) -> Iterator[Destination[Any]]:
    """Yield where results are sent. Raises ConfigError for a destination that cannot be used."""
    if options.otel is not None:
        yield collector_destination(options.otel.url, with_content=options.otel.with_content)
    if options.service is not None:
        yield service_destination(options.service.name, with_reasons=options.service.with_reasons)


def make_exports(options: SendingOptions, home: Path) -> list[BackgroundExport]:
    """Return the observers that send a run's results. Raises ConfigError for a destination that cannot be used."""
    return [BackgroundExport(home, destination) for destination in destinations(options)]


def print_exports(observers: Iterable[object]) -> None:
    """Print to standard error what the exports among closed observers have sent; the run has its exit code already."""
    for observer in observers:
        if not isinstance(observer, BackgroundExport):
            continue
        try:
            report = observer.report()
        except (StorageError, OSError) as error:
            name = observer.destination.name
            click.echo(printable(f"{name}: cannot count the unsent results: {error}"), err=True)
            continue
        if report is not None:
            click.echo(export_text(report), err=True)


def export_text(report: ExportReport) -> str:
    """Return what was sent, what was not, why, and how to send the rest."""
    to = report.destination
    counts = f"{count_text(report.sent, 'result')} sent to {to.shown}"
    if report.unsent:
        counts += f", {report.unsent:,} unsent"
    elif not (report.sent or report.omitted or report.dropped):
        counts = f"nothing more to send to {to.shown}"
    notes = [f"{count_text(report.dropped, to.record)} dropped by {to.title}"] if report.dropped else []
    notes += [report.reason] if report.reason else []
    notes += [f"{count:,} not sent: {why}" for why, count in report.omitted.items()]
    notes += [f"traces only: it takes no logs ({report.left_out})"] if report.left_out else []
    because = f" ({'; '.join(notes)})" if notes else ""
    later = "send them later" if report.unsent else "send all again" if report.dropped else ""
    return f"{to.name}: {printable(counts + because)}" + (f"\n      {later}: {report.command}" if later else "")
