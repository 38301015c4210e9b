"""`--online` of `check` and `doctor`: send one short request to every target and judge, and print the results."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.engine.forecast.probe import Probe
    from agentv.engine.planning.plan import CaseTask
    from agentv.registry import Specs
    from agentv.types.targets import ResolvedTarget


EXIT_UNANSWERED = 3


def probe_paths(
    paths: Sequence[str], targets: tuple[str, ...], targets_file: str | None, variables: tuple[str, ...] = ()
) -> "list[Probe]":
    """Send one request to each target and judge of the eval files; return the results.

    The request is a short fixed prompt with the id, metadata and workspace of the target's first case. `targets`
    selects targets; an empty tuple selects all.
    """
    from agentv.engine.planning.inputs import load_inputs
    from agentv.engine.planning.planning import make_plan
    from agentv.loading.files.places import find_eval_files, find_home
    from agentv.loading.project import paths_to_read
    from agentv.types.cases import EvalCase
    from agentv.types.run_options import RunOptions

    cwd, options = Path.cwd(), RunOptions(targets=targets, targets_file=targets_file, variables=variables)
    files = find_eval_files(paths_to_read(paths, cwd=cwd), cwd=cwd)
    inputs = load_inputs(files, options, cwd=cwd, env=os.environ)
    plan = make_plan(inputs.suites, options, specs=inputs.specs, home=str(find_home(cwd)))

    def first_task(target: "ResolvedTarget") -> "CaseTask | None":
        return next((task for task in plan.tasks(target) if isinstance(task.case, EvalCase)), None)

    return probe((*plan.targets, *plan.judges), plan.specs, Path(plan.home), first_task)


def probe(
    targets: "Sequence[ResolvedTarget]",
    specs: "Specs",
    home: Path,
    first_task: "Callable[[ResolvedTarget], CaseTask | None]" = lambda _target: None,
) -> "list[Probe]":
    """Send one short request to each target; return the results."""
    from agentv.engine.forecast.probe import probe_targets
    from agentv.execution.loops import run_in_own_loop

    return run_in_own_loop(probe_targets(targets, specs=specs, home=str(home), first_task=first_task))


def show_probes(probes: "Sequence[Probe]") -> int:
    """Print which targets answered; return the exit code."""
    from agentv.reports.text.amounts import seconds_text
    from agentv.reports.text.printable import one_line

    width = max((len(result.target) for result in probes), default=0)
    indent = " " * (width + 11)
    for result in probes:
        if result.is_canned:
            click.echo(f"canned   {one_line(result.target):<{width}}  {result.provider}  not called")
            continue
        mark = "answers" if result.error is None else "FAILS  "
        click.echo(f"{mark}  {one_line(result.target):<{width}}  {result.provider}  {seconds_text(result.took_s)}")
        if result.error is not None:
            click.echo(f"{indent}{one_line(result.error)}")
        if result.remedy:
            click.echo(f"{indent}{result.remedy}")
    return EXIT_UNANSWERED if any(result.error for result in probes) else 0
