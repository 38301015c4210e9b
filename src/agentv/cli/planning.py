"""What `agentv run` does before the first call: read files, plan, and hand the plan to whoever runs or shows it.

Modules are imported step by step. What takes long by itself begins first: who will be asked, the state of git.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentv.cli.interrupts import leaving_on_interrupt
from agentv.cli.screen_options import Screen
from agentv.cli.streams import own_stdout
from agentv.loading.places import find_eval_files, find_home, find_repository_root
from agentv.pipeline.early_import import import_beside
from agentv.pipeline.git_state import begin_git_state
from agentv.pipeline.options import RunOptions

if TYPE_CHECKING:
    from agentv.cli.dry_run import DryRun
    from agentv.pipeline.plan import RunPlan


def run_paths(
    paths: Sequence[str], options: RunOptions, screen: Screen, dry_run: "DryRun | None", *, store: str | None = None
) -> int:
    """Plan and run eval files; returns the exit code. What their code prints goes to standard error.

    `store` is the team's database as `--store` names it; without, the environment and `.agentv.yaml` may.
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

            from agentv.pipeline.inputs import load_inputs
            from agentv.pipeline.planning import make_plan
            from agentv.pipeline.team_store import kept_name, named_store, secrets_of_store

            shared_in = None if dry_run is not None else named_store(store, cwd=cwd, env=os.environ)
            secrets = secrets_of_store(shared_in, os.environ)
            inputs = load_inputs(files, options, cwd=cwd, env=os.environ, secrets=secrets)
            home = find_home(cwd)

            def planned(options: RunOptions) -> "RunPlan":
                plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
                return replace(plan, paths=tuple(paths), folder=str(cwd), store=kept_name(store, shared_in), git=git)

            plan = planned(options)
        if dry_run is not None:
            from agentv.cli.dry_run import run_pilot, show_plan

            if dry_run.pilot is not None:
                run_pilot(dry_run.pilot, options, planned, stdout)
            return show_plan(plan, dry_run, cwd, stdout)

        from agentv.cli.running import run_shown
        from agentv.pipeline.keeping import make_store

        return run_shown(plan, screen, stdout, lambda clock: (make_store(plan, clock=clock, shared_in=shared_in), None))
