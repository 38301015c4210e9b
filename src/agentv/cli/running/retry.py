"""`agentv retry`: do rows of a run again, into the same run."""

from typing import Any

import click

from agentv.cli.running.resume_options import make_resume_plan, resume_options
from agentv.cli.screen_options import screen_options, take_screen


@click.command("retry")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--errors", is_flag=True, help="Rows that have no result (the default).")
@click.option("--failed", is_flag=True, help="Rows that did not pass, those without a result among them.")
@click.option("--case", "globs", multiple=True, metavar="GLOB", help="Rows of the cases whose id matches.")
@resume_options
@screen_options()
def command(run: str, *, errors: bool, failed: bool, globs: tuple[str, ...], **given: Any) -> int:
    """Do rows of a finished run again, into the same run; every attempt is kept, the newest counts.

    A row that only a failed evaluator kept from a result is judged again, and its target is not asked.

    RUN is an id or the start of one, a name, a path, 'latest' (the default) or 'latest~1'. The exit code is that of
    `agentv run`, over all rows.
    """
    from agentv.cli.running.resuming import retry
    from agentv.types.errors import ConfigError

    if errors + failed + bool(globs) > 1:
        raise ConfigError("give one of --errors, --failed and --case")
    only = "cases" if globs else "failed" if failed else "errors"
    return retry(run, take_screen(given), make_resume_plan(given), only=only, globs=globs)
