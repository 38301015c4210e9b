"""`agentv report`: write a stored run in any format."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.run_sources import READ_STORE_OPTION, open_runs
from agentv.cli.screen import terminal_style
from agentv.cli.terminal import command_stream, own_stdout
from agentv.engine.stored.judged_by import present_file_notes
from agentv.engine.stored.report import load_report
from agentv.engine.stored.report_tools import report_tools
from agentv.registry import Registry, ReportSpec
from agentv.reports import REPORTS, STDOUT, names_of
from agentv.reports.run.end_table import end_report
from agentv.reports.run.exports import Export, StreamExport, make_export
from agentv.reports.run.groups import group_tables
from agentv.reports.run.report_json import report_text
from agentv.reports.run.row_text import RowLabels
from agentv.reports.text.printable import runner_parses_log
from agentv.scoring.counting.groups import count_groups, kind_named
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.events import RowKept, RunEnded
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport

_CHUNK_SIZE = 2_000
"""The number of results whose answers are looked up in one pass over the run's answers."""


class ReportOptions(Struct, frozen=True):
    """The options of `agentv report`."""

    outputs: tuple[str, ...] = ()
    format_name: str | None = None
    include_trace: bool = False
    include_reruns: bool = False
    exit_code: bool = False
    as_json: bool = False
    by: tuple[str, ...] = ()
    store: str | None = None


def report(reference: str, options: ReportOptions) -> int:
    """Write the report of a stored run to the outputs, or print it if there are none; return the exit code."""
    if options.as_json and (options.format_name or STDOUT in options.outputs):
        raise click.UsageError("--json and another report on standard output cannot be combined; omit one of them")
    with open_runs(options.store) as runs:
        folder = runs.find(reference)
        runs.pull_baseline(folder)
        return _report(open_run(folder), options, is_here=not runs.option)


def _report(stored: StoredRun, options: ReportOptions, *, is_here: bool) -> int:
    """Write the report of a run. Only a run of this machine is named with its folder."""
    outputs = tuple(dict.fromkeys(options.outputs))
    if options.format_name and STDOUT not in outputs:
        outputs = (*outputs, STDOUT)
    with own_stdout() as stdout, _exports(outputs, options, stdout) as exports:
        run_report = load_report(stored, _forward(_rows(stored, options), exports))
        folder = run_report.folder if is_here else None
        run_report = replace(run_report, folder=folder, notes=(*run_report.notes, *present_file_notes(stored)))
        if options.by:
            kinds = set(map(kind_named, options.by))
            others = (group for group in run_report.groups if group.by not in kinds)
            requested = count_groups(stored.results(), options.by)
            run_report = replace(run_report, groups=(*others, *requested), by=tuple(kinds))
        for export in exports:
            export.notify(RunEnded(run_report))
    _print_report(run_report, stored, outputs, options)
    return run_report.exit_code if options.exit_code else 0


def _forward(rows: Iterable[CaseResult], exports: Sequence[Export | StreamExport]) -> Iterator[CaseResult]:
    """Yield the results after passing each to every export."""
    for row in rows:
        for export in exports:
            export.notify(RowKept(row))
        yield row


def _rows(stored: StoredRun, options: ReportOptions) -> Iterator[CaseResult]:
    """Yield the results, and those of re-runs with `--include-reruns`.

    With `--include-trace`, each has the trace and messages of its stored answer.
    """
    rows = chain(stored.results(), stored.reruns()) if options.include_reruns else stored.results()
    if not options.include_trace:
        yield from rows
        return
    while chunk := list(islice(rows, _CHUNK_SIZE)):
        answers = stored.answers_at({row.answer_seq for row in chunk if row.answer_seq is not None})
        for row in chunk:
            answer = None if row.answer_seq is None else answers.get(row.answer_seq)
            yield row if answer is None else _with_trace(row, answer)


def _with_trace(row: CaseResult, answer: Answer) -> CaseResult:
    return replace(row, trace=answer.trace, output_messages=answer.output_messages, partial=answer.partial)


def _print_report(run_report: RunReport, stored: StoredRun, outputs: Sequence[str], options: ReportOptions) -> None:
    if options.as_json:
        click.echo(report_text(run_report), nl=False)
    elif not outputs:
        style = terminal_style()
        if run_report.shown_groups:
            tables = group_tables(run_report.shown_groups, width=style.width, signs=style.signs, paint=style.paint)
            click.echo(tables.rstrip() + "\n")
        text = end_report(
            run_report,
            width=style.width,
            unicode=not style.signs.is_ascii,
            paint=style.paint,
            labels=RowLabels(with_suite=len(stored.suites) > 1, with_target=len(run_report.targets) > 1),
        )
        click.echo(text, nl=False)
    for output in outputs:
        if output != STDOUT:
            click.echo(f"Wrote {output}", err=options.as_json or STDOUT in outputs)


@contextmanager
def _exports(outputs: Sequence[str], options: ReportOptions, stdout: TextIO) -> Iterator[list[Export | StreamExport]]:
    """Yield an export per output. The files appear when the `with` block ends; an error in the block leaves none."""
    formats = _formats(outputs, options.format_name)
    tools = report_tools(include_trace=options.include_trace)
    exports: list[Export | StreamExport] = []
    try:
        for output in outputs:
            export = make_export(
                output,
                tools=tools,
                stdout=command_stream(stdout),
                formats=formats,
                stdout_format=options.format_name or "jsonl",
                is_parsed=runner_parses_log(os.environ),
            )
            exports.append(export)
        yield exports
    except BaseException:
        for export in exports:
            export.abandon()
        raise
    for export in exports:
        export.close()


def _formats(outputs: Sequence[str], format_name: str | None) -> Registry[ReportSpec]:
    """Return the built-in formats; if another one is requested, also those of the project's plug-ins."""
    endings = [Path(output).name.partition(".")[2] for output in outputs if output != STDOUT]
    if all(name in REPORTS for name in (*endings, format_name or "jsonl")):
        return REPORTS
    from agentv.engine.planning.inputs import load_project_parts

    specs, _ = load_project_parts([Path.cwd()])
    return specs.reports


@click.command("report")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="FILE",
    help="Write FILE in the format of its suffix; '-' prints JSON Lines unless --format is given. Repeatable.",
)
@click.option(
    "--format",
    "format_name",
    metavar="FORMAT",
    help=f"Print the run as {', '.join(names_of()[:-1])} or {names_of()[-1]}.",
)
@click.option("--include-trace", is_flag=True, help="Include traces and output messages in .jsonl and .yaml reports.")
@click.option(
    "--include-reruns",
    is_flag=True,
    help="Include results of re-runs, which do not count, in .jsonl and .yaml reports.",
)
@click.option(
    "--by",
    multiple=True,
    metavar="KEY",
    help="Also show pass rates and means grouped by KEY (the same keys as in `agentv show --by`); repeatable.",
)
@READ_STORE_OPTION
@click.option("--exit-code", is_flag=True, help="Exit with the exit code of the run instead of 0.")
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
def command(
    run: str,
    *,
    outputs: tuple[str, ...],
    format_name: str | None,
    include_trace: bool,
    include_reruns: bool,
    by: tuple[str, ...],
    store: str | None,
    exit_code: bool,
    as_json: bool,
) -> int:
    """Write a report of a stored run; without options, print the report shown at the end of the run.

    The suffix of FILE is the name of a format. `agentv plugins` lists the formats, and those of plug-ins.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'.
    """
    options = ReportOptions(
        outputs=outputs,
        format_name=format_name,
        include_trace=include_trace,
        include_reruns=include_reruns,
        exit_code=exit_code,
        as_json=as_json,
        by=by,
        store=store,
    )
    return report(run, options)
