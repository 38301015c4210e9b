"""`agentv traces`: show the conversations in traces and transcripts without judging them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import click

from agentv.cli.running.otlp import OTLP_OPTIONS, OtlpOptions, receiver_maker, take_otlp_options
from agentv.reports.text.printable import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agentv.engine.logs.live_traces import LiveTraces
    from agentv.engine.logs.stream import LogStream
    from agentv.reports.run.conversations import ReadTraces
    from agentv.telemetry.joining.joining import JoinOptions
    from agentv.types.evaluation_input import EvaluationInput
    from agentv.types.records.answer import Origin

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
    help="In traces: how long to wait for the result of a tool call, by the times of the spans.",
)


@click.group("traces", subcommand_metavar="COMMAND [ARGS]...")
def command() -> None:
    """Show what agentv understands of the traces and transcripts of agents."""


@command.command("show", short_help="Print the conversations in traces and transcripts.")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@OTLP_OPTIONS[0]
@OTLP_OPTIONS[1]
@UNIT_OPTION
@IDLE_OPTION
@click.option("--full", "is_full", is_flag=True, help="Print whole messages instead of one line for each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(
    files: tuple[str, ...],
    unit: Literal["answer", "conversation"],
    idle_s: float,
    *,
    is_full: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Print the conversations in traces and transcripts as agentv score judges them, and what was not understood.

    FILE is an OTLP export (JSON, JSON Lines or protocol buffers, also compressed), spans of an SDK or of Phoenix, a
    transcript of a coding agent, a folder with such files, or - for standard input. Other logs that agentv score reads
    are shown, too. With --otlp, traces are received and printed until Ctrl-C.

    Exit codes: 0 all was understood; 3 some answers or lines were not; 4 invalid usage or files; 5 there is no answer.
    """
    from agentv.cli.screen import terminal_style
    from agentv.execution.loops import run_in_own_loop
    from agentv.reports.run.conversations import (
        conversation_text,
        conversations_json,
        conversations_text,
        summary_text,
    )
    from agentv.telemetry.joining.joining import JoinOptions

    options, joining, style = take_otlp_options(given, files), JoinOptions(unit, idle_s), terminal_style()
    if options is None:
        read = run_in_own_loop(_read(_stream_of(files, joining)))
    else:

        def on_answer(origin: Origin, answer: EvaluationInput) -> None:
            if not as_json:
                click.echo("\n".join(conversation_text(origin, answer, style.width, is_full=is_full)))

        read = run_in_own_loop(_receive(options, joining, on_answer))
    if as_json:
        click.echo(conversations_json(read))
    else:
        lines = conversations_text(read, style.width, is_full=is_full) if options is None else summary_text(read)
        click.echo("\n".join(lines))
    if not read.answers:
        return 3 if read.errors else 5
    return 3 if read.errors else 0


def _stream_of(files: Sequence[str], joining: JoinOptions) -> LogStream:
    from agentv.cli.running.score import check_sources
    from agentv.engine.logs.files import log_files
    from agentv.engine.logs.stream import LogStream
    from agentv.loading.suites.recorded import MAX_LINE_BYTES

    logs = log_files(files)
    check_sources(logs.paths)
    return LogStream(logs.paths, max_bytes=MAX_LINE_BYTES, joining=joining, file_notes=logs.notes)


async def _receive(
    options: OtlpOptions, joining: JoinOptions, on_answer: Callable[[Origin, EvaluationInput], None]
) -> ReadTraces:
    """Return what is received until a signal."""
    import asyncio
    import signal

    from agentv.engine.logs.live_traces import LiveTraces

    def show_note(text: str) -> None:
        click.echo(printable(text), err=True)

    traces = LiveTraces(receiver_maker(options, show_note), joining, on_note=show_note)
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, traces.end)
    return await _read(traces, on_answer)


async def _read(
    stream: LogStream | LiveTraces,
    on_answer: Callable[[Origin, EvaluationInput], None] = lambda _origin, _answer: None,
) -> ReadTraces:
    from collections import Counter

    from agentv.engine.criteria.lines import steps_note
    from agentv.execution.processes.line_stream import Line
    from agentv.loading.suites.recorded import read_log_line
    from agentv.messages.logs.reading import TraceStep
    from agentv.reports.run.conversations import ReadTraces
    from agentv.types.errors import EvalFileError
    from agentv.types.input_notes import word_notes
    from agentv.types.records.answer import Origin

    answers: list[tuple[Origin, EvaluationInput]] = []
    errors: list[tuple[Origin, str]] = []
    steps: Counter[str] = Counter()
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
                if isinstance(logged, TraceStep):
                    steps[logged.kind] += 1
                    continue
                answers.append((origin, logged.given))
                on_answer(origin, logged.given)
    notes = [*stream.notes(), *([steps_note(steps)] if steps else [])]
    return ReadTraces(answers, errors, tuple(word_notes(notes, left_out="no answer")), *stream.counts)
