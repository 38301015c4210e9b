"""`agentv score`: evaluate logged answers as they arrive."""

import asyncio
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.allow_path import ALLOW_PATH_OPTION
from agentv.cli.running.stopping import stopping_on_signals
from agentv.cli.terminal import broken_pipe_error, loss, own_stdout
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.judged_lines import JudgedLine
from agentv.engine.criteria.line_scoring import LineScoring, LogReading
from agentv.engine.criteria.log_stream import LogStream
from agentv.engine.criteria.runner import EvaluationRunner
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import JudgeFailures, StopSignal
from agentv.engine.stored.drawn_lines import DrawnLines
from agentv.execution.processes.line_stream import STDIN
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from agentv.reports.progress.observers import choose_display
from agentv.reports.run.score import ScoreView, score_json_text, score_progress_text
from agentv.reports.text.paint import choose_paint
from agentv.reports.text.printable import printable, printable_json
from agentv.reports.text.signs import signs_for
from agentv.reports.text.width import clip
from agentv.scoring.counting.sampling import Sample
from agentv.scoring.gates.gates import parse_gate
from agentv.scoring.gates.metrics import STREAM_METRICS
from agentv.scoring.gates.run_verdict import NOTHING_SELECTED, ScopedGate, stream_summary_for
from agentv.storage.judgements.json_file import append_record, check_can_append
from agentv.storage.records.json_line import encode
from agentv.types.errors import ConfigError, StorageError, UnknownNameError
from agentv.types.results import RunReport

_STDOUT = "-"
_LIVE_EVERY_S = 0.25
_PLAIN_EVERY_S = 30.0


class ScoreOptions(Struct, frozen=True):
    """The options of the command line. `gates` None: use those of the configuration."""

    config: Path
    output: str | None
    sample: Sample
    gates: tuple[str, ...] | None
    only: Literal["free"] | None
    judge: str | None
    workers: int
    max_errors: int
    judge_failures: int
    display: str
    reading: LogReading = LogReading()
    allow_paths: tuple[str, ...] = ()


def score_files(files: Sequence[str], options: ScoreOptions) -> int:
    """Evaluate the lines of the files; return the exit code. Output of evaluators goes to standard error."""
    with own_stdout() as stdout:
        stream = sys.stderr if options.output == _STDOUT else stdout
        config = _load_config(options)
        gates = _parse_gates(options, config)
        runner = EvaluationRunner(config)
        runner.check()
        _check_gate_names(gates or (), runner.criteria_names)
        if not runner.has_evaluators:
            click.echo(f"NOTHING SELECTED: no evaluator selected. Exit code {NOTHING_SELECTED}.", file=stream)
            return NOTHING_SELECTED
        output = _Output(options.output, stdout)
        _check_files(files, output)
        screen = _Screen(options.display, stream)

        def save(line: JudgedLine) -> None:
            output.save(line, scoring.stop)
            screen.progress(scoring)

        lines = DrawnLines(LogStream(files, max_bytes=MAX_LINE_BYTES), options.sample)
        summary = stream_summary_for(gates)
        scoring = LineScoring(
            lines,
            runner,
            save,
            make_clock(),
            summary=summary,
            judge_failures=JudgeFailures(options.judge_failures),
            reading=options.reading,
            on_stopping=screen.stopping,
        )
        asyncio.run(_score(scoring, options.workers))
        is_stored = options.output is not None or config.storage is not None
        report = scoring.report(gates, max_errors=options.max_errors, duration_s=screen.elapsed_s, is_stored=is_stored)
        screen.end(report, options.output)
    return report.verdict.exit_code


def _load_config(options: ScoreOptions) -> EvaluationRunConfig:
    config = EvaluationRunConfig.load(options.config, allow_paths=options.allow_paths)
    return replace(config, judge=options.judge or config.judge, only=options.only or config.only)


def _parse_gates(options: ScoreOptions, config: EvaluationRunConfig) -> tuple[ScopedGate, ...] | None:
    """Return the gates of the command line, else those of the configuration; None means the default gate."""
    gates = options.gates if options.gates is not None else (tuple(config.gates) or None)
    return None if gates is None else tuple(ScopedGate(parse_gate(gate, STREAM_METRICS)) for gate in gates)


def _check_gate_names(gates: Sequence[ScopedGate], criteria: frozenset[str] | None) -> None:
    """Refuse a gate on a criterion that no line can have, before any judge is called."""
    for gate in (scoped.gate for scoped in gates):
        if criteria is not None and gate.name == "criterion" and gate.argument not in criteria:
            raise gate.wrong_argument(str(UnknownNameError("criterion", gate.argument or "", known=criteria)))


def _check_files(files: Sequence[str], output: "_Output") -> None:
    """Refuse files that cannot be read, and an output that is also an input, before anything is evaluated."""
    if files.count(STDIN) > 1:
        raise ConfigError("standard input (-) can be read only once")
    for path in (Path(file) for file in files if file != STDIN):
        if not path.exists():
            raise ConfigError(f"{path}: no such file")
        if path.is_dir():
            raise ConfigError(f"{path}: is a folder; give the files in it")
        if not os.access(path, os.R_OK):
            raise ConfigError(f"{path}: cannot be read: permission denied")
        if output.path is not None and output.path.exists() and path.samefile(output.path):
            raise ConfigError(f"-o {output.path}: is also an input file; choose another output file")
    output.check()


class _Output:
    """The output of scores: a file that grows by whole lines, standard output, or nothing."""

    def __init__(self, target: str | None, stdout: TextIO) -> None:
        self.path = None if target in (None, _STDOUT) else Path(str(target))
        self._stdout = stdout if target == _STDOUT else None

    def check(self) -> None:
        """Raise ConfigError when the file cannot be written."""
        if self.path is None:
            return
        try:
            check_can_append(self.path)
        except StorageError as error:
            raise ConfigError(f"-o {error}") from error

    def save(self, line: JudgedLine, stop: StopSignal) -> None:
        """Write one line, and stop the stream when standard output is closed. Raises StorageError."""
        if self.path is not None:
            append_record(self.path, line.to_dict())
        if self._stdout is not None:
            self._stdout.write(printable_json(encode(line.to_dict()).decode()) + "\n")
            self._stdout.flush()
            if (lost := loss(self._stdout)) is not None:
                raise StorageError(f"standard output cannot be written: {lost.strerror}")
            if broken_pipe_error(self._stdout) is not None and stop.state == "finished":
                stop.drain("standard output was closed")
                stop.give_up()


class _Screen:
    """Progress as one redrawn line (terminal) or a new line every 30 s, and the report at the end."""

    def __init__(self, display: str, stream: TextIO) -> None:
        self._stream = stream
        self._display = choose_display(display, is_terminal=stream.isatty(), env=os.environ)
        self._signs = signs_for(stream.encoding)
        self._began = self._shown_at = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """The seconds since the stream was opened."""
        return time.monotonic() - self._began

    def progress(self, scoring: LineScoring) -> None:
        """Print the progress if enough time has passed since the last time."""
        every_s = {"live": _LIVE_EVERY_S, "plain": _PLAIN_EVERY_S}.get(self._display)
        if every_s is None or time.monotonic() - self._shown_at < every_s:
            return
        self._shown_at = time.monotonic()
        text = score_progress_text(
            scoring.summary.all, read=scoring.lines.read, elapsed_s=self.elapsed_s, signs=self._signs
        )
        if self._display == "live":
            text = f"\r{clip(text, shutil.get_terminal_size().columns - 1, mark=self._signs.ellipsis)}\x1b[K"
        self._write(text, nl=self._display == "plain")

    def stopping(self, reason: str) -> None:
        """Print that the stream is being stopped."""
        if self._display in ("live", "plain"):
            start = "\r\x1b[K" if self._display == "live" else ""
            self._write(f"{start}stopping: {reason}; finishing the lines in progress")

    def end(self, report: RunReport, output: str | None) -> None:
        """Print the report."""
        if self._display == "json":
            self._write(score_json_text(report, output=output), nl=False)
        elif self._display != "none":
            is_terminal = self._stream.isatty()
            width = shutil.get_terminal_size().columns if is_terminal else None
            view = ScoreView(width, self._signs, choose_paint(is_terminal=is_terminal, env=os.environ))
            text = view.report(report, files=[] if output in (None, _STDOUT) else [str(output)])
            self._write(("\r\x1b[K" if self._display == "live" else "") + text, nl=False)
        else:
            click.echo(f"{printable(report.verdict.sentence)} Exit code {report.verdict.exit_code}.", err=True)

    def _write(self, text: str, *, nl: bool = True) -> None:
        with suppress(OSError, ValueError):  # a closed display is not an error
            click.echo(text, file=self._stream, nl=nl, color=True)


async def _score(scoring: LineScoring, workers: int) -> None:
    with stopping_on_signals(scoring.stop):
        await scoring.run(workers)


@click.command("score")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Evaluators, criteria, judge and gates (YAML or JSON).",
)
@click.option("-o", "--output", metavar="FILE", help="Append scores to FILE as JSON Lines; - is standard output.")
@click.option(
    "--map",
    "paths",
    multiple=True,
    metavar="FIELD=PATH",
    help="Where a field is in a line, e.g. response=data.answer.",
)
@click.option(
    "--extra",
    type=click.Choice(["metadata", "error"]),
    default="error",
    show_default=True,
    help="Keep unknown keys of a line as metadata, or refuse them.",
)
@click.option("--sample", metavar="SHARE|N", help="Score only a share of the lines (1%, 0.01), or N lines.")
@click.option(
    "--sample-by", metavar="KEY", help="With --sample: lines with the same value of KEY are all scored or all skipped."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="Replace the gates of the config, e.g. 'mean >= 0.8', or 'none'.",
)
@click.option(
    "--only",
    type=click.Choice(["free"]),
    metavar="free",
    help="Skip evaluators that cost money ('free' is the only value).",
)
@click.option("--judge", metavar="TARGET", help="Target to use as judge instead of the config's.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=8,
    show_default=True,
    metavar="N",
    help="Lines to score concurrently.",
)
@click.option(
    "--max-errors",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Lines with errors allowed before the exit code is 3.",
)
@click.option(
    "--judge-failures",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Stop after N failures of a judge in a row.",
)
@click.option(
    "--display",
    type=click.Choice(["auto", "live", "plain", "json", "none"]),
    default="auto",
    show_default=True,
    help="How to show progress and the report.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --display json: one object at the end.")
@ALLOW_PATH_OPTION
def command(files: tuple[str, ...], **given: Any) -> int:
    """Evaluate logged answers in JSON Lines or JSON files (also .gz), in CSV, TSV or Parquet, or on standard input (-).

    Read as they are: {id, messages}, {id, prompt, response}, and exports of Langfuse, LangSmith, OpenAI, OpenTelemetry
    (OTLP) and Phoenix.
    Lines are scored as they arrive, so the input can be an endless stream. Ctrl-C and SIGTERM finish the lines in
    progress.

    Exit codes: 0 passed, 1 a gate failed, 2 standard output was closed, 3 incomplete, 4 invalid usage or files,
    5 nothing selected, 130 SIGINT, 143 SIGTERM.
    """
    return score_files(files, _make_options(given))


def _make_options(given: dict[str, Any]) -> "ScoreOptions":
    from agentv.scoring.counting.sampling import make_sample
    from agentv.types.errors import ConfigError
    from agentv.types.log_shapes.mapping import parse_map

    gates = given.pop("gates")
    if "none" in gates and len(gates) > 1:
        raise ConfigError("--gate none disables all gates and cannot be combined with another --gate")
    if given.pop("as_json"):
        given["display"] = "json"
    reading = LogReading(parse_map(given.pop("paths")), given.pop("extra"))
    sample = make_sample(given.pop("sample"), by=given.pop("sample_by"), seed=given.pop("seed"))
    return ScoreOptions(gates=() if gates == ("none",) else gates or None, sample=sample, reading=reading, **given)
