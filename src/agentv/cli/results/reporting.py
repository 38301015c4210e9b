"""What `agentv report` does: count a stored run, and hand its rows and its report to each format."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.results.report_tools import report_tools
from agentv.cli.screen import terminal_style
from agentv.cli.terminal import own_stdout
from agentv.engine.stored.report import load_report
from agentv.loading.files.places import find_home
from agentv.registry import Registry
from agentv.reports import REPORTS, STDOUT
from agentv.reports.run.end_table import end_report
from agentv.reports.run.exports import Export, StreamExport, make_export
from agentv.reports.run.report_json import report_text
from agentv.reports.run.row_text import RowLabels
from agentv.storage.run.find import find_run
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.events import RowKept, RunEnded
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport

_ROWS_AT_ONCE = 2_000
"""Rows whose answers are looked up in one pass over the run's answers."""


class ReportOptions(Struct, frozen=True):
    """What was asked of a stored run."""

    outputs: tuple[str, ...] = ()
    format_name: str | None = None
    include_trace: bool = False
    exit_code: bool = False
    as_json: bool = False


def report(reference: str, asked: ReportOptions) -> int:
    """Write what was asked for; returns the exit code."""
    if asked.as_json and (asked.format_name or STDOUT in asked.outputs):
        raise click.UsageError("--json and a report on standard output exclude each other")
    stored = open_run(find_run(find_home(Path.cwd()), reference))
    outputs = tuple(dict.fromkeys(asked.outputs))
    if asked.format_name and STDOUT not in outputs:
        outputs = (*outputs, STDOUT)
    with own_stdout() as stdout, _exports(outputs, asked, stdout) as exports:
        made = load_report(stored, _told(_rows(stored, asked), exports))
        for export in exports:
            export.notify(RunEnded(made))
    _say(made, stored, outputs, as_json=asked.as_json)
    return made.exit_code if asked.exit_code else 0


def _told(rows: Iterable[CaseResult], exports: Sequence[Export | StreamExport]) -> Iterator[CaseResult]:
    """Yield the rows, told to every export on their way."""
    for row in rows:
        for export in exports:
            export.notify(RowKept(row))
        yield row


def _rows(stored: StoredRun, asked: ReportOptions) -> Iterator[CaseResult]:
    """Yield the rows; with traces and messages, which stand in the answers, when these were asked for."""
    if not asked.include_trace:
        yield from stored.results()
        return
    rows = stored.results()
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        answers = stored.answers_at({row.answer_seq for row in some if row.answer_seq is not None})
        for row in some:
            answer = None if row.answer_seq is None else answers.get(row.answer_seq)
            yield row if answer is None else replace(row, trace=answer.trace, output_messages=answer.output_messages)


def _say(made: RunReport, stored: StoredRun, outputs: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(report_text(made), nl=False)
    elif not outputs:
        style = terminal_style()
        text = end_report(
            made,
            width=style.width,
            unicode=not style.signs.is_ascii,
            paint=style.paint,
            labels=RowLabels(with_suite=len(stored.suites) > 1, trials=_trials(made)),
        )
        click.echo(text, nl=False)
    for output in outputs:
        if output != STDOUT:
            click.echo(f"wrote  {output}", err=as_json or STDOUT in outputs)


def _trials(made: RunReport) -> int:
    """Return how often each case was asked by each target, 1 where that differs or is not known."""
    rows = sum(count for target in made.targets for count in target.counts.values())
    cases = sum(target.trials[0].cases for target in made.targets if target.trials)
    most = max((trial.k for target in made.targets for trial in target.trials), default=1)
    return most if rows == cases * most else 1


@contextmanager
def _exports(outputs: Sequence[str], asked: ReportOptions, stdout: TextIO) -> Iterator[list[Export | StreamExport]]:
    """Yield what writes each output; all of them appear at the end, or none when something goes wrong before."""
    formats = _formats(outputs, asked.format_name)
    tools = report_tools(include_trace=asked.include_trace)
    exports: list[Export | StreamExport] = []
    try:
        for output in outputs:
            made = make_export(
                output,
                tools=tools,
                stdout=stdout,
                formats=formats,
                stdout_format=asked.format_name or "jsonl",
                in_log=os.environ.get("GITHUB_ACTIONS") == "true",
            )
            exports.append(made)
        yield exports
    except BaseException:
        for export in exports:
            export.abandon()
        raise
    for export in exports:
        export.close()


def _formats(outputs: Sequence[str], format_name: str | None) -> Registry:
    """Return the formats that there are. No code of the project is loaded where agentv's own are enough."""
    asked = [Path(output).name.partition(".")[2] for output in outputs if output != STDOUT]
    if all(name in REPORTS for name in (*asked, format_name or "jsonl")):
        return REPORTS
    from agentv.engine.planning.inputs import load_project_parts

    specs, _ = load_project_parts([Path.cwd()])
    return specs.reports
