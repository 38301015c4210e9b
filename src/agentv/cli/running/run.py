"""`agentv run`: read the files, make the plan, then run or print it, and give a verdict.

Slow work, importing the providers and reading the state of git, starts in the background before most modules of
planning are imported.
"""

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.core import ParameterSource
from msgspec.structs import replace

from agentv.cli.environment import environment_notes, variables_in_force
from agentv.cli.main import EXIT_INTERRUPTED
from agentv.cli.option_groups import GroupedCommand
from agentv.cli.options import OutputOptions, run_option, take_output_options, with_output_options
from agentv.cli.synonyms import our_option
from agentv.cli.terminal import own_stdout
from agentv.engine.planning.provenance import GitState, begin_git_state
from agentv.engine.running.early_import import import_in_background
from agentv.loading.files.kinds import ROW_SUFFIXES
from agentv.loading.files.places import (
    find_eval_files,
    find_home,
    find_repository_root,
    relative_to_cwd,
    skipped_lines,
)
from agentv.types.errors import ConfigError
from agentv.types.run_options import RunOptions, make_options, run_options

if TYPE_CHECKING:
    from agentv.cli.running.dry_run import DryRun
    from agentv.engine.planning.plan import RunPlan


@contextmanager
def exit_on_interrupt() -> Iterator[None]:
    """Make Ctrl-C end the process at once instead of interrupting an import.

    Use it only where nothing is called or stored. If the process ignores SIGINT or has its own handler,
    nothing is changed.
    """
    handler = signal.getsignal(signal.SIGINT)
    if handler is not signal.default_int_handler or current_thread() is not main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda _number, _frame: os._exit(EXIT_INTERRUPTED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def run_paths(
    paths: Sequence[str],
    given: Mapping[str, Any],
    output: OutputOptions,
    dry_run: "DryRun | None",
    *,
    store: str | None = None,
    quota: str | None = None,
    environment: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> int:
    """Plan and run eval files; return the exit code. Output of the files' own code goes to standard error.

    `given` are the given options of the run. `store` is the value of `--store`; None falls back to the environment and
    `.agentv.yaml`. `quota` is the value of `--quota`; None falls back to the store. `environment` are the variables
    that set options; `notes` come before those of the plan.
    """
    options = make_options(given)
    with own_stdout() as stdout:
        cwd = Path.cwd()
        paths = _paths_to_run(paths, cwd)
        files = find_eval_files(paths, cwd=cwd)
        _check_judged(files, options, cwd)
        with ExitStack() as background:
            git = _begin_slow_work(files[0], options, cwd, background) if dry_run is None and files else None

            from agentv.engine.planning.inputs import load_inputs, project_options, unchecked_plugin_warnings
            from agentv.engine.planning.planning import make_plan
            from agentv.engine.planning.selection import refuse_unmatched
            from agentv.engine.planning.team_store import named_quota, named_store, recorded_name, secrets_of_store

            options = make_options(given, project_options((file.parent for file in files), given))
            store_url = None if dry_run is not None else named_store(store, cwd=cwd, env=os.environ)
            chosen_quota = named_quota(quota, store_url)
            secrets = (*secrets_of_store(store_url, os.environ), *secrets_of_store(chosen_quota.url, os.environ))
            # A dry run executes no code of the project, unless it has a pilot, which runs cases.
            can_import = dry_run is None or dry_run.pilot is not None
            inputs = load_inputs(files, options, cwd=cwd, env=os.environ, secrets=secrets, plugins_imported=can_import)
            refuse_unmatched([each.suite for each in inputs.suites], options)
            home = str(find_home(cwd))
            skipped = skipped_lines(paths, cwd=cwd, found=files)

            def plan_with(options: RunOptions) -> "RunPlan":
                plan = make_plan(inputs.suites, options, specs=inputs.specs, home=home, project_gates=inputs.gates)
                return replace(
                    plan,
                    paths=tuple(paths),
                    folder=str(cwd),
                    store=recorded_name(store, store_url),
                    quota=chosen_quota.recorded,
                    git=git,
                    environment=environment,
                    warnings=(*notes, *skipped, *plan.warnings, *unchecked_plugin_warnings(inputs)),
                )

            plan = plan_with(options)
        if dry_run is not None:
            return _run_dry(dry_run, plan, plan_with, options=options, stdout=stdout)

        from agentv.cli.running.running import run_and_report
        from agentv.engine.running.run_stores import make_store, open_quota

        return run_and_report(
            plan,
            output,
            stdout,
            lambda clock: (make_store(plan, clock=clock, store_url=store_url), None),
            quota=open_quota(chosen_quota, plan),
        )


def _check_judged(files: Sequence[Path], options: RunOptions, cwd: Path) -> None:
    """Raise ConfigError for a file of rows without evaluators, unless there is `--evaluator`."""
    tables = [file for file in files if file.suffix.lower() in (*ROW_SUFFIXES, ".json")]
    if not tables or options.row_evaluators:
        return
    from agentv.loading.suites.short_evaluators import advice_on_rows, lacks_evaluators

    unjudged = next(filter(lacks_evaluators, tables), None)
    if unjudged is not None:
        from agentv.importers.recognition import other_program

        if other_program(unjudged) is None:
            raise ConfigError(advice_on_rows(unjudged, relative_to_cwd(unjudged, cwd)))


def _begin_slow_work(file: Path, options: RunOptions, cwd: Path, background: ExitStack) -> Callable[[], GitState]:
    """Begin to import providers and to read the state of git, which is returned; `background` waits for the imports."""
    git = begin_git_state(str(find_repository_root(file)))
    background.enter_context(exit_on_interrupt())
    background.callback(import_in_background(file.parent, options, cwd=cwd).join)
    return git


def _paths_to_run(paths: Sequence[str], cwd: Path) -> Sequence[str]:
    """Return the paths of the command line; if it has none, the default paths."""
    if paths:
        return paths
    from agentv.loading.project import paths_to_read

    return [str(path) for path in paths_to_read(paths, cwd=cwd)]


def _run_dry(
    dry_run: "DryRun",
    plan: "RunPlan",
    plan_with: "Callable[[RunOptions], RunPlan]",
    *,
    options: RunOptions,
    stdout: TextIO,
) -> int:
    """Run the pilot if one is requested, then print the plan; return the exit code."""
    from agentv.cli.running.dry_run import run_pilot, show_plan

    if dry_run.pilot is not None:
        run_pilot(dry_run.pilot, options, plan_with, stdout)
    return show_plan(plan, dry_run, Path.cwd(), stdout)


def _with_run_options(function: Callable[..., Any]) -> Any:
    for option in reversed(run_options()):
        function = run_option(option.name)(function)
    return function


@click.command("run", cls=GroupedCommand, context_settings={"token_normalize_func": our_option})
@click.argument("paths", nargs=-1, metavar="[PATHS]...")
@_with_run_options
@click.option(
    "--store",
    metavar="URL",
    help="Also store the run in this team database (default: AGENTV_STORE, else .agentv.yaml); 'none': in no database.",
)
@click.option(
    "--quota",
    metavar="URL",
    help="Share rate limits and named budgets through this database (default: --store).",
)
@with_output_options(json_help="Same as --display json; with --dry-run, the plan as one JSON object.")
@click.option("--dry-run", is_flag=True, help="Print the plan and a cost estimate instead of running.")
@click.option(
    "--pilot",
    type=click.IntRange(min=1),
    metavar="N",
    help="With --dry-run: really run N cases, to estimate the cost of all.",
)
@click.option("--dump-prompts", metavar="FOLDER", help="Write every rendered prompt to FOLDER without making calls.")
@click.pass_context
def command(context: click.Context, /, paths: tuple[str, ...], **given: Any) -> int:
    """Run eval files against targets and give a verdict.

    PATHS are eval files or folders of them (default: evals/), or files of rows with --evaluator. Targets are agents and
    models, defined in a targets file. Each option has a variable, such as AGENTV_RUN_WORKERS for --workers.

    A gate is a condition for exit code 0. Without --gate, the gates of the eval files or of .agentv.yaml apply; if
    there are none, every judged result must pass.

    Exit codes: 0 all gates passed; 1 a gate failed; 3 incomplete: more errors than --max-errors, no judged result, or
    the run could not continue; 2 stopped by --fail-fast or the budget, and neither 1 nor 3 applies; 4 invalid usage or
    files; 5 no case selected; 130 or 143 interrupted by Ctrl-C or SIGTERM.
    """
    output = take_output_options(given)
    prompts_folder = given.pop("dump_prompts")
    store, quota, pilot = given.pop("store"), given.pop("quota"), given.pop("pilot")
    is_dry = given.pop("dry_run") or prompts_folder
    if pilot is not None and not is_dry:
        raise click.UsageError("--pilot requires --dry-run; to run only N cases, use --sample N")
    if is_dry:
        from agentv.cli.running.dry_run import DryRun

        dry_run = DryRun(prompts_folder, as_json=output.display == "json", pilot=pilot)
    else:
        dry_run = None
    return run_paths(
        paths,
        given_options(context),
        output,
        dry_run,
        store=store,
        quota=quota,
        environment=variables_in_force(context),
        notes=environment_notes(context),
    )


def given_options(context: click.Context) -> dict[str, Any]:
    """Return the options of the run that are on the command line."""
    return {
        option.name: context.params[option.name]
        for option in run_options()
        if context.get_parameter_source(option.name) is not ParameterSource.DEFAULT
    }
