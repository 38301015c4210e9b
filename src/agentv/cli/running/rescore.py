"""`agentv rescore`: judge the stored answers of a run again."""

from typing import Any

import click

from agentv.cli.running.resume_options import make_resume_plan, resume_options
from agentv.cli.screen_options import screen_options, take_screen


@click.command("rescore")
@click.argument("run", metavar="RUN")
@click.option("--evaluators", metavar="FILE", help="Judge with the evaluators of this file instead of the suites' own.")
@resume_options
@screen_options()
def command(run: str, *, evaluators: str | None, **given: Any) -> int:
    """Judge the stored answers of a run again, into the same run; no target is asked.

    Scores whose evaluator, case and answer are as they were are used again. FILE has `evaluators:`, as for
    `agentv score`.

    RUN is an id or the start of one, a name, a path, 'latest' or 'latest~1'. The exit code is that of `agentv run`.
    """
    from agentv.cli.running.resuming import rescore

    return rescore(run, take_screen(given), make_resume_plan(given), evaluators=evaluators)
