"""The implementation of resume, retry and rescore: find the run, read its files again, continue in its folder."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path

import click
from msgspec.structs import replace

from agentv.cli.options import OutputOptions
from agentv.cli.running.resume_options import ContinueOptions
from agentv.cli.running.running import run_and_report
from agentv.cli.terminal import own_stdout
from agentv.engine.planning.judges import DEFAULT_JUDGE_WORKERS
from agentv.engine.planning.plan import RunPlan
from agentv.engine.planning.provenance import changed_code, load_git_state
from agentv.engine.planning.team_store import quota_of_run, secrets_of_store, store_of_run
from agentv.engine.running.run_stores import open_quota, refuse_second_writer, reopen_store, with_team_store
from agentv.engine.stored.imported import imported_log
from agentv.engine.stored.judged_by import refuse_changed_judges
from agentv.engine.stored.report import refuse_changed_results
from agentv.engine.stored.resume import (
    GENERATION_STARTED,
    Purpose,
    RequestedGeneration,
    ResumePlan,
    load_spent,
    make_resume_plan,
    row_selector,
    unfinished_generation,
    was_stopped_by_judge,
    why_unmatched,
)
from agentv.engine.stored.stored_plan import ChangeInputs, load_stored_plan, with_evaluators_of, working_folder
from agentv.loading.files.places import find_home
from agentv.scoring.keys.identity import target_key
from agentv.storage.files.run_file import whole_lines
from agentv.storage.run.find import find_run, find_unfinished
from agentv.storage.run.stored import TARGET_CHANGED, StoredRun, open_run
from agentv.types.errors import ConfigError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock, ResultStore

_NEW_RUN = "To measure the changed target, start a new run with: agentv run"
_RERUNS = f"cases that it has answered are re-run, but their first answers count. {_NEW_RUN}"


def resume(reference: str | None, output: OutputOptions, continue_options: ContinueOptions, *, fresh: bool) -> int:
    """Finish a run; return the exit code. `fresh` discards answers of targets whose code has changed."""
    home = find_home(Path.cwd())
    folder = find_unfinished(home) if reference is None else find_run(home, reference)
    _refuse_running(folder)
    stored = open_run(folder)
    unfinished = None if fresh else unfinished_generation(stored)
    if stored.has_given_answers and fresh:
        raise ConfigError(f"run {stored.run_id} scores logged answers and calls no target; omit --fresh")
    if stored.has_given_answers and unfinished is None:
        from agentv.cli.running.scored import score_rest

        return score_rest(stored, output, continue_options)
    if unfinished is not None:
        click.echo(f"continuing the unfinished {unfinished.purpose} of this run", err=True)
        return _run_generation(folder, output, continue_options, unfinished)

    def prepare(resume_plan: ResumePlan, plan: RunPlan, run: StoredRun) -> ResumePlan:
        changed = _changed_targets(plan, run)
        for name, change in changed.items():
            effect = _RERUNS if fresh else f"its stored answers are used; --fresh calls it again. {_NEW_RUN}"
            click.echo(f"target {name!r}: its code has changed since the run began ({change}); {effect}", err=True)
        return replace(resume_plan, targets_called_again=frozenset(changed)) if fresh else resume_plan

    return continue_run(folder, output, "resume", continue_options, prepare=prepare, ignores_cache=fresh)


def retry(
    reference: str, output: OutputOptions, continue_options: ContinueOptions, *, only: str, globs: Sequence[str]
) -> int:
    """Re-run the chosen cases of a finished run; return the exit code. `only` is `errors`, `failed` or `cases`."""
    folder = _finished_folder(reference)
    stored = open_run(folder)
    # A re-run that confirms a regression is called again, too, if it has an error.
    confirming = (row for row in stored.reruns() if only == "errors" and row.rerun == "confirm")
    if not any(map(row_selector(only, globs), chain(stored.results(), confirming))):
        raise ConfigError(f"run {stored.run_id} has no {_selection_text(only, globs)}; nothing to retry")
    unmatched = why_unmatched(stored, globs)
    if unmatched is not None:
        raise ConfigError(unmatched)
    rows = sum(1 for _ in whole_lines(folder / "results.jsonl"))
    generation = RequestedGeneration("retry", only, tuple(globs), rows=rows)
    return _run_generation(folder, output, continue_options, generation, start_event=generation.to_event())


def _selection_text(only: str, globs: Sequence[str]) -> str:
    """Return a description of the results that a retry selects, for a message."""
    texts = {"errors": "results with an error", "failed": "results that failed or have an error"}
    return texts.get(only) or f"results of --case {' or '.join(map(repr, globs))}"


def rescore(reference: str, output: OutputOptions, continue_options: ContinueOptions, *, evaluators: str | None) -> int:
    """Evaluate the stored answers of a run again; return the exit code. `evaluators` is a file of new evaluators."""
    folder = _finished_folder(reference).resolve()
    # Relative to the project, so that a later resume finds it from any working folder.
    relative = None if evaluators is None else os.path.relpath(Path(evaluators).resolve(), _project_of(folder))
    generation = RequestedGeneration("rescore", evaluators=relative)
    return _run_generation(folder, output, continue_options, generation, start_event=generation.to_event())


def _run_generation(
    folder: Path,
    output: OutputOptions,
    continue_options: ContinueOptions,
    generation: RequestedGeneration,
    *,
    start_event: JsonObject | None = None,
) -> int:
    """Start a generation, which is one retry or rescore of a run, or continue an unfinished one.

    `start_event` is the event that records a new generation; None to continue one.
    """
    stored = open_run(folder)
    evaluators = None
    if generation.evaluators is not None:
        evaluators = Path(_project_of(folder.resolve()), generation.evaluators).resolve()
    if stored.has_given_answers:
        from agentv.cli.running.scored import score_again

        is_chosen = None
        if generation.purpose == "retry":
            is_chosen = row_selector(generation.only, generation.globs, first_retried_line=generation.rows or None)
        return score_again(stored, output, continue_options, generation, is_chosen=is_chosen, configuration=evaluators)
    if generation.purpose == "retry":
        # If a failing judge stopped this retry, the results that it wrote with a judge error are repeated as well.
        rejudges = start_event is None and was_stopped_by_judge(open_run(folder))
        should_rerun = row_selector(
            generation.only, generation.globs, first_retried_line=generation.rows, rejudges=rejudges
        )
        return continue_run(
            folder,
            output,
            "retry",
            continue_options,
            prepare=lambda resume_plan, _plan, _run: replace(
                resume_plan,
                should_rerun=should_rerun,
                first_retried_line=generation.rows,
                rerun="case" if generation.only == "cases" else "failed",
                rejudges=rejudges,
            ),
            start_event=start_event,
            ignores_cache=True,
        )
    change = None
    if evaluators is not None:
        change = partial(with_evaluators_of, evaluators, allow_paths=continue_options.allow_paths)
    return continue_run(folder, output, "rescore", continue_options, change=change, start_event=start_event)


def _refuse_running(folder: Path) -> None:
    """Refuse a run that another process writes, and report what a killed process left behind."""
    note = refuse_second_writer(folder)
    if note is not None:
        click.echo(f"note: {note}", err=True)


def continue_run(
    folder: Path,
    output: OutputOptions,
    purpose: Purpose,
    continue_options: ContinueOptions,
    *,
    prepare: Callable[[ResumePlan, RunPlan, StoredRun], ResumePlan] = lambda resume_plan, _plan, _run: resume_plan,
    change: ChangeInputs | None = None,
    start_event: JsonObject | None = None,
    ignores_cache: bool = False,
) -> int:
    """Continue a stored run; return the exit code. What user code prints goes to standard error.

    `prepare` adjusts the resume plan, and `change` the suites after they are read. `start_event` starts a new
    generation. With `ignores_cache` the answer cache is not read.
    """
    folder = folder.resolve()
    _refuse_running(folder)
    stored = open_run(folder)
    notes = refuse_changed_results(stored, may_lack_results=True)
    if purpose != "rescore":
        refuse_changed_judges(stored)
    home = folder.parent.parent
    with own_stdout() as stdout:
        cwd = working_folder(stored.run, home)
        os.chdir(cwd)  # relative paths start from the folder that the run was started in
        store_url = store_of_run(stored.run, continue_options.store, cwd=cwd, env=os.environ)
        quota = quota_of_run(stored.run, continue_options.quota, store_url, cwd=cwd, env=os.environ)
        plan = load_stored_plan(
            stored.run,
            home,
            cwd=cwd,
            env=os.environ,
            change_inputs=change,
            ignores_cache=ignores_cache,
            budget_usd=continue_options.budget_usd,
            judge_failures=continue_options.judge_failures,
            backend=continue_options.backend,
            ray_address=continue_options.ray_address,
            shared_path=continue_options.shared_path,
            secrets=(*secrets_of_store(store_url, os.environ), *secrets_of_store(quota.url, os.environ)),
            allow_paths=continue_options.allow_paths,
        )
        plan = replace(plan, warnings=(*continue_options.notes, *notes, *plan.warnings))
        if purpose == "rescore":
            plan = replace(plan, default_workers=DEFAULT_JUDGE_WORKERS)

        def open_store(clock: Clock) -> tuple[ResultStore, ResumePlan]:
            store = with_team_store(store_url, plan.specs, lambda: reopen_store(folder, clock=clock))
            try:
                resume_plan = prepare(make_resume_plan(plan, stored, purpose), plan, stored)
                if continue_options.budget_usd is None and plan.options.budget_usd is not None:
                    resume_plan = replace(resume_plan, spent=load_spent(stored))
            except BaseException:
                store.close("interrupted")
                raise
            if start_event is not None:
                store.note(GENERATION_STARTED, start_event)
            if resume_plan.calls_targets:
                _record_changed_targets(plan, resume_plan, store)
            return store, resume_plan

        return run_and_report(plan, output, stdout, open_store, quota=open_quota(quota, plan))


def _record_changed_targets(plan: RunPlan, resume_plan: ResumePlan, store: ResultStore) -> None:
    """Report and record the targets whose settings have changed, so that their answers are known as re-runs."""
    for target in plan.targets:
        known, key = resume_plan.target_keys.get(target.name), target_key(target)
        if known is not None and key not in known:
            click.echo(f"target {target.name!r}: its settings have changed since the run began; {_RERUNS}", err=True)
            store.note(TARGET_CHANGED, {"name": target.name, "key": key})


def _project_of(folder: Path) -> Path:
    """Return the project folder of a run: the parent of its `.agentv`."""
    return folder.parent.parent.parent


def _finished_folder(reference: str) -> Path:
    """Return the folder of a finished run. Raises ConfigError for an unfinished one."""
    folder = find_run(find_home(Path.cwd()), reference)
    _refuse_running(folder)
    stored = open_run(folder)
    log = imported_log(stored.run.plan)
    if log is not None:
        raise ConfigError(f"run {stored.run_id} {log.refusal}")
    if stored.state() != "finished":
        raise ConfigError(f"run {stored.run_id} is not finished; first run: agentv resume {stored.run_id}")
    return folder


def _changed_targets(plan: RunPlan, run: StoredRun) -> dict[str, str]:
    """Return what has changed in the code of the targets, by target; unchanged targets are left out."""
    folders = [suite.suite.base_dir for suite in plan.suites]
    roots = [suite.suite.repository_root for suite in plan.suites]
    git = load_git_state(roots[0]) if roots else None
    changes = {target.name: changed_code(target, run.run, folders, git) for target in plan.targets}
    return {name: change for name, change in changes.items() if change is not None}
