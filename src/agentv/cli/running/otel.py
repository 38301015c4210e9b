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
from agentv.telemetry.otlp import OtlpDestination
from agentv.types.errors import StorageError


def otlp_destination(options: OtelOptions) -> OtlpDestination:
    """Return the collector. Raises ConfigError for one that cannot be used."""
    return OtlpDestination(find_collector(options.url, os.environ), with_content=options.with_content, env=os.environ)


def make_export(options: OtelOptions, home: Path) -> BackgroundExport:
    """Return the observer that sends a run's results. Raises ConfigError for a collector that cannot be used."""
    return BackgroundExport(home, otlp_destination(options))


def print_exports(observers: Iterable[object]) -> None:
    """Print to standard error what the exports among closed observers have sent; the run has its exit code already."""
    for observer in observers:
        if not isinstance(observer, BackgroundExport):
            continue
        try:
            report = observer.report()
        except (StorageError, OSError) as error:
            name = observer.destination.name
            click.echo(printable(f"{name}: what is unsent cannot be counted: {error}"), err=True)
            continue
        if report is not None:
            click.echo(export_text(report), err=True)


def export_text(report: ExportReport) -> str:
    """Return what was sent, what was not, why, and how to send the rest."""
    to = report.destination
    counts = f"{count_text(report.sent, 'result')} sent to {to.shown}"
    if report.unsent:
        counts += f", {report.unsent:,} unsent"
    elif not report.sent and not report.omitted:
        counts = f"nothing to send to {to.shown}: it has all results"
    notes = [f"{count_text(report.dropped, to.record)} dropped by {to.title}"] if report.dropped else []
    notes += [report.reason] if report.reason else []
    notes += [f"{count:,} not sent: {why}" for why, count in report.omitted.items()]
    notes += [f"traces only: it takes no logs ({report.left_out})"] if report.left_out else []
    because = f" ({'; '.join(notes)})" if notes else ""
    later = f"\n      send them later: {report.command}" if report.unsent else ""
    return f"{to.name}: {printable(counts + because)}{later}"
