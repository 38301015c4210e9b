"""What `--otel` does for a command that makes results: send them while it runs, and say at its end what was sent."""

import os
from collections.abc import Iterable
from pathlib import Path

import click

from agentv.cli.options import OtelOptions
from agentv.engine.stored.otel import BackgroundExport, ExportReport
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import printable
from agentv.telemetry.collector import find_collector
from agentv.types.errors import StorageError


def make_export(options: OtelOptions, home: Path) -> BackgroundExport:
    """Return the observer that sends a run's results. Raises ConfigError for a collector that cannot be used."""
    return BackgroundExport(
        home, find_collector(options.url, os.environ), with_content=options.with_content, env=os.environ
    )


def print_exports(observers: Iterable[object]) -> None:
    """Print to standard error what the exports among closed observers have sent; the run has its exit code already."""
    for observer in observers:
        try:
            report = observer.report() if isinstance(observer, BackgroundExport) else None
        except (StorageError, OSError) as error:
            click.echo(printable(f"otel: what is unsent cannot be counted: {error}"), err=True)
            continue
        if report is not None:
            click.echo(export_text(report), err=True)


def export_text(report: ExportReport) -> str:
    """Return what was sent, what was not, why, and how to send the rest."""
    counts = f"{count_text(report.sent, 'result')} sent to {report.collector.shown}"
    if report.unsent:
        counts += f", {report.unsent:,} unsent"
    elif not report.sent:
        counts = f"nothing to send to {report.collector.shown}: it has all results"
    notes = [f"{count_text(report.rejected, 'record')} dropped by the collector"] if report.rejected else []
    notes += [report.reason] if report.reason else []
    notes += [f"traces only: it takes no logs ({report.without_logs})"] if report.without_logs else []
    because = f" ({'; '.join(notes)})" if notes else ""
    later = f"\n      send them later: {report.command}" if report.unsent else ""
    return f"otel: {printable(counts + because)}{later}"
