"""`agentv retry`: re-run cases of a run, in the same run."""

from typing import Any

import click

from agentv.cli.options import take_output_options, with_output_options
from agentv.cli.running.resume_options import take_continue_options, with_continue_options


@click.command("retry")
@click.argument("run", default="latest", metavar="[RUN]")
@click.option("--errors", is_flag=True, help="Re-run cases that ended with an error (default).")
@click.option("--failed", is_flag=True, help="Re-run cases that did not pass, including errors.")
@click.option(
    "--case",
    "globs",
    multiple=True,
    metavar="GLOB",
    help="Re-run cases whose id matches; repeatable. Cannot be combined with --errors or --failed.",
)
@with_continue_options
@with_output_options()
def command(run: str, *, errors: bool, failed: bool, globs: tuple[str, ...], **given: Any) -> int:
    """Re-run errored or failed cases of a finished run and add the new results to it.

    An answer that was missing is supplied and counts. Where there was one, the first answer counts: the new one is
    stored as a re-run, which changes no rate and no gate. If the target answered and only an evaluator had an error,
    the stored answer is evaluated again without calling the target.

    RUN is a run id or its prefix, a name, a path, 'latest' (the default) or 'latest~1'. Exit codes are those of
    `agentv run`, for all results of the run.
    """
    from agentv.cli.running.resuming import retry
    from agentv.types.errors import ConfigError

    if errors + failed + bool(globs) > 1:
        raise ConfigError("--errors, --failed and --case exclude each other; give one of them")
    only = "cases" if globs else "failed" if failed else "errors"
    return retry(run, take_output_options(given), take_continue_options(given), only=only, globs=globs)
