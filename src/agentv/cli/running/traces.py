"""`agentv traces`: show the conversations in traces and transcripts without judging them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from agentv.reports.run.conversations import ReadTraces
    from agentv.telemetry.joining import JoinOptions

UNIT_OPTION = click.option(
    "--unit",
    type=click.Choice(["answer", "conversation"]),
    default="answer",
    show_default=True,
    help="In traces: judge each answer of an agent, or each whole conversation.",
)
IDLE_OPTION = click.option(
    "--idle",
    "idle_s",
    type=click.FloatRange(min=0, min_open=True),
    default=600,
    show_default=True,
    metavar="SECONDS",
    help="In traces: how long a call of a tool is waited for, in the time of the spans.",
)


@click.group("traces", subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show what agentv understands of the traces and transcripts of agents."""


@command.command("show", short_help="Print the conversations in traces and transcripts.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@UNIT_OPTION
@IDLE_OPTION
@click.option("--full", "is_full", is_flag=True, help="Print whole messages instead of one line for each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(
    files: tuple[str, ...], unit: Literal["answer", "conversation"], idle_s: float, *, is_full: bool, as_json: bool
) -> int:
    """Print the conversations in traces as agentv score would judge them, and what was not understood.

    FILE is an OTLP export (JSON, JSON Lines or protocol buffers, also compressed), spans of an SDK or of Phoenix, a
    transcript of a coding agent, a folder with such files, or - for standard input. Other logs that agentv score reads
    are shown, too.

    Exit codes: 0 all was understood; 3 some answers or lines were not; 4 invalid usage or files; 5 there is no answer.
    """
    from agentv.cli.running.score import check_sources
    from agentv.cli.screen import terminal_style
    from agentv.engine.criteria.log_files import log_files
    from agentv.execution.loops import run_in_own_loop
    from agentv.reports.run.conversations import conversations_json, conversations_text
    from agentv.telemetry.joining import JoinOptions

    named = log_files(files)
    check_sources(named)
    read = run_in_own_loop(_read(named, JoinOptions(unit, idle_s)))
    style = terminal_style()
    if as_json:
        click.echo(conversations_json(read))
    else:
        click.echo("\n".join(conversations_text(read, style.width, is_full=is_full)))
    if not read.answers:
        return 3 if read.errors else 5
    return 3 if read.errors else 0


async def _read(files: list[str], joining: JoinOptions) -> ReadTraces:
    from agentv.engine.criteria.log_stream import LogStream
    from agentv.execution.processes.line_stream import Line
    from agentv.loading.suites.recorded import MAX_LINE_BYTES, read_log_line
    from agentv.messages.logs.reading import TraceStep
    from agentv.reports.run.conversations import ReadTraces
    from agentv.types.errors import EvalFileError
    from agentv.types.evaluation_input import EvaluationInput
    from agentv.types.records.answer import Origin

    stream = LogStream(files, max_bytes=MAX_LINE_BYTES, joining=joining)
    answers: list[tuple[Origin, EvaluationInput]] = []
    errors: list[tuple[Origin, str]] = []
    async for batch in stream.batches():
        for line in batch:
            if not isinstance(line, Line):
                errors.append((Origin(line.file, line.number, line.part), line.message))
            elif line.data.strip():
                origin = Origin(line.file, line.number, line.part, "", line.trace_id, line.span_id)
                try:
                    logged = read_log_line(line.data, line.file, line.number)
                except EvalFileError as error:
                    errors.append((origin, "; ".join(problem.message for problem in error.problems)))
                    continue
                if not isinstance(logged, TraceStep):
                    answers.append((origin, logged.given))
    return ReadTraces(answers, errors, tuple(stream.notes()), *stream.counts)
