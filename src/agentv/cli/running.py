"""What `agentv run` does: read, plan, run with a screen, stop cleanly on a signal, say the verdict."""

import asyncio
import os
import random
import shutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import click

from agentv.execution.processes import kill_all
from agentv.loading import find_home
from agentv.pipeline.clock import make_clock
from agentv.pipeline.dry_run import describe_plan, write_prompts
from agentv.pipeline.inputs import load_inputs
from agentv.pipeline.ledger import Stop
from agentv.pipeline.options import RunOptions
from agentv.pipeline.plan import RunPlan
from agentv.pipeline.planning import make_plan
from agentv.pipeline.run import run_plan
from agentv.reports.end_table import end_report
from agentv.reports.exports import STDOUT, make_export
from agentv.reports.json_lines import JsonLines
from agentv.reports.observers import make_observer
from agentv.reports.paint import in_colour, without_colour
from agentv.reports.signs import UNICODE, signs_for
from agentv.reports.verbose import VerboseLines
from agentv.scoring.run_verdict import SIGNALLED
from agentv.storage.find_run import runs_folder
from agentv.storage.records import export_record
from agentv.storage.run_folder import RunFolder, new_run_id
from agentv.types.errors import ConfigError
from agentv.types.events import Observer
from agentv.types.protocols import Clock
from agentv.types.results import RunReport


@dataclass(frozen=True, slots=True)
class Screen:
    """Where a run is shown and written besides its folder."""

    display: str
    outputs: tuple[str, ...] = ()
    include_trace: bool = False
    verbose: bool = False
    log_file: str | None = None


@dataclass(frozen=True, slots=True)
class DryRun:
    """A run that is planned and not started; `prompts_folder` takes the rendered prompts."""

    prompts_folder: str | None = None


def run_paths(paths: Sequence[str], options: RunOptions, screen: Screen, dry_run: DryRun | None) -> int:
    """Plan and run eval files; returns the exit code."""
    cwd = Path.cwd()
    home = find_home(cwd)
    inputs = load_inputs(paths, options, cwd=cwd, env=os.environ)
    plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(home), project_gates=inputs.gates)
    if dry_run is not None:
        return _show_plan(plan, dry_run)
    return _run(plan, home, screen).exit_code


def _show_plan(plan: RunPlan, dry_run: DryRun) -> int:
    for warning in plan.warnings:
        click.echo(warning, err=True)
    click.echo(describe_plan(plan))
    if dry_run.prompts_folder is not None:
        count = write_prompts(plan, Path(dry_run.prompts_folder))
        click.echo(f"{count} prompts written to {dry_run.prompts_folder}")
    return 0


def _run(plan: RunPlan, home: Path, screen: Screen) -> RunReport:
    clock = make_clock()
    stream = sys.stderr if STDOUT in screen.outputs else sys.stdout
    rng = random.Random(plan.options.seed)  # noqa: S311 - spreads retries, keeps no secret
    with ExitStack() as opened:
        # What cannot be written is refused before the run has a folder.
        observers = list(_open_observers(screen, stream, clock, opened))
        store = RunFolder(runs_folder(home), new_run_id(clock, random.SystemRandom()), clock=clock)
        report = asyncio.run(_run_with_signals(plan, store, observers, clock, rng))
    if screen.display not in ("json", "none"):
        click.echo(_end_text(report, screen, stream), file=stream, nl=False)
    return report


def _open_observers(screen: Screen, stream: TextIO, clock: Clock, opened: ExitStack) -> Iterator[Observer]:
    """Yield the observers of a run, the screen first; `opened` closes each that was opened, the screen last."""

    def closing(observer: Observer) -> Observer:
        opened.callback(observer.close)
        return observer

    to_record = partial(export_record, include_trace=screen.include_trace)
    yield closing(
        make_observer(
            screen.display, stream, is_terminal=stream.isatty(), env=os.environ, clock=clock, to_record=to_record
        )
    )
    if screen.verbose:
        yield closing(VerboseLines(sys.stderr))
    if screen.log_file is not None:
        yield closing(JsonLines(opened.enter_context(_open_log(screen.log_file)), to_record=to_record))
    for target in screen.outputs:
        yield closing(make_export(target, to_record=to_record, stdout=sys.stdout))


def _open_log(name: str) -> TextIO:
    try:
        return Path(name).open("a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"--log-file {name}: cannot be written: {error.strerror}") from error


def _end_text(report: RunReport, screen: Screen, stream: TextIO) -> str:
    is_terminal = stream.isatty()
    return end_report(
        report,
        width=shutil.get_terminal_size().columns if is_terminal else None,
        unicode=signs_for(stream.encoding) is UNICODE,
        paint=in_colour if is_terminal and "NO_COLOR" not in os.environ else without_colour,
        files=[name for name in screen.outputs if name != STDOUT],
    )


async def _run_with_signals(
    plan: RunPlan, store: RunFolder, observers: Sequence[Observer], clock: Clock, rng: random.Random
) -> RunReport:
    """Run; the first Ctrl-C or SIGTERM stops cleanly, the second leaves at once with no child alive."""
    stop = Stop()
    loop = asyncio.get_running_loop()

    def on_signal(number: int, _frame: object) -> None:
        if stop.state == "interrupted":
            try:
                kill_all()
            finally:
                os._exit(SIGNALLED + number)
        stop.state = "interrupted"
        loop.call_soon_threadsafe(stop.interrupt, signal.Signals(number).name, number)

    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        return await run_plan(plan, store=store, observers=observers, clock=clock, rng=rng, stop=stop)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
