"""`agentv check`: every problem of eval files, targets and project files, before anything is run."""

from pathlib import Path

import click

EXIT_PROBLEMS = 4
EXIT_NOTHING = 5


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="text with code frames, one JSON object, GitHub annotations, or SARIF.",
)
@click.option("--json", "as_json", is_flag=True, help="The same as --format json.")
@click.option("--online", is_flag=True, help="Then ask every target and judge one short question (this may cost).")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="With --online: ask it; repeat for several.")
@click.option("--targets", "targets_file", metavar="FILE", help="With --online: targets file, instead of the nearest.")
def command(
    paths: tuple[str, ...],
    format_: str,
    *,
    as_json: bool,
    online: bool,
    targets: tuple[str, ...],
    targets_file: str | None,
) -> int:
    """Find every problem of eval files, and of the targets and project files that they use.

    PATHS are files or folders (default: evals). Without --online nothing of a suite is executed or imported. Exits
    with 4 when there are errors, with 5 when there is nothing to check, with 3 when a target does not answer.
    """
    import os

    from agentv.cli.evals.problem_formats import FORMATS
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.check import check_paths

    cwd = Path.cwd()
    checked = check_paths(paths, cwd=cwd, env=os.environ, specs=load_specs())
    click.echo(FORMATS["json" if as_json else format_](checked.problems, len(checked.files), cwd))
    if any(problem.severity == "error" for problem in checked.problems):
        return EXIT_PROBLEMS
    if online and checked.files:
        from agentv.cli.running.probing import probe_paths, show_probes

        return show_probes(probe_paths(paths, targets, targets_file))
    return 0 if checked.files else EXIT_NOTHING
