"""`agentv score`: evaluate logged answers as they arrive."""

import hashlib
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TextIO

import click
from msgspec import Struct

from agentv.cli.environment import environment_notes
from agentv.cli.options import ALLOW_PATH_OPTION, SendingOptions, Span, take_sending_options, with_sending_options
from agentv.cli.running.otlp import OTLP_OPTIONS, OtlpOptions, receiver_maker, take_otlp_options
from agentv.cli.running.sending import make_exports, print_exports
from agentv.cli.running.stopping import stopping_on_signals
from agentv.cli.running.traces import IDLE_OPTION, UNIT_OPTION
from agentv.cli.terminal import broken_pipe_error, own_stdout, terminal_columns, unexpected_write_error
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.inputs import suite_of_file, target_of_file
from agentv.engine.criteria.lines import LogAnswers, LogReading
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.criteria.run_record import ScoredRun
from agentv.engine.criteria.stream import AnswerStream, StreamSource
from agentv.engine.criteria.stream_recorder import StreamRecorder, stream_plan
from agentv.engine.logs.answer_filter import AnswerFilter, load_judged_answers
from agentv.engine.logs.files import LogFiles, log_files
from agentv.engine.logs.live_traces import OTLP, LiveTraces
from agentv.engine.logs.stream import SampledLines, sampled_lines
from agentv.engine.planning.team_store import named_store, recorded_name
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run_stores import with_team_store
from agentv.execution.loops import run_in_own_loop
from agentv.execution.processes.line_stream import STDIN
from agentv.loading.datasets.transcripts import find_program
from agentv.loading.files.places import find_home
from agentv.reports.progress.observers import choose_display
from agentv.reports.run.score import ResumeSource, ScoreView, score_json_text, score_progress_text
from agentv.reports.text.printable import printable, printable_json
from agentv.reports.text.signs import choose_paint, signs_for
from agentv.reports.text.width import clip, wrap_lines
from agentv.scoring.counting.sampling import Sample
from agentv.scoring.gates.gates import STREAM_METRICS, parse_gate
from agentv.scoring.gates.run_verdict import NOTHING_SELECTED, ScopedGate
from agentv.storage.judgements.json_file import append_record, check_can_append
from agentv.storage.records.json_line import encode
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder, new_run_id
from agentv.storage.run.lazy import LazyStore, NoStore
from agentv.telemetry.joining.joining import JoinOptions
from agentv.types.aggregated_result import AggregatedEvaluationResult
from agentv.types.errors import ConfigError, StorageError, UnknownNameError
from agentv.types.evaluation_input import milliseconds_of
from agentv.types.json_value import JsonObject
from agentv.types.protocols import ResultStore
from agentv.types.records.answer import Origin
from agentv.types.records.result import CaseResult
from agentv.types.results import RunReport
from agentv.types.run_options import RunOptions
from agentv.types.summaries import GroupSummary

_STDOUT = "-"
_LIVE_INTERVAL_S = 0.25
_PLAIN_INTERVAL_S = 30.0
DEFAULT_WORKERS = 10


class ScoreOptions(Struct, frozen=True):
    """The options of the command line or of a stored run."""

    config: Path
    output: str | None
    sample: Sample
    """Made from `--sample`, `--sample-by` and `--seed`."""
    gates: tuple[str, ...] | None
    """None means those of the configuration."""
    only: Literal["free"] | None
    judge: str | None
    workers: int
    max_errors: int
    judge_failures: int
    display: str
    reading: LogReading = LogReading()
    allow_paths: tuple[str, ...] = ()
    name: str | None = None
    is_stored: bool = True
    store: str | None = None
    target_field: str | None = None
    by: tuple[str, ...] = ()
    sending: SendingOptions = SendingOptions()
    otlp: OtlpOptions | None = None
    """None if files are read."""
    sampling: JsonObject = {}
    """The values of the options from which `sample` is made, as the run stores them."""
    since_s: float | None = None
    """Seconds before now: answers that are older are left out."""
    is_new: bool = False
    """True if answers that earlier runs of the same name have judged are left out."""


def score_files(files: Sequence[str], options: ScoreOptions) -> int:
    """Evaluate the lines of the files; return the exit code. Text that evaluators print goes to standard error."""
    logs = log_files(files) if options.otlp is None else LogFiles(tuple(files))
    named, files = files, logs.paths
    with own_stdout() as stdout:
        stream = sys.stderr if options.output == _STDOUT else stdout
        clock = make_clock()
        config = load_config(options)
        gates = parse_gates(options, config)
        tasks = AnswerTasks(config, clock=clock)
        tasks.name_suite(suite_of_file(options.config))
        tasks.fitted(())
        _check_gated_criteria(gates or (), tasks.criteria_names)
        if not tasks.has_evaluators:
            click.echo(f"NOTHING SELECTED: no evaluator selected. Exit code {NOTHING_SELECTED}.", file=stream)
            return NOTHING_SELECTED
        output = Output(options.output, stdout)
        _check_files(files, output)
        exports = make_exports(options.sending, find_home(Path.cwd()))
        run_id = new_run_id(clock, random.SystemRandom()) if options.is_stored else ""
        since = None if options.since_s is None else clock() - timedelta(seconds=options.since_s)
        screen = Screen(options.display, stream)
        live = None if options.otlp is None else make_live_traces(options.otlp, options.reading.joining, screen)
        targets = () if options.target_field else _targets_of(files)
        store = (
            _new_store(named, options, tasks, gates, run_id, since=since, targets=targets)
            if options.is_stored
            else NoStore()
        )
        recorder = StreamRecorder(
            stream_plan(tasks.specs, gates, home=find_home(Path.cwd()), options=run_options(options)),
            store,
            list(exports),
            output.stop,
            by=options.by,
            is_saved=options.is_stored or options.output is not None or config.storage is not None,
            warnings=(*environment_notes(click.get_current_context()), *tasks.plan.warnings),
        )
        lines = LogAnswers(
            (
                sampled_lines(logs, options.sample, since, options.reading.joining)
                if live is None
                else SampledLines(live, options.sample, live.notes)
            ),
            RunAnswers(tasks, are_recorded=options.is_stored),
            clock,
            options.reading,
            options.target_field,
            run_id,
            make_filter(since, options.name if options.is_new else None),
        )
        report = score_answers(
            tasks,
            recorder,
            lambda _cases: lines,
            screen,
            workers=options.workers,
            run_id=run_id,
            output=output,
            resume_from=resume_source(files),
            live=live,
        )
        for export in exports:
            export.close()
        print_exports(exports)
    return report.verdict.exit_code


def make_filter(since: datetime | None, name: str | None, *, without: str | None = None) -> AnswerFilter:
    """Return the filter of answers: those since a time, and those that no run of the name, if given, has judged.

    `without` is a run of this name that does not count.
    """
    judged = None if name is None else load_judged_answers(find_home(Path.cwd()), name, without=without)
    return AnswerFilter(since, judged)


def resume_source(files: Sequence[str]) -> ResumeSource | None:
    """Return where `agentv resume` can read the remaining lines.

    None if an input is neither a regular file nor standard input, such as a named pipe: it cannot be read again.
    """
    if not all(file in (STDIN, OTLP) or Path(file).is_file() or Path(file).is_dir() for file in files):
        return None
    return "stream" if STDIN in files else "files"


def score_answers(
    tasks: AnswerTasks,
    recorder: StreamRecorder,
    make_source: Callable[[CaseRunner], StreamSource],
    screen: "Screen",
    *,
    workers: int,
    run_id: str,
    budget_usd: float | None = None,
    output: "Output | None" = None,
    resume_from: ResumeSource | None = None,
    live: LiveTraces | None = None,
) -> RunReport:
    """Judge every answer, save the report with the run, and show it.

    With `resume_from`, the report of an unfinished run also shows how to resume it. With `live`, the first signal ends
    the receiving of traces, and the results of those that arrived are awaited.
    """

    def on_row(row: CaseResult) -> None:
        if live is not None:
            screen.show_row(row)
        screen.show_progress(recorder)

    def end_receiving() -> None:
        if live is not None:
            screen.show_note("receiving has ended; finishing the answers that arrived (again: stop at once)")
            live.end()

    stream = AnswerStream(
        tasks,
        recorder,
        output if output is not None and output.is_written else None,
        on_row=on_row,
        on_stopping=screen.show_stopping,
    )

    async def judge() -> RunReport:
        with stopping_on_signals(recorder.stop, first=None if live is None else end_receiving):
            return await stream.run(make_source, workers=workers, run_id=run_id, budget_usd=budget_usd)

    report = run_in_own_loop(judge())
    groups = () if recorder.groups is None else recorder.groups.summaries()
    screen.show_report(report, None if output is None else output.destination, groups, resume_from=resume_from)
    return report


def make_live_traces(options: OtlpOptions, joining: JoinOptions, screen: "Screen") -> LiveTraces:
    """Return the answers in traces that are received, and show where. Raises ConfigError if that is not possible."""
    return LiveTraces(receiver_maker(options, screen.show_note), joining, on_note=screen.show_note)


def run_options(options: ScoreOptions) -> RunOptions:
    """Return the options that a stream has in common with other runs."""
    return RunOptions(
        name=options.name,
        max_errors=options.max_errors,
        judge_failures=options.judge_failures,
        allow_paths=options.allow_paths,
    )


def _new_store(
    files: Sequence[str],
    options: ScoreOptions,
    tasks: AnswerTasks,
    gates: tuple[ScopedGate, ...] | None,
    run_id: str,
    *,
    since: datetime | None,
    targets: tuple[str, ...],
) -> LazyStore:
    """Return the store of the run that judgements are saved in. Raises ConfigError for an invalid team store."""
    cwd = Path.cwd()
    home, store_url = find_home(cwd), named_store(options.store, cwd=cwd, env=os.environ)
    settings: JsonObject = {
        "config": os.path.relpath(options.config.resolve(), cwd),
        "files": list(files),
        "map": dict(options.reading.paths),
        "extra": options.reading.extra,
        "unit": options.reading.joining.unit,
        "idle_s": options.reading.joining.idle_s,
        **options.sampling,
        "only": options.only,
        "judge": options.judge,
        "workers": options.workers,
        "target_field": options.target_field,
        **({} if options.otlp is None else {"otlp": options.otlp.address}),
        "since": None if since is None else since.isoformat(),
        "new": options.is_new,
        "output": None if options.output in (None, _STDOUT) else options.output,
    }
    run = ScoredRun(
        tasks.suite.path,
        hashlib.sha256(options.config.read_bytes()).hexdigest(),
        tasks.snapshot,
        home=home,
        folder=str(cwd),
        name=options.name,
        targets=targets,
        gates=gates,
        options=run_options(options).to_json(),
        reading=settings,
        store=recorded_name(options.store, store_url),
    )

    def open_store() -> ResultStore:
        clock = tasks.clock
        return with_team_store(store_url, tasks.specs, lambda: RunFolder(runs_folder(home), run_id, clock=clock))

    return LazyStore(open_store, lambda run_id: run.to_record(run_id, clock=tasks.clock))


def _targets_of(files: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that the files are expected to have; none if a folder is among them."""
    if any(Path(file).is_dir() for file in files):
        return ()
    return tuple(dict.fromkeys(find_program(Path(file)) or target_of_file(file) for file in files))


def load_config(options: ScoreOptions) -> EvaluationRunConfig:
    """Return the configuration; the judge and `only` of the options take precedence."""
    config = EvaluationRunConfig.load(options.config, allow_paths=options.allow_paths)
    return config.with_values(judge=options.judge or config.judge, only=options.only or config.only)


def parse_gates(options: ScoreOptions, config: EvaluationRunConfig) -> tuple[ScopedGate, ...] | None:
    """Return the gates of the options, else those of the configuration; None means the default gate."""
    gates = options.gates if options.gates is not None else config.stream_gates
    return None if gates is None else tuple(ScopedGate(parse_gate(gate, STREAM_METRICS)) for gate in gates)


def _check_gated_criteria(gates: Sequence[ScopedGate], criteria: frozenset[str] | None) -> None:
    """Raise ConfigError for a gate on a criterion that no judgement can have.

    `criteria` None means that lines may bring their own criteria; then no gate is refused.
    """
    if criteria is None:
        return
    for scoped in gates:
        gate = scoped.gate
        if gate.name == "criterion" and gate.argument not in criteria:
            raise gate.wrong_argument(str(UnknownNameError("criterion", gate.argument or "", known=criteria)))


def _check_files(files: Sequence[str], output: "Output") -> None:
    """Raise ConfigError for files that cannot be read, and an output that cannot be written or is also an input."""
    check_sources(files)
    for path in _paths(files):
        if output.path is not None and output.path.exists() and path.samefile(output.path):
            raise ConfigError(f"-o {output.path}: is also an input file; choose another output file")
    output.check()


def check_sources(files: Sequence[str]) -> None:
    """Raise ConfigError for a file that cannot be read, and for standard input that is named twice."""
    if files.count(STDIN) > 1:
        raise ConfigError("standard input (-) can be read only once")
    for path in _paths(files):
        if not path.exists():
            raise ConfigError(f"{path}: no such file")
        if not os.access(path, os.R_OK):
            raise ConfigError(f"{path}: cannot be read: permission denied")


def _paths(files: Sequence[str]) -> list[Path]:
    return [Path(file) for file in files if file not in (STDIN, OTLP)]


class Output:
    """The output of scores: a file to which whole lines are appended, standard output, or nothing.

    `stop` ends the stream if standard output is closed.
    """

    def __init__(self, destination: str | None, stdout: TextIO) -> None:
        self.destination = destination
        self.path = None if destination in (None, _STDOUT) else Path(str(destination))
        self.stop = StopSignal()
        self._stdout = stdout if destination == _STDOUT else None

    @property
    def is_written(self) -> bool:
        """True if scores are written anywhere."""
        return self.path is not None or self._stdout is not None

    def check(self) -> None:
        """Raise ConfigError when the file cannot be written."""
        if self.path is None:
            return
        try:
            check_can_append(self.path)
        except StorageError as error:
            raise ConfigError(f"-o {error}") from error

    def judged(self, result: AggregatedEvaluationResult, origin: Origin | None) -> None:
        """Write the judgement of a line. Raises StorageError."""
        self._write({**result.to_dict(), "source": (origin or Origin("", 0)).to_json()})

    def failed(self, row: CaseResult) -> None:
        """Write the error of a line that could not be judged. Raises StorageError."""
        error = None if row.error is None else {"kind": row.error.kind, "message": row.error.message}
        source = Origin(row.file, row.line, row.part).to_json()
        self._write({"error": error, "timestamp": milliseconds_of(row.timestamp), "source": source})

    def _write(self, line: JsonObject) -> None:
        """Write one line; stop scoring if standard output was closed. Raises StorageError for any other write error."""
        if self.path is not None:
            append_record(self.path, line)
        if self._stdout is not None:
            self._stdout.write(printable_json(encode(line).decode()) + "\n")
            self._stdout.flush()
            if (error := unexpected_write_error(self._stdout)) is not None:
                raise StorageError(f"standard output cannot be written: {error.strerror}")
            if broken_pipe_error(self._stdout) is not None:
                self.stop.drain("standard output was closed")


class Screen:
    """The display: progress as one redrawn line (live) or a new line every 30 s (plain), and the report at the end."""

    def __init__(self, display: str, stream: TextIO) -> None:
        self._stream = stream
        self._display = choose_display(display, is_terminal=stream.isatty(), env=os.environ)
        self._signs = signs_for(stream.encoding)
        self._started_at = self._shown_at = time.monotonic()

    @property
    def elapsed_s(self) -> float:
        """The seconds since this object was made."""
        return time.monotonic() - self._started_at

    def show_progress(self, recorder: StreamRecorder) -> None:
        """Print the progress if the display is live or plain, and its interval has passed since the last time."""
        interval_s = {"live": _LIVE_INTERVAL_S, "plain": _PLAIN_INTERVAL_S}.get(self._display)
        if interval_s is None or time.monotonic() - self._shown_at < interval_s:
            return
        self._shown_at = time.monotonic()
        text = score_progress_text(
            recorder.summary.all,
            read=0 if recorder.source is None else recorder.source.read,
            elapsed_s=self.elapsed_s,
            signs=self._signs,
        )
        if self._display == "live":
            text = f"\r{clip(text, terminal_columns() - 1, mark=self._signs.ellipsis)}\x1b[K"
        self._write(text, nl=self._display == "plain")

    def show_row(self, row: CaseResult) -> None:
        """Print one result, if the display is live."""
        if self._display == "live":
            self._write(f"\r\x1b[K{self._view().row(row)}")

    def show_note(self, text: str) -> None:
        """Print a note now, to standard error if the display shows no progress."""
        if self._display not in ("live", "plain"):
            click.echo(printable(text), err=True)
            return
        width = terminal_columns() if self._stream.isatty() else None
        lines = map(printable, wrap_lines(text, width))
        self._write(("\r\x1b[K" if self._display == "live" else "") + "\n".join(lines))

    def show_stopping(self, reason: str) -> None:
        """Print that scoring is being stopped, and why, if the display is live or plain."""
        if self._display in ("live", "plain"):
            start = "\r\x1b[K" if self._display == "live" else ""
            self._write(f"{start}stopping: {reason}; finishing the lines in progress")

    def show_report(
        self,
        report: RunReport,
        output: str | None,
        groups: Sequence[GroupSummary] = (),
        *,
        resume_from: ResumeSource | None = None,
    ) -> None:
        """Print the report with the groups of `--by`; with the display `none`, only the verdict, to standard error."""
        if self._display == "json":
            self._write(score_json_text(report, output=output, groups=groups), nl=False)
        elif self._display == "none":
            click.echo(f"{printable(report.verdict.sentence)} Exit code {report.verdict.exit_code}.", err=True)
        else:
            files = [] if output in (None, _STDOUT) else [str(output)]
            text = self._view().report(report, files=files, groups=groups, resume_from=resume_from)
            self._write(("\r\x1b[K" if self._display == "live" else "") + text, nl=False)

    def _view(self) -> ScoreView:
        is_terminal = self._stream.isatty()
        width = terminal_columns() if is_terminal else None
        return ScoreView(width, self._signs, choose_paint(is_terminal=is_terminal, env=os.environ))

    def _write(self, text: str, *, nl: bool = True) -> None:
        with suppress(OSError, ValueError):  # a closed display is not an error
            click.echo(text, file=self._stream, nl=nl, color=True)


@click.command("score")
@click.argument("files", nargs=-1, metavar="[FILE...]")
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
    help="Store unknown keys of a line as metadata, or report them as errors.",
)
@click.option(
    "--since",
    "since_s",
    type=Span(),
    metavar="SPAN",
    help="Score only answers from the last SPAN, e.g. 12h or 1d.",
)
@click.option(
    "--new",
    "is_new",
    is_flag=True,
    help="Score only answers that no earlier run with the same --name has judged.",
)
@OTLP_OPTIONS[0]
@OTLP_OPTIONS[1]
@UNIT_OPTION
@IDLE_OPTION
@click.option("--name", metavar="NAME", help="Name of the run, for later commands.")
@click.option(
    "--no-store", "is_stored", is_flag=True, flag_value=False, default=True, help="Do not store the scores as a run."
)
@click.option(
    "--store",
    metavar="URL",
    help="Also store the run in this team database (default: AGENTV_STORE, else .agentv.yaml); 'none': in no database.",
)
@click.option(
    "--target-field",
    metavar="FIELD",
    help="Field with the target's name, e.g. model (default: target, else the file name).",
)
@click.option(
    "--by",
    multiple=True,
    metavar="KEY",
    help="Also show pass rates and means grouped by KEY: tag, target, week, model, agent_id or a metadata key; "
    "repeatable.",
)
@click.option(
    "--sample",
    metavar="SHARE|N",
    help="Score a random sample: a share of the lines (1%, 0.01), or N lines, scored when the input has ended.",
)
@click.option(
    "--sample-by", metavar="KEY", help="With --sample: lines with the same value of KEY are all scored or all skipped."
)
@click.option("--seed", type=int, default=0, show_default=True, metavar="N", help="Seed of the sample.")
@click.option(
    "--gate",
    "gates",
    multiple=True,
    metavar="EXPR",
    help="Replace the gates of the config, e.g. 'mean >= 0.8', or 'none'; repeatable.",
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
    default=DEFAULT_WORKERS,
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
    help="Allowed number of lines with errors; with more, the exit code is 3.",
)
@click.option(
    "--judge-failures",
    type=click.IntRange(min=1),
    default=10,
    show_default=True,
    metavar="N",
    help="Stop when a judge could not score N answers in a row.",
)
@click.option(
    "--display",
    type=click.Choice(["auto", "live", "plain", "json", "none"]),
    default="auto",
    show_default=True,
    help="Show a redrawn line (live), new lines (plain), one JSON object at the end, or only the verdict (none); "
    "auto: live on a terminal, else plain.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --display json: one object at the end.")
@with_sending_options
@ALLOW_PATH_OPTION
def command(files: tuple[str, ...], **given: Any) -> int:
    """Evaluate logged answers from files (JSON Lines, JSON, CSV, TSV, Parquet), folders or standard input (-).

    Transcripts of coding agents (Claude Code, Codex, GitHub Copilot, Gemini CLI, OpenCode, pi) are read as they are:
    each prompt of the user is one answer. A folder stands for the transcripts below it.

    JSON Lines and JSON may be compressed (.gz). Lines with {id, prompt, response} or {id, messages} are understood as
    they are, and so are exports of Langfuse, LangSmith and OpenAI. Spans of traces (OpenTelemetry in JSON or protocol
    buffers, Phoenix) are joined into answers; agentv traces show prints them. For other lines, give the place of each
    field with --map. Lines are scored as they arrive, so the input can be an endless stream. After Ctrl-C or SIGTERM,
    the lines in progress are completed.

    With --otlp, traces of running agents are received, and each answer is scored a few seconds after its last span.
    The first Ctrl-C or SIGTERM ends the receiving; the answers that arrived are still scored. A second one stops at
    once.

    Without gates, every judged line must pass. Exit codes: 0 passed; 1 a gate failed; 2 standard output was closed; 3
    incomplete: more errors than --max-errors, or no judged line; 4 invalid usage or files; 5 no line to score; 130 or
    143 interrupted by Ctrl-C or SIGTERM.
    """
    options = _make_options(given, files)
    return score_files(files if options.otlp is None else [OTLP], options)


def _make_options(given: dict[str, Any], files: Sequence[str]) -> ScoreOptions:
    from agentv.messages.logs.mapping import parse_map, reads_content
    from agentv.scoring.counting.sampling import make_sample

    run_option = next((f"--{name}" for name in ("name", "store") if given[name] is not None), None)
    if run_option is not None and not given["is_stored"]:
        raise ConfigError(f"--no-store and {run_option} exclude each other; omit one of them")
    sending = take_sending_options(given)
    if sending.given and not given["is_stored"]:
        raise ConfigError(
            f"--no-store and {sending.given[0]} exclude each other, because results are sent from the stored run; "
            "omit one of them"
        )
    if given["is_new"] and not given["name"]:
        raise ConfigError("--new compares with earlier runs of the same name; add --name NAME")
    otlp = take_otlp_options(given, files)
    gates = given.pop("gates") or None
    if gates is not None and "none" in gates and len(gates) > 1:
        raise ConfigError("--gate none disables all gates and cannot be combined with another --gate")
    if given.pop("as_json"):
        given["display"] = "json"
    paths = parse_map(given.pop("paths"))
    joining = JoinOptions(given.pop("unit"), given.pop("idle_s"), joins_records=not reads_content(paths))
    reading = LogReading(paths, given.pop("extra"), joining)
    sampling = {name: given.pop(name) for name in ("sample", "sample_by", "seed")}
    sample = make_sample(sampling["sample"], by=sampling["sample_by"], seed=sampling["seed"])
    if sample.count is not None and (given["is_new"] or given["since_s"] is not None):
        option = "--new" if given["is_new"] else "--since"
        raise ConfigError(f"--sample {sample.count} draws from all lines, before {option}; write a share, such as 10%")
    if gates == ("none",):
        gates = ()
    return ScoreOptions(
        gates=gates, sample=sample, sampling=sampling, reading=reading, sending=sending, otlp=otlp, **given
    )
