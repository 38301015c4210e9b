"""What `agentv resume` and its like do: find the run, read its files again, and go on in its folder."""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
from msgspec.structs import replace

from agentv.cli.running.resume_options import Leg
from agentv.cli.running.running import run_shown
from agentv.cli.screen_options import Screen
from agentv.cli.terminal import own_stdout
from agentv.engine.planning.inputs import SuiteInput
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.keeping import refuse_second_writer, reopen_store, shared
from agentv.engine.running.provenance import changed_code, load_git_state
from agentv.engine.running.spent import load_spent
from agentv.engine.stored.new_evaluators import with_evaluators_of
from agentv.engine.stored.resume import (
    GENERATION_STARTED,
    Purpose,
    RequestedGeneration,
    ResumePlan,
    chosen_rows,
    make_carry_on,
    unfinished_generation,
)
from agentv.engine.stored.stored_plan import ChangeInputs, load_stored_plan, working_folder
from agentv.engine.stored.team_store import secrets_of_store, store_of_run
from agentv.loading.files.places import find_home
from agentv.registry import Specs
from agentv.storage.run.find import find_run, list_run_folders
from agentv.storage.run.line_file import whole_lines
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import ConfigError, StorageError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock, ResultStore


def _unchanged(suites: tuple[SuiteInput, ...], _specs: Specs) -> tuple[SuiteInput, ...]:
    return suites


def resume(reference: str | None, screen: Screen, leg: Leg, *, fresh: bool) -> int:
    """Finish a run; returns the exit code. `fresh` does not use answers of targets whose code is another now."""
    home = find_home(Path.cwd())
    folder = _latest_unfinished(home) if reference is None else find_run(home, reference)
    refuse_second_writer(folder)
    begun = None if fresh else unfinished_generation(open_run(folder))
    if begun is not None:
        click.echo(f"going on with the {begun.purpose} of this run that did not finish", err=True)
        return _do_again(folder, screen, leg, begun)

    def prepare(carry_on: ResumePlan, plan: RunPlan, run: StoredRun) -> ResumePlan:
        changed = _changed_targets(plan, run)
        for name, what in changed.items():
            done = "it is asked anew" if fresh else "its answers are kept; --fresh asks anew"
            click.echo(f"target {name!r}: not the same code as when the run began ({what}); {done}", err=True)
        return replace(carry_on, fresh=frozenset(changed)) if fresh else carry_on

    return carry_on_with(folder, screen, "resume", leg, prepare=prepare, is_anew=fresh)


def retry(reference: str, screen: Screen, leg: Leg, *, only: str, globs: Sequence[str]) -> int:
    """Do chosen rows of a finished run again; returns the exit code. `only` is `errors`, `failed` or `cases`."""
    folder = _finished(reference)
    stored = open_run(folder)
    if not any(map(chosen_rows(only, globs), stored.results())):
        raise ConfigError(f"run {stored.run_id} has no such row; there is nothing to do again")
    rows = sum(1 for _ in whole_lines(folder / "results.jsonl"))
    asked = RequestedGeneration("retry", only, tuple(globs), rows=rows)
    return _do_again(folder, screen, leg, asked, told=asked.to_event())


def rescore(reference: str, screen: Screen, leg: Leg, *, evaluators: str | None) -> int:
    """Judge the stored answers of a run again; returns the exit code. `evaluators` is a file of new ones."""
    folder = _finished(reference).resolve()
    # Beside the .agentv folder, so that whoever goes on finds it, wherever he stands.
    named = None if evaluators is None else os.path.relpath(Path(evaluators).resolve(), _project_of(folder))
    asked = RequestedGeneration("rescore", evaluators=named)
    return _do_again(folder, screen, leg, asked, told=asked.to_event())


def _do_again(
    folder: Path, screen: Screen, leg: Leg, asked: RequestedGeneration, *, told: JsonObject | None = None
) -> int:
    """Do what a retry or rescore was asked to do, all of it or what is left; with `told` it begins."""
    if asked.purpose == "retry":
        again = chosen_rows(asked.only, asked.globs, before=asked.rows)
        return carry_on_with(
            folder,
            screen,
            "retry",
            leg,
            prepare=lambda left, _plan, _run: replace(left, again=again),
            told=told,
            is_anew=True,
        )
    change = _unchanged
    if asked.evaluators is not None:
        change = partial(with_evaluators_of, Path(_project_of(folder.resolve()), asked.evaluators).resolve())
    return carry_on_with(folder, screen, "rescore", leg, change=change, told=told)


def carry_on_with(
    folder: Path,
    screen: Screen,
    purpose: Purpose,
    leg: Leg,
    *,
    prepare: Callable[[ResumePlan, RunPlan, StoredRun], ResumePlan] = lambda carry_on, _plan, _run: carry_on,
    change: ChangeInputs = _unchanged,
    told: JsonObject | None = None,
    is_anew: bool = False,
) -> int:
    """Take a stored run up again; returns the exit code. What its files' code prints goes to standard error.

    `prepare` completes what is left to do, `change` alters the suites as they were read. With `told` a
    generation begins, and that is kept of it. With `is_anew` no cache answers.
    """
    folder = folder.resolve()
    refuse_second_writer(folder)
    stored = open_run(folder)
    home = folder.parent.parent
    with own_stdout() as stdout:
        cwd = working_folder(stored.run, home)
        os.chdir(cwd)  # eval files and what they name are called from there, as they were
        shared_in = store_of_run(stored.run, leg.store, cwd=cwd, env=os.environ)
        plan = load_stored_plan(
            stored.run,
            home,
            cwd=cwd,
            env=os.environ,
            change=change,
            is_anew=is_anew,
            budget_usd=leg.budget_usd,
            secrets=secrets_of_store(shared_in, os.environ),
        )

        def open_store(clock: Clock) -> tuple[ResultStore, ResumePlan]:
            store = shared(shared_in, lambda: reopen_store(folder, clock=clock))
            try:
                carry_on = prepare(make_carry_on(plan, stored, purpose), plan, stored)
                if leg.budget_usd is None and plan.options.budget_usd is not None:
                    carry_on = replace(carry_on, spent=load_spent(stored))
            except BaseException:
                store.close("interrupted")
                raise
            if told is not None:
                store.note(GENERATION_STARTED, told)
            return store, carry_on

        return run_shown(plan, screen, stdout, open_store)


def _project_of(folder: Path) -> Path:
    """Return the folder that the `.agentv` of a run lies in."""
    return folder.parent.parent.parent


def _finished(reference: str) -> Path:
    """Return the folder of a run. Raises ConfigError for one that has not all of its rows."""
    folder = find_run(find_home(Path.cwd()), reference)
    refuse_second_writer(folder)
    stored = open_run(folder)
    if stored.state() != "finished":
        raise ConfigError(f"run {stored.run_id} did not finish; first agentv resume {stored.run_id}")
    return folder


def _latest_unfinished(home: Path) -> Path:
    folders = list_run_folders(home)
    for folder in reversed(folders):
        try:
            if open_run(folder).state() != "finished":
                return folder
        except StorageError:
            continue
    if not folders:
        raise ConfigError("no run is stored yet; `agentv run` makes one")
    raise ConfigError("every run is finished; `agentv resume latest` does what was edited or added since")


def _changed_targets(plan: RunPlan, run: StoredRun) -> dict[str, str]:
    """Return what is another of the code of targets, by target."""
    folders = [suite.suite.base_dir for suite in plan.suites]
    roots = [suite.suite.repository_root for suite in plan.suites]
    git = load_git_state(roots[0]) if roots else None
    found = {target.name: changed_code(target, run.run, folders, git) for target in plan.targets}
    return {name: what for name, what in found.items() if what is not None}
