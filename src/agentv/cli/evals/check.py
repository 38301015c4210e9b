"""`agentv check`: check eval files, targets and config for problems before anything is run."""

from pathlib import Path

import click

from agentv.cli.allow_path import ALLOW_PATH_OPTION
from agentv.cli.main import EXIT_NOTHING

EXIT_PROBLEMS = 4


@click.command()
@click.argument("paths", nargs=-1)
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    show_default=True,
    help="Output format; text shows the faulty lines, github writes annotations of GitHub Actions.",
)
@click.option("--json", "as_json", is_flag=True, help="Same as --format json.")
@click.option("--online", is_flag=True, help="Also send a request to every target and judge (may cost money).")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="With --online: only this target; repeatable.")
@click.option(
    "--targets", "targets_file", metavar="FILE", help="With --online: targets file (default: the nearest one)."
)
@click.option("--untrusted", is_flag=True, help="List what the files would execute, read and send.")
@ALLOW_PATH_OPTION
def command(
    paths: tuple[str, ...],
    format_: str,
    *,
    allow_paths: tuple[str, ...],
    as_json: bool,
    online: bool,
    untrusted: bool,
    targets: tuple[str, ...],
    targets_file: str | None,
) -> int:
    """Check eval files, and the targets and project files they use, for problems.

    PATHS are files or folders (default: evals/). Code named in eval files is not imported or run, except with --online.
    --untrusted lists every command, callable, URL, variable and path, for a review of files by others.

    Exit codes: 0 no errors, 3 a target does not answer (--online), 4 errors found, 5 nothing to check.
    """
    import os
    import sys

    from agentv.cli.evals.problem_formats import FORMATS
    from agentv.cli.terminal import for_commands
    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.check import check_paths

    cwd = Path.cwd()
    if untrusted:
        return _show_uses(paths, cwd, allow_paths, as_json=as_json or format_ == "json")
    checked = check_paths(paths, cwd=cwd, env=os.environ, specs=load_specs(), allow_paths=allow_paths)
    chosen = "json" if as_json else format_
    stream = for_commands(sys.stdout) if chosen == "github" else sys.stdout
    click.echo(FORMATS[chosen](checked.problems, len(checked.files), cwd), file=stream)
    if any(problem.severity == "error" for problem in checked.problems):
        return EXIT_PROBLEMS
    if online and checked.files:
        from agentv.cli.running.probing import probe_paths, show_probes

        return show_probes(probe_paths(paths, targets, targets_file))
    if not checked.files:
        click.echo("no eval files found", err=True)
    return 0 if checked.files else EXIT_NOTHING


def _show_uses(paths: tuple[str, ...], cwd: Path, allow_paths: tuple[str, ...], *, as_json: bool) -> int:
    """Print what the files would execute, read and send; return the exit code."""
    import json

    from msgspec import structs

    from agentv.engine.plugins.loading import load_specs
    from agentv.loading.check.untrusted import SCHEMA, list_uses, to_text

    uses = list_uses(paths, cwd=cwd, specs=load_specs(), allow_paths=allow_paths)
    if as_json:
        click.echo(json.dumps({"schema": SCHEMA, "uses": [structs.asdict(use) for use in uses]}, indent=2))
    else:
        click.echo(to_text(uses))
    return 0 if uses else EXIT_NOTHING
