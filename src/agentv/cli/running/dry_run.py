"""`agentv run --dry-run`: the plan and its cost estimate, optionally after a pilot run."""

from collections.abc import Callable
from pathlib import Path
from typing import TextIO

import click
from msgspec import Struct
from msgspec.structs import replace

from agentv.cli.options import OutputOptions
from agentv.cli.running.running import run_and_report
from agentv.engine.forecast.dry_run import describe_plan, load_forecast, plan_to_json, write_prompts
from agentv.engine.planning.plan import RunPlan
from agentv.engine.running.run_stores import make_store
from agentv.reports.text.amounts import count_text
from agentv.reports.text.printable import printable_json
from agentv.types.errors import ConfigError
from agentv.types.messages_json import pretty_json
from agentv.types.run_options import RunOptions

PILOT = "pilot"
"""The name of pilot runs."""


class DryRun(Struct, frozen=True):
    """A run that is planned but not started."""

    prompts_folder: str | None = None
    """The folder to which the rendered prompts are written."""
    as_json: bool = False
    pilot: int | None = None
    """The number of cases to run anyway, as the basis of the cost estimate."""


def run_pilot(cases: int, options: RunOptions, plan_with: Callable[[RunOptions], RunPlan], stdout: TextIO) -> None:
    """Run a few cases as a stored run of its own; its usage is the basis of the cost estimate."""
    plan = plan_with(replace(options, sample=min(cases, options.sample or cases), name=PILOT, gates=()))
    code = run_and_report(
        plan,
        OutputOptions(display="none", has_verdict=False),
        stdout,
        lambda clock: (make_store(plan, clock=clock), None),
    )
    if code:
        click.echo(f"warning: the pilot ended with exit code {code}; details: agentv show latest", err=True)


def show_plan(plan: RunPlan, dry_run: DryRun, cwd: Path, stdout: TextIO) -> int:
    """Print the plan with its cost estimate, and write the prompts if requested; return the exit code."""
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
        raise ConfigError(f"--dump-prompts needs a writable folder; {place}: {error.strerror}") from error
