"""`agentv run --dry-run`: the plan and what it will probably cost, after a pilot if one was asked for."""

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.running.running import run_shown
from agentv.cli.screen_options import Screen
from agentv.engine.forecast.dry_run import describe_plan, plan_to_json, write_prompts
from agentv.engine.planning.options import RunOptions
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.keeping import make_store
from agentv.engine.stored.history import load_forecast
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import printable_json
from agentv.types.errors import ConfigError
from agentv.types.messages_json import pretty_json

PILOT = "pilot"
"""The name of runs that were made for a forecast."""


class DryRun(Struct, frozen=True):
    """A run that is planned and not started; `prompts_folder` takes the rendered prompts.

    `pilot` is how many cases are run all the same, for a forecast to be drawn from.
    """

    prompts_folder: str | None = None
    as_json: bool = False
    pilot: int | None = None


def run_pilot(cases: int, options: RunOptions, planned: Callable[[RunOptions], RunPlan], stdout: TextIO) -> None:
    """Run a few cases; they are kept as every run is, and what they used is history for the forecast."""
    plan = planned(replace(options, sample=min(cases, options.sample or cases), name=PILOT, gates=()))
    code = run_shown(plan, Screen(display="none"), stdout, lambda clock: (make_store(plan, clock=clock), None))
    if code:
        click.echo(f"the pilot ended with exit code {code}; `agentv show latest` looks into it", err=True)


def show_plan(plan: RunPlan, dry_run: DryRun, cwd: Path, stdout: TextIO) -> int:
    """Print the plan with its forecast, and write the prompts if they are wanted; returns the exit code."""
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
