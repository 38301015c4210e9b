"""`--online` of `check` and `doctor`: asks every target and judge one short question and shows what came of it."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.pipeline.probe import Probe
    from agentv.registry import Specs
    from agentv.types.targets import ResolvedTarget

EXIT_UNANSWERED = 3


def probe_paths(paths: Sequence[str]) -> "list[Probe]":
    """Ask the targets and judges that eval files use."""
    from agentv.loading import find_home
    from agentv.pipeline.inputs import load_inputs
    from agentv.pipeline.options import RunOptions
    from agentv.pipeline.planning import make_plan

    cwd, options = Path.cwd(), RunOptions()
    inputs = load_inputs(paths, options, cwd=cwd, env=os.environ)
    plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(find_home(cwd)))
    return probe((*plan.targets, *plan.judges), plan.specs, Path(plan.home))


def probe(targets: "Sequence[ResolvedTarget]", specs: "Specs", home: Path) -> "list[Probe]":
    """Ask targets."""
    from agentv.pipeline.probe import probe_targets

    return asyncio.run(probe_targets(targets, specs=specs, home=str(home)))


def show_probes(probes: "Sequence[Probe]") -> int:
    """Print how each target answered; returns the exit code."""
    from agentv.reports.amounts import seconds_text
    from agentv.reports.printable import one_line

    width = max((len(found.target) for found in probes), default=0)
    for found in probes:
        mark = "answers" if found.error is None else "FAILS  "
        click.echo(f"{mark}  {one_line(found.target):<{width}}  {found.provider}  {seconds_text(found.took_s)}")
        if found.error is not None:
            click.echo(f"{'':<{width + 11}}{one_line(found.error)}")
        if found.remedy:
            click.echo(f"{'':<{width + 11}}{found.remedy}")
    return EXIT_UNANSWERED if any(found.error for found in probes) else 0
