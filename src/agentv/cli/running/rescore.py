"""`agentv rescore`: evaluate the stored answers of a run again."""

from typing import Any

import click

from agentv.cli.options import take_output_options, with_output_options
from agentv.cli.running.resume_options import take_continue_options, with_continue_options


@click.command("rescore")
@click.argument("run", metavar="RUN")
@click.option(
    "--evaluators", metavar="FILE", help="Use the `evaluators:` of this file instead of those of the eval files."
)
@with_continue_options
@with_output_options()
def command(run: str, *, evaluators: str | None, **given: Any) -> int:
    """Evaluate the stored answers of a run again without calling targets, and add the new scores to the run.

    A score is reused if its evaluator, case and answer are unchanged. Edits to the code of a plug-in are not noticed.

    RUN is a run id or its prefix, a name, a path, 'latest' or 'latest~1'. Exit codes are those of `agentv run`.
    """
    from agentv.cli.running.resuming import rescore

    return rescore(run, take_output_options(given), take_continue_options(given), evaluators=evaluators)
