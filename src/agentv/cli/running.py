"""What `agentv run` does: read, plan, run with a screen, stop cleanly on a signal, say the verdict."""

import asyncio
import gc
import os
import random
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO, TypeAlias

import click

from agentv.cli.main import with_loss
from agentv.cli.run_outputs import Screen, losses, open_outputs
from agentv.cli.stopping import show_cursor, stopping_on_signals
from agentv.cli.streams import own_stdout
from agentv.loading import find_home
from agentv.pipeline.carry_on import CarryOn
from agentv.pipeline.clock import make_clock
from agentv.pipeline.dry_run import describe_plan, plan_to_json, write_prompts
from agentv.pipeline.early_import import import_beside
from agentv.pipeline.history import load_forecast
from agentv.pipeline.inputs import load_inputs
from agentv.pipeline.keeping import make_store
from agentv.pipeline.ledger import Stop
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import RunPlan
from agentv.pipeline.planning import make_plan
from agentv.pipeline.run import run_plan
from agentv.pipeline.team_store import kept_name, named_store, secrets_of_store
from agentv.reports.amounts import count_text
from agentv.reports.end_table import end_report
from agentv.reports.exports import STDOUT
from agentv.reports.github import harmless, is_github
from agentv.reports.observers import choose_display
from agentv.reports.paint import choose_paint
from agentv.reports.printable import printable_json
from agentv.reports.row_text import RowLabels
from agentv.reports.signs import UNICODE, signs_for
from agentv.types.dataclass import dataclass
from agentv.types.errors import ConfigError
from agentv.types.events import Observer
from agentv.types.messages_json import pretty_json
from agentv.types.protocols import Clock, ResultStore
from agentv.types.results import RunReport

PILOT = "pilot"
"""The name of runs that were made for a forecast."""


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run that is planned and not started; `prompts_folder` takes the rendered prompts.

    `pilot` is how many cases are run all the same, for a forecast to be drawn from.
    """

    prompts_folder: str | None = None
    as_json: bool = False
    pilot: int | None = None


def run_paths(
    paths: Sequence[str], options: RunOptions, screen: Screen, dry_run: DryRun | None, *, store: str | None = None
) -> int:
    """Plan and run eval files; returns the exit code. What their code prints goes to standard error.

    `store` is the team's database as `--store` names it; without, the environment and `.agentv.yaml` may.
    """
    with own_stdout() as stdout:
        cwd = Path.cwd()
        home = find_home(cwd)
        shared_in = None if dry_run is not None else named_store(store, cwd=cwd, env=os.environ)
        secrets = secrets_of_store(shared_in, os.environ)
        foresee = None if dry_run is not None else import_beside
        inputs = load_inputs(paths, options, cwd=cwd, env=os.environ, secrets=secrets, foresee=foresee)
        plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
        plan = replace(plan, paths=tuple(paths), folder=str(cwd), store=kept_name(store, shared_in))
        if dry_run is not None and dry_run.pilot is not None:
            sampled = replace(options, sample=min(dry_run.pilot, options.sample or dry_run.pilot), name=PILOT, gates=())
            pilot = make_plan(inputs.suites, sampled, specs=inputs.specs, home=str(home))
            _run_pilot(replace(pilot, paths=tuple(paths), folder=str(cwd)), stdout)
        if dry_run is not None:
            return _show_plan(plan, dry_run, cwd, stdout)
        return run_shown(plan, screen, stdout, lambda clock: (make_store(plan, clock=clock, shared_in=shared_in), None))


def _run_pilot(plan: RunPlan, stdout: TextIO) -> None:
    """Run a few cases; they are kept as every run is, and what they used is history for the forecast."""
    code = run_shown(plan, Screen(display="none"), stdout, lambda clock: (make_store(plan, clock=clock), None))
    if code:
        click.echo(f"the pilot ended with exit code {code}; `agentv show latest` looks into it", err=True)


def _show_plan(plan: RunPlan, dry_run: DryRun, cwd: Path, stdout: TextIO) -> int:
    prompts = None if dry_run.prompts_folder is None else _dump(plan, cwd / dry_run.prompts_folder)
    if dry_run.as_json:
        click.echo(printable_json(pretty_json(plan_to_json(plan, load_forecast(plan), prompts))), file=stdout)
        return 0
    for warning in plan.warnings:
        click.echo(warning, err=True)
    click.echo(describe_plan(plan, load_forecast(plan)), file=stdout)
    if prompts is not None:
        click.echo(f"{count_text(prompts, 'prompt')} written to {dry_run.prompts_folder}", file=stdout)
    return 0


def _dump(plan: RunPlan, folder: Path) -> int:
    try:
        return write_prompts(plan, folder)
    except OSError as error:
        place = error.filename or folder
        raise ConfigError(f"--dump-prompts needs a folder to write into; {place}: {error.strerror}") from error


OpenStore: TypeAlias = Callable[[Clock], tuple[ResultStore, CarryOn | None]]
"""Opens where a run is kept; of one that was kept before, with what is left of it."""


def run_shown(plan: RunPlan, screen: Screen, stdout: TextIO, open_store: OpenStore) -> int:
    """Run, say what it came to, then what could not be written; return the exit code."""
    gc.freeze()  # all that was imported and read stays: one look for garbage in it takes 20 ms
    clock = make_clock()
    rng = random.Random(plan.options.seed)  # noqa: S311 - spreads retries, keeps no secret
    # What cannot be written is refused before the run has a folder.
    with open_outputs(screen, stdout, clock, formats=plan.specs.reports) as observers:
        report = asyncio.run(_run_with_signals(plan, open_store(clock), observers, clock, rng, leave=_leaving(stdout)))
    if screen.display not in ("json", "none"):
        written = [each.target for each in observers if each.target and each.target != STDOUT and not each.error]
        click.echo(_end_text(report, written, _labels(plan), screen, stdout), file=screen.stream(stdout), nl=False)
    code = report.exit_code
    for loss in losses(observers, stdout):
        code = with_loss(code, loss)
    return code


def _labels(plan: RunPlan) -> RowLabels:
    return RowLabels(with_suite=len(plan.suites) > 1, trials=plan.trials, with_target=len(plan.targets) > 1)


def _end_text(report: RunReport, files: Sequence[str], labels: RowLabels, screen: Screen, stdout: TextIO) -> str:
    """Return the report at the end: laid out for a terminal, or in plain lines where progress is plain too."""
    stream = screen.stream(stdout)
    is_terminal = stream.isatty()
    is_live = is_terminal and choose_display(screen.display, is_terminal=is_terminal, env=os.environ) == "live"
    text = end_report(
        report,
        width=shutil.get_terminal_size().columns if is_live else None,
        unicode=signs_for(stream.encoding) is UNICODE,
        paint=choose_paint(is_terminal=is_live, env=os.environ),
        files=files,
        labels=labels,
    )
    return "".join(map(harmless, text.splitlines(keepends=True))) if is_github(os.environ) else text


def _leaving(stdout: TextIO) -> Callable[[], None]:
    """Return what is still to be done on the screen when the process ends at once."""
    return partial(show_cursor, stdout.fileno()) if stdout.isatty() else lambda: None


async def _run_with_signals(
    plan: RunPlan,
    kept: tuple[ResultStore, CarryOn | None],
    observers: Sequence[Observer],
    clock: Clock,
    rng: random.Random,
    *,
    leave: Callable[[], None],
) -> RunReport:
    """Run; the first Ctrl-C, SIGTERM or hang-up stops cleanly, the second leaves at once with no child alive."""
    stop = Stop()
    store, carry_on = kept
    with stopping_on_signals(stop, leave=leave):
        return await run_plan(
            plan, store=store, observers=observers, clock=clock, rng=rng, stop=stop, carry_on=carry_on
        )
