"""`agentv resume`: finish a run that was stopped or killed, paying for nothing twice."""

from typing import Any

import click

from agentv.cli.running.resume_options import make_resume_plan, resume_options
from agentv.cli.screen_options import screen_options, take_screen


@click.command("resume")
@click.argument("run", required=False, metavar="[RUN]")
@click.option("--fresh", is_flag=True, help="Ask targets anew whose script or git commit is another than it was.")
@resume_options
@screen_options()
def command(run: str | None, *, fresh: bool, **given: Any) -> int:
    """Finish a run that was stopped or killed, paying for nothing twice.

    Rows that are done are kept, answers that nobody judged are judged, and only the rest is asked. What was edited
    since, a case or an evaluator, is done again, and just that; rows with errors stay (`agentv retry`).

    RUN is an id or the start of one, a name, a path, 'latest' or 'latest~1'; without it the latest that is not
    finished. The exit code is that of `agentv run`.
    """
    from agentv.cli.running.resuming import resume

    return resume(run, take_screen(given), make_resume_plan(given), fresh=fresh)
