"""`agentv resume`: resume an interrupted run without repeating finished calls."""

from typing import Any

import click

from agentv.cli.options import take_output_options, with_output_options
from agentv.cli.running.resume_options import take_continue_options, with_continue_options


@click.command("resume")
@click.argument("run", required=False, metavar="[RUN]")
@click.option(
    "--fresh",
    is_flag=True,
    help="Re-run all cases of targets whose code has changed.",
)
@with_continue_options
@with_output_options()
def command(run: str | None, *, fresh: bool, **given: Any) -> int:
    """Resume an interrupted run without repeating finished calls.

    Finished results are kept, stored answers without scores are evaluated, and targets are called only for the
    remaining cases. If a question was edited, the target is called again. If a setting of a target was edited, too, but
    its new answers are re-runs, which do not count: a changed agent needs a new run. If an evaluator or an expected
    outcome was edited, the stored answer is evaluated again. Results with errors are kept; use
    `agentv retry` to re-run them. A run of `agentv score -` needs its stream again on standard input, from the start;
    stored lines are skipped.

    RUN is a run id or its prefix, a name, a path, 'latest' or 'latest~1'; default: the latest unfinished run. Exit
    codes are those of `agentv run`.
    """
    from agentv.cli.running.resuming import resume

    return resume(run, take_output_options(given), take_continue_options(given), fresh=fresh)
