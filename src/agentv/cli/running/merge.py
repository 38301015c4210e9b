"""`agentv merge`: several runs, the parts of one, made into one."""

from typing import Any

import click

from agentv.cli.running.resume_options import STORE_OPTION, make_resume_plan
from agentv.cli.screen_options import screen_options, take_screen


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", metavar="NAME", help="A name for the merged run.")
@STORE_OPTION
@screen_options()
def command(runs: tuple[str, ...], *, name: str | None, **given: Any) -> int:
    """Make one run of several: the parts that `agentv run --shard I/N` made. They stay as they are.

    Rows keep the id of the run that made them. A row that two of them have is taken once, and is an error when they
    made it of other things. The verdict over all rows is told, and the exit code is that of `agentv run`.

    RUN is an id or the start of one, a name, or a path, as of a folder that was fetched from another machine.
    """
    from agentv.cli.running.merging import merge

    return merge(runs, take_screen(given), make_resume_plan(given), name=name)
