"""Continue a run that `agentv score` or Python made: score its remaining lines, or its stored answers again."""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeAlias

import click
from msgspec.structs import replace

from agentv.cli.main import exit_code_after_write_error
from agentv.cli.options import OutputOptions
from agentv.cli.results.report import ReportOptions, report
from agentv.cli.running.otlp import TOKEN_VARIABLE, make_otlp_options, receiver_maker
from agentv.cli.running.resume_options import ContinueOptions
from agentv.cli.running.running import open_outputs, print_sent, write_error_messages
from agentv.cli.running.score import (
    DEFAULT_WORKERS,
    ScoreOptions,
    Screen,
    check_sources,
    load_config,
    make_filter,
    parse_gates,
    resume_source,
    run_options,
    score_answers,
)
from agentv.cli.terminal import own_stdout
from agentv.engine.criteria.answer_tasks import AnswerTasks
from agentv.engine.criteria.config import EvaluationRunConfig
from agentv.engine.criteria.lines import LogAnswers, LogReading
from agentv.engine.criteria.run_answers import RunAnswers
from agentv.engine.criteria.run_record import ScoredRun
from agentv.engine.criteria.stored_answers import StoredAnswers
from agentv.engine.criteria.stream import StreamSource
from agentv.engine.criteria.stream_recorder import StreamRecorder, stream_plan
from agentv.engine.logs.files import LogFiles, log_files
from agentv.engine.logs.live_traces import OTLP, LiveTraces
from agentv.engine.logs.stream import SampledLines, ScoredLines, sampled_lines
from agentv.engine.planning.team_store import store_of_run
from agentv.engine.running.case import CaseRunner
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import StopSignal
from agentv.engine.running.run_stores import reopen_store, with_team_store
from agentv.engine.stored.report import refuse_changed_results
from agentv.engine.stored.resume import GENERATION_STARTED, RequestedGeneration
from agentv.engine.stored.stored_plan import stored_options, working_folder
from agentv.execution.processes.line_stream import STDIN
from agentv.messages.logs.mapping import reads_content
from agentv.reports import STDOUT
from agentv.reports.run.score import ResumeSource
from agentv.reports.text.printable import printable
from agentv.scoring.counting.sampling import make_sample
from agentv.scoring.gates.run_verdict import ScopedGate
from agentv.storage.run.stored import SCORED, StoredRun
from agentv.telemetry.joining.joining import DEFAULT_IDLE_S, JoinOptions
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock
from agentv.types.records.result import CaseResult

_DISPLAYS = ("auto", "live", "plain", "json", "none")


def score_rest(stored: StoredRun, output: OutputOptions, continue_options: ContinueOptions) -> int:
    """Score the lines that a run has not scored yet; return the exit code."""
    settings, named = _score_settings(stored), _log_files(stored)
    if not named:
        raise ConfigError(f"run {stored.run_id} was made from Python, so there are no lines left to score")
    if STDIN in named and sys.stdin.isatty():
        raise ConfigError(
            f"run {stored.run_id} read standard input; pipe the same stream into it again, as in: "
            f"cat log.jsonl | agentv resume {stored.run_id}; lines that are stored already are skipped"
        )

    address = _text(settings, "otlp")
    live = None if address is None else _received_again(stored, address)
    with contextlib.chdir(working_folder(stored.run, stored.folder.resolve().parent.parent)):
        logs = log_files(named) if live is None else LogFiles(tuple(named))
        files = logs.paths
        check_sources(files)
        if live is None:
            _refuse_changed_log(stored, files)

    def make_source(answers: RunAnswers, recorder: StreamRecorder, _cases: CaseRunner) -> StreamSource:
        answers.restore(stored, files=files, on_row=recorder.count_stored)
        sample = make_sample(
            _text(settings, "sample"), by=_text(settings, "sample_by"), seed=_number(settings, "seed", 0)
        )
        since = _moment(settings, "since")
        name = stored.run.name if settings.get("new") is True else None
        return LogAnswers(
            sampled_lines(logs, sample, since, _reading(settings).joining)
            if live is None
            else SampledLines(live, sample, live.notes),
            answers,
            answers.tasks.clock,
            _reading(settings),
            _text(settings, "target_field"),
            stored.run_id,
            make_filter(since, name, without=stored.run_id),
        )

    _note_output_not_appended(stored)
    return _continue(stored, output, continue_options, make_source, resume_from=resume_source(files), live=live)


def _received_again(stored: StoredRun, address: str) -> LiveTraces:
    """Return the traces that are received at the address of the run. Raises ConfigError if that is not possible."""

    def show(text: str) -> None:
        click.echo(printable(text), err=True)

    options = make_otlp_options(address, os.environ.get(TOKEN_VARIABLE))
    received = max((row.line for row in stored.results() if row.file == OTLP), default=0)
    joining = _reading(_score_settings(stored)).joining
    return LiveTraces(receiver_maker(options, show), joining, received=received, on_note=show)


def _refuse_changed_log(stored: StoredRun, files: Sequence[str]) -> None:
    """Refuse files in which a scored line has changed. Raises ConfigError for the first difference."""
    scored = ScoredLines(stored.run_id)
    for answer in stored.all_answers():
        if answer.origin is not None:
            scored.add(answer.origin.file, answer.origin.line, answer.origin.part, answer.origin.digest)
    for row in stored.results():
        scored.add(row.file, row.line, row.part, row.line_digest)
    if not scored.has_digests:
        click.echo(
            f"note: run {stored.run_id} does not record the contents of its lines; "
            "changes to its log cannot be detected",
            err=True,
        )
    asyncio.run(scored.refuse_changes(files, _reading(_score_settings(stored)).joining))


def score_again(
    stored: StoredRun,
    output: OutputOptions,
    continue_options: ContinueOptions,
    generation: RequestedGeneration,
    *,
    is_chosen: Callable[[CaseResult], bool] | None = None,
    configuration: Path | None = None,
) -> int:
    """Judge stored answers again; return the exit code.

    `generation` describes this retry or rescore, and is recorded in the run. `is_chosen` selects results; None selects
    those whose evaluators have changed. `configuration` replaces the run's.
    """

    def make_source(answers: RunAnswers, recorder: StreamRecorder, cases: CaseRunner) -> StreamSource:
        answers.restore(stored, files=None, on_row=lambda _row: None)
        recorder.store.note(GENERATION_STARTED, generation.to_event())
        return StoredAnswers(stored, answers, cases, recorder.count_stored, is_chosen)

    return _continue(stored, output, continue_options, make_source, resume_from="files", configuration=configuration)


MakeSource: TypeAlias = Callable[[RunAnswers, StreamRecorder, CaseRunner], StreamSource]


def _continue(
    stored: StoredRun,
    output: OutputOptions,
    continue_options: ContinueOptions,
    make_source: MakeSource,
    *,
    resume_from: ResumeSource | None,
    configuration: Path | None = None,
    live: LiveTraces | None = None,
) -> int:
    """Judge more answers of a run. Only a resume may need its input again: other work reads answers from the run."""
    if continue_options.backend == "ray" or continue_options.ray_address or continue_options.shared_path:
        raise ConfigError("stored answers are scored on this machine; --backend ray cannot be used")
    refuse_changed_results(stored, may_lack_results=True)
    folder = stored.folder.resolve()
    home, clock = folder.parent.parent, make_clock()
    cwd = working_folder(stored.run, home)
    # Relative paths start from the folder of the original run, but paths of reports from the current folder.
    outputs = tuple(each if each == STDOUT else str(output.folder / each) for each in output.outputs)
    with own_stdout() as stdout, contextlib.chdir(cwd):
        options = _score_options(stored, continue_options, configuration)
        store_url = store_of_run(stored.run, continue_options.store, cwd=cwd, env=os.environ)
        config = load_config(options)
        tasks = _checked_tasks(stored, config, clock, has_budget=continue_options.budget_usd is not None)
        gates = _judged_by(stored, options, config)
        with open_outputs(replace(output, display="none", outputs=()), stdout, clock) as observers:
            recorder = StreamRecorder(
                stream_plan(tasks.specs, gates, home=home, options=run_options(options)),
                with_team_store(store_url, tasks.specs, lambda: reopen_store(folder, clock=clock)),
                list(observers),
                StopSignal(),
                warnings=(*continue_options.notes, *tasks.plan.warnings),
            )

            def begin(cases: CaseRunner) -> StreamSource:
                run = ScoredRun(tasks.suite.path, "", {}, home=home, folder=str(cwd))  # run.json exists already
                recorder.store.begin(run.to_record(stored.run_id, clock=clock))
                return make_source(RunAnswers(tasks), recorder, cases)

            ended = score_answers(
                tasks,
                recorder,
                begin,
                Screen(output.display if output.display in _DISPLAYS else "auto", output.stream(stdout)),
                workers=options.workers,
                run_id=stored.run_id,
                budget_usd=continue_options.budget_usd,
                resume_from=resume_from,
                live=live,
            )
        print_sent(output, observers)
        if outputs:
            report(str(folder), ReportOptions(outputs=outputs, include_trace=output.include_trace))
        code = ended.verdict.exit_code
        for message in write_error_messages(observers, stdout):
            code = exit_code_after_write_error(code, message)
    return code


def _judged_by(stored: StoredRun, options: ScoreOptions, config: EvaluationRunConfig) -> tuple[ScopedGate, ...] | None:
    """Return the gates stored with a run, None for the default one; say so if its configuration has others now."""
    if config.stream_gates not in (None, options.gates):
        now = ", ".join(map(repr, config.stream_gates or ())) or "no gate"
        click.echo(
            f"note: the configuration of run {stored.run_id} has other gates now ({now}); the run is judged by those "
            "stored with it",
            err=True,
        )
    return None if options.gates is None else parse_gates(options, config)


def _checked_tasks(
    stored: StoredRun, config: EvaluationRunConfig, clock: Clock, *, has_budget: bool = False
) -> AnswerTasks:
    """Return what makes tasks of a run's answers. Raises AgentvError for a configuration that cannot judge them."""
    tasks = AnswerTasks(config, clock=clock)
    tasks.name_suite(next(iter(stored.suites), ""))
    tasks.fitted(())
    if has_budget:
        tasks.check_budget()
    return tasks


def _note_output_not_appended(stored: StoredRun) -> None:
    output = _text(_score_settings(stored), "output")
    if output is not None:
        click.echo(
            f"note: results of this resume are not appended to {output}, the -o of the first command; "
            f"agentv report {stored.run_id} -o FILE writes all results of the run",
            err=True,
        )


def answer_tasks_of(stored: StoredRun, *, only: tuple[str, ...] = ()) -> AnswerTasks:
    """Return what makes tasks of a scored run's answers, by its current configuration; `only` selects evaluators.

    The current folder must be the run's working folder, from which relative paths start. Raises ConfigError
    for a run without a configuration file.
    """
    config = load_config(_score_options(stored, ContinueOptions(), None))
    return _checked_tasks(stored, replace(config, only=only or config.only, storage=None), make_clock())


def _score_settings(stored: StoredRun) -> JsonObject:
    """Return how the lines were read and scored, as recorded in run.json."""
    settings = stored.run.plan.get(SCORED)
    return settings if isinstance(settings, Mapping) else {}


def _log_files(stored: StoredRun) -> list[str]:
    """Return the files that a run's lines were read from; none for a run from Python."""
    files = _score_settings(stored).get("files")
    return [file for file in files if isinstance(file, str)] if isinstance(files, list) else []


def _text(settings: JsonObject, key: str) -> str | None:
    value = settings.get(key)
    return value if isinstance(value, str) else None


def _moment(settings: JsonObject, key: str) -> datetime | None:
    text = _text(settings, key)
    return None if text is None else datetime.fromisoformat(text)


def _number(settings: JsonObject, key: str, default: int) -> int:
    value = settings.get(key)
    return value if isinstance(value, int) else default


def _score_options(stored: StoredRun, continue_options: ContinueOptions, configuration: Path | None) -> ScoreOptions:
    """Return the stored options of a run, updated by this command. Raises ConfigError without a configuration file."""
    settings, run_options = _score_settings(stored), stored_options(stored.run.plan)
    named = _text(settings, "config")
    path = configuration or (None if named is None else Path(named))
    if path is None:
        raise ConfigError(
            f"run {stored.run_id} was made from Python and has no configuration file; "
            f"agentv rescore {stored.run_id} --evaluators FILE scores its answers with one"
        )
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; it is the configuration of run {stored.run_id}")
    return ScoreOptions(
        config=path,
        output=None,
        sample=make_sample(None, by=None, seed=0),
        gates=_gates(stored),
        only="free" if settings.get("only") == "free" else None,
        judge=_text(settings, "judge"),
        workers=_number(settings, "workers", DEFAULT_WORKERS),
        max_errors=run_options.max_errors,
        judge_failures=continue_options.judge_failures or run_options.judge_failures,
        display="auto",
        reading=_reading(settings),
        allow_paths=tuple(dict.fromkeys((*run_options.allow_paths, *continue_options.allow_paths))),
        target_field=_text(settings, "target_field"),
    )


def _reading(settings: JsonObject) -> LogReading:
    stored, idle_s = settings.get("map"), settings.get("idle_s")
    paths = {key: str(value) for key, value in stored.items()} if isinstance(stored, Mapping) else {}
    return LogReading(
        paths,
        "metadata" if settings.get("extra") == "metadata" else "error",
        JoinOptions(
            "conversation" if settings.get("unit") == "conversation" else "answer",
            float(idle_s) if isinstance(idle_s, int | float) else DEFAULT_IDLE_S,
            joins_records=not reads_content(paths),
        ),
    )


def _gates(stored: StoredRun) -> tuple[str, ...] | None:
    gates = stored.run.plan.get("gates")
    if not isinstance(gates, list):
        return None
    return tuple(str(each.get("expression")) for each in gates if isinstance(each, Mapping))
