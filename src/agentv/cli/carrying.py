"""What `agentv resume` and its like do: find the run, read its files again, and go on in its folder."""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from agentv.cli.run_outputs import Screen
from agentv.cli.running import run_shown
from agentv.cli.streams import own_stdout
from agentv.loading import choose_store, find_home
from agentv.pipeline.carry_on import CarryOn, Purpose, make_carry_on
from agentv.pipeline.keeping import refuse_second_writer, reopen_store, shared
from agentv.pipeline.new_evaluators import with_evaluators_of
from agentv.pipeline.plan import RunPlan
from agentv.pipeline.planning import SuiteInput
from agentv.pipeline.provenance import changed_code, load_git_state
from agentv.pipeline.selection import is_meant
from agentv.pipeline.stored_plan import ChangeInputs, load_stored_plan, working_folder
from agentv.registry import Specs
from agentv.scoring.summary import row_state
from agentv.storage.find_run import find_run, list_run_folders
from agentv.storage.stored_run import StoredRun, open_run
from agentv.types.errors import ConfigError, StorageError
from agentv.types.json_value import JsonObject
from agentv.types.protocols import Clock, ResultStore
from agentv.types.results import CaseResult


def _unchanged(suites: tuple[SuiteInput, ...], _specs: Specs) -> tuple[SuiteInput, ...]:
    return suites


def resume(reference: str | None, screen: Screen, *, fresh: bool) -> int:
    """Finish a run; returns the exit code. `fresh` does not use answers of targets whose code is another now."""
    home = find_home(Path.cwd())
    folder = _latest_unfinished(home) if reference is None else find_run(home, reference)

    def prepare(carry_on: CarryOn, plan: RunPlan, run: StoredRun) -> CarryOn:
        changed = _changed_targets(plan, run)
        for name, what in changed.items():
            done = "it is asked anew" if fresh else "its answers are kept; --fresh asks anew"
            click.echo(f"target {name!r}: not the same code as when the run began ({what}); {done}", err=True)
        return replace(carry_on, fresh=frozenset(changed)) if fresh else carry_on

    return carry_on_with(folder, screen, "resume", prepare=prepare, is_anew=fresh)


def retry(reference: str, screen: Screen, *, only: str, globs: Sequence[str]) -> int:
    """Do chosen rows of a finished run again; returns the exit code. `only` is `errors`, `failed` or `cases`."""
    folder = _finished(reference)
    stored = open_run(folder)

    def again(row: CaseResult) -> bool:
        if only == "cases":
            return any(is_meant(row.eval_id, glob) for glob in globs)
        return row_state(row) == "error" or (only == "failed" and row_state(row) not in ("pass", "skipped"))

    if not any(map(again, stored.results())):
        raise ConfigError(f"run {stored.run_id} has no such row; there is nothing to do again")
    told: JsonObject = {"only": only, "cases": list(globs)}
    return carry_on_with(
        folder,
        screen,
        "retry",
        prepare=lambda left, _plan, _run: replace(left, again=again),
        told=told,
        is_anew=True,
    )


def rescore(reference: str, screen: Screen, *, evaluators: str | None) -> int:
    """Judge the stored answers of a run again; returns the exit code. `evaluators` is a file of new ones."""
    folder = _finished(reference)
    change = _unchanged if evaluators is None else partial(with_evaluators_of, Path(evaluators).resolve())
    return carry_on_with(folder, screen, "rescore", change=change, told={"evaluators": evaluators})


def carry_on_with(
    folder: Path,
    screen: Screen,
    purpose: Purpose,
    *,
    prepare: Callable[[CarryOn, RunPlan, StoredRun], CarryOn] = lambda carry_on, _plan, _run: carry_on,
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
        plan = load_stored_plan(stored.run, home, cwd=cwd, env=os.environ, change=change, is_anew=is_anew)

        store_url = choose_store(None, cwd, os.environ)

        def open_store(clock: Clock) -> tuple[ResultStore, CarryOn]:
            store = shared(store_url, lambda: reopen_store(folder, clock=clock))
            try:
                carry_on = prepare(make_carry_on(plan, stored, purpose), plan, stored)
            except BaseException:
                store.close("interrupted")
                raise
            if told is not None:
                store.note("generation_started", {"purpose": purpose, **told})
            return store, carry_on

        return run_shown(plan, screen, stdout, open_store)


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
