"""The part of `agentv run` before the first call: read the files, make the plan, then run or print it.

Modules are imported step by step. Slow work starts first: importing the providers, reading the state of git.
"""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.cli.main import EXIT_INTERRUPTED
from agentv.cli.screen_options import OutputOptions
from agentv.cli.terminal import own_stdout
from agentv.engine.planning.options import RunOptions
from agentv.engine.running.early_import import import_beside
from agentv.engine.running.provenance import begin_git_state
from agentv.loading.files.places import find_eval_files, find_home, find_repository_root

if TYPE_CHECKING:
    from agentv.cli.running.dry_run import DryRun
    from agentv.engine.planning.plan import RunPlan


@contextmanager
def leaving_on_interrupt() -> Iterator[None]:
    """Let Ctrl-C end the process at once: no call was made, nothing is stored, and imports must not be interrupted.

    A process that ignores SIGINT or has its own handler keeps that.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def run_paths(
    paths: Sequence[str],
    options: RunOptions,
    output: OutputOptions,
    dry_run: "DryRun | None",
    *,
    store: str | None = None,
) -> int:
    """Plan and run eval files; return the exit code. Output of the files' own code goes to standard error.

    `store` is the value of `--store`; None falls back to the environment and `.agentv.yaml`.
    """
    with own_stdout() as stdout:
        cwd = Path.cwd()
        files = find_eval_files(paths, cwd=cwd)
        with ExitStack() as beside:
            git = None
            if dry_run is None and files:
                git = begin_git_state(str(find_repository_root(files[0])))
                beside.enter_context(leaving_on_interrupt())
                beside.callback(import_beside(files[0].parent, options, cwd=cwd).join)

            from agentv.engine.planning.inputs import load_inputs, unknown_parts
            from agentv.engine.planning.planning import make_plan
            from agentv.engine.stored.team_store import kept_name, named_store, secrets_of_store
            from agentv.loading.files.skipped import find_skipped_files, skipped_lines

            store_url = None if dry_run is not None else named_store(store, cwd=cwd, env=os.environ)
            secrets = secrets_of_store(store_url, os.environ)
            # A dry run imports and starts nothing; a pilot is a run.
            is_imported = dry_run is None or dry_run.pilot is not None
            inputs = load_inputs(files, options, cwd=cwd, env=os.environ, secrets=secrets, plugins_imported=is_imported)
            home = find_home(cwd)
            skipped = tuple(skipped_lines(find_skipped_files(paths, cwd=cwd, found=files), cwd))

            def planned(options: RunOptions) -> "RunPlan":
                plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
                return replace(
                    plan,
                    paths=tuple(paths),
                    folder=str(cwd),
                    store=kept_name(store, store_url),
                    git=git,
                    warnings=(*skipped, *plan.warnings, *unknown_parts(inputs)),
                )

            plan = planned(options)
        if dry_run is not None:
            from agentv.cli.running.dry_run import run_pilot, show_plan

            if dry_run.pilot is not None:
                run_pilot(dry_run.pilot, options, planned, stdout)
            return show_plan(plan, dry_run, cwd, stdout)

        from agentv.cli.running.running import run_and_report
        from agentv.engine.running.run_stores import make_store

        return run_and_report(
            plan, output, stdout, lambda clock: (make_store(plan, clock=clock, store_url=store_url), None)
        )
