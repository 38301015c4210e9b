"""Runs a plan with a screen: stops cleanly on a signal, and says the verdict."""

import asyncio
import gc
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TextIO, TypeAlias

import click

from agentv.cli.main import with_loss
from agentv.cli.run_outputs import losses, open_outputs
from agentv.cli.screen_options import Screen
from agentv.cli.stopping import show_cursor, stopping_on_signals
from agentv.pipeline.clock import make_clock
from agentv.pipeline.early_import import import_later
from agentv.pipeline.ledger import Stop
from agentv.pipeline.plan import RunPlan
from agentv.pipeline.run import run_plan
from agentv.reports import STDOUT
from agentv.types.events import Observer
from agentv.types.protocols import Clock, ResultStore
from agentv.types.results import RunReport

if TYPE_CHECKING:
    from agentv.pipeline.carry_on import CarryOn

OpenStore: TypeAlias = "Callable[[Clock], tuple[ResultStore, CarryOn | None]]"
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
        from agentv.cli.run_end import end_text

        written = [each.target for each in observers if each.target and each.target != STDOUT and not each.error]
        click.echo(end_text(report, plan, written, screen, stdout), file=screen.stream(stdout), nl=False)
    code = report.exit_code
    for loss in losses(observers, stdout):
        code = with_loss(code, loss)
    return code


def _leaving(stdout: TextIO) -> Callable[[], None]:
    """Return what is still to be done on the screen when the process ends at once."""
    return partial(show_cursor, stdout.fileno()) if stdout.isatty() else lambda: None


async def _run_with_signals(
    plan: RunPlan,
    kept: "tuple[ResultStore, CarryOn | None]",
    observers: Sequence[Observer],
    clock: Clock,
    rng: random.Random,
    *,
    leave: Callable[[], None],
) -> RunReport:
    """Run; the first Ctrl-C, SIGTERM or hang-up stops cleanly, the second leaves at once with no child alive."""
    import_later("agentv.cli.run_end", asyncio.get_running_loop())
    stop = Stop()
    store, carry_on = kept
    with stopping_on_signals(stop, leave=leave):
        return await run_plan(
            plan, store=store, observers=observers, clock=clock, rng=rng, stop=stop, carry_on=carry_on
        )
