"""Continuation of a run that `agentv score` or Python made: the rest of its lines, or its stored answers again."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec.structs import replace

from agentv.cli.options import OutputOptions
from agentv.cli.results.report import ReportOptions, report
from agentv.cli.running.resume_options import ContinueOptions
from agentv.cli.running.score import ScoreOptions, Screen, check_sources, finish, load_config, parse_gates
from agentv.cli.terminal import own_stdout
from agentv.engine.criteria.line_scoring import Lines, LineScoring, LogReading
from agentv.engine.criteria.runner import EvaluationRunner
from agentv.engine.criteria.scored_run import ScoredPlan, ScoredRun
from agentv.engine.criteria.stored_answers import StoredAnswers
from agentv.engine.running.clock import make_clock
from agentv.engine.running.recorder import JudgeFailures
from agentv.engine.running.run_stores import reopen_store, with_team_store
from agentv.engine.stored.drawn_lines import DrawnLines
from agentv.engine.stored.report import refuse_changed_results
from agentv.engine.stored.resume import GENERATION_STARTED, RequestedGeneration
from agentv.engine.stored.stored_plan import stored_options, working_folder
from agentv.engine.stored.team_store import store_of_run
from agentv.execution.processes.line_stream import STDIN, LineStream
from agentv.loading.suites.recorded import MAX_LINE_BYTES
from agentv.scoring.counting.sampling import make_sample
from agentv.scoring.keys.identity import DigestSet
from agentv.storage.run.stored import SCORED, StoredRun
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult

_DISPLAYS = ("auto", "live", "plain", "json", "none")


def score_rest(stored: StoredRun, output: OutputOptions, continuing: ContinueOptions) -> int:
    """Score the lines that a run has not scored yet; return the exit code."""
    scored = _scored(stored)
    files = scored.get("files")
    if not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise ConfigError(f"run {stored.run_id} was made from Python, so there are no lines left to score")
    if STDIN in files:
        raise ConfigError(
            f"run {stored.run_id} read standard input, which cannot be read again; score the rest as a run of its own"
        )
    names = [str(file) for file in files]

    def lines(_scoring: LineScoring) -> Lines:
        check_sources(names)
        sample = make_sample(_text(scored, "sample"), by=_text(scored, "sample_by"), seed=_number(scored, "seed", 0))
        return DrawnLines(LineStream(names, max_bytes=MAX_LINE_BYTES), sample)

    return _continue(stored, output, continuing, lines, is_rest=True)


def score_again(
    stored: StoredRun,
    output: OutputOptions,
    continuing: ContinueOptions,
    generation: RequestedGeneration,
    *,
    is_chosen: Callable[[CaseResult], bool] | None = None,
    configuration: Path | None = None,
) -> int:
    """Judge stored answers again; return the exit code.

    `is_chosen` chooses their rows; None: those whose evaluators have changed. `configuration` replaces the run's own.
    """

    def lines(scoring: LineScoring) -> Lines:
        return StoredAnswers(stored, scoring.carry, is_chosen)

    return _continue(stored, output, continuing, lines, generation=generation, configuration=configuration)


def _continue(
    stored: StoredRun,
    output: OutputOptions,
    continuing: ContinueOptions,
    make_lines: Callable[[LineScoring], Lines],
    *,
    is_rest: bool = False,
    generation: RequestedGeneration | None = None,
    configuration: Path | None = None,
) -> int:
    refuse_changed_results(stored, may_lack_results=True)
    folder = stored.folder.resolve()
    home, clock = folder.parent.parent, make_clock()
    with own_stdout() as stdout:
        cwd = working_folder(stored.run, home)
        os.chdir(cwd)  # relative paths start from the folder of the original run
        options = _options(stored, continuing, configuration)
        store_url = store_of_run(stored.run, continuing.store, cwd=cwd, env=os.environ)
        config = load_config(options)
        runner = EvaluationRunner(config)
        runner.check()
        plan = _plan(stored, home, cwd)
        run = ScoredRun(
            runner,
            plan,
            lambda: with_team_store(store_url, runner.specs, lambda: reopen_store(folder, clock=clock)),
            clock,
        )
        screen = Screen(output.display if output.display in _DISPLAYS else "auto", output.stream(stdout))
        scoring = LineScoring(
            None,
            runner,
            lambda _line: screen.progress(scoring),
            clock=clock,
            gates=parse_gates(options, config),
            judge_failures=JudgeFailures(options.judge_failures),
            reading=options.reading,
            on_stopping=screen.stopping,
            run=run,
            target_field=options.target_field,
        )
        _remember(stored, scoring, run, is_rest=is_rest)
        if generation is not None:
            run.store.note(GENERATION_STARTED, generation.to_event())
        scoring.lines = make_lines(scoring)
        made = finish(scoring, options.workers, screen, max_errors=options.max_errors, can_resume=is_rest)
        if output.outputs:
            report(str(folder), ReportOptions(outputs=output.outputs, include_trace=output.include_trace))
    return made.verdict.exit_code


def runner_of(stored: StoredRun, *, only: tuple[str, ...] = ()) -> EvaluationRunner:
    """Return a runner of a scored run's present configuration, in the run's folder; `only` names its evaluators.

    Raises ConfigError for a run without a configuration file.
    """
    config = load_config(_options(stored, ContinueOptions(), None))
    runner = EvaluationRunner(replace(config, only=only or config.only, storage=None))
    runner.check()
    return runner


def _remember(stored: StoredRun, scoring: LineScoring, run: ScoredRun, *, is_rest: bool) -> None:
    """Take over what a run has: its rows, the trials of its cases, and answers without a row."""
    run.store  # noqa: B018 - opened now: nothing else may write the run meanwhile
    judged, done = set[int](), DigestSet()
    for row in stored.results():
        run.trials.add(row.slot)
        run.targets[row.slot.target] = None
        if is_rest:
            done.add(f"{row.file}:{row.line}")
            scoring.carry(row)
        if row.answer_seq is not None:
            judged.add(row.answer_seq)
    for case in stored.cases():
        run.cases.add(f"{case.suite}\0{case.eval_id}")
    if is_rest:
        scoring.done = done
        for answer in stored.all_answers():
            if answer.seq not in judged and answer.origin is not None and answer.generation == 0:
                run.unjudged[f"{answer.origin.file}:{answer.origin.line}"] = answer
                run.trials.add(answer.slot)


def _scored(stored: StoredRun) -> JsonObject:
    scored = stored.run.plan.get(SCORED)
    return scored if isinstance(scored, Mapping) else {}


def _text(scored: JsonObject, key: str) -> str | None:
    value = scored.get(key)
    return value if isinstance(value, str) else None


def _number(scored: JsonObject, key: str, default: int) -> int:
    value = scored.get(key)
    return value if isinstance(value, int) else default


def _options(stored: StoredRun, continuing: ContinueOptions, configuration: Path | None) -> ScoreOptions:
    """Return the options of a run, those of this command first. Raises ConfigError without a configuration's file."""
    scored, own = _scored(stored), stored_options(stored.run.plan)
    named = _text(scored, "config")
    path = configuration or (None if named is None else Path(named))
    if path is None:
        raise ConfigError(
            f"run {stored.run_id} was made from Python and has no configuration file; name one with --evaluators FILE"
        )
    if not path.is_file():
        raise ConfigError(f"{path}: no such file; run {stored.run_id} was scored by it")
    paths = scored.get("map")
    return ScoreOptions(
        config=path,
        output=None,
        sample=make_sample(None, by=None, seed=0),
        gates=_gates(stored),
        only="free" if scored.get("only") == "free" else None,
        judge=_text(scored, "judge"),
        workers=_number(scored, "workers", 8),
        max_errors=own.max_errors,
        judge_failures=continuing.judge_failures or own.judge_failures,
        display="auto",
        reading=LogReading(
            {key: str(value) for key, value in paths.items()} if isinstance(paths, Mapping) else {},
            "metadata" if scored.get("extra") == "metadata" else "error",
        ),
        allow_paths=tuple(dict.fromkeys((*own.allow_paths, *continuing.allow_paths))),
        target_field=_text(scored, "target_field"),
    )


def _gates(stored: StoredRun) -> tuple[str, ...] | None:
    gates = stored.run.plan.get("gates")
    if not isinstance(gates, list):
        return None
    return tuple(str(each.get("expression")) for each in gates if isinstance(each, Mapping))


def _plan(stored: StoredRun, home: Path, cwd: Path) -> ScoredPlan:
    """Return the plan of a run that has its run.json already."""
    return ScoredPlan(next(iter(stored.suites), ""), "", {}, home=home, folder=str(cwd))
