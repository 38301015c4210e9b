"""`agentv merge`: merge the shards of a run into one run."""

from typing import Any

import click

from agentv.cli.running.resume_options import STORE_OPTION, take_continue_options
from agentv.cli.screen_options import take_output_options, with_output_options


@click.command("merge")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--name", metavar="NAME", help="Name of the merged run.")
@STORE_OPTION
@with_output_options()
def command(runs: tuple[str, ...], *, name: str | None, **given: Any) -> int:
    """Merge the shards of a run (`agentv run --shard I/N`) into a new run.

    The shards are not changed, and each result records which shard it came from. A result that is in two shards is
    in the new run once. If its case, target or evaluators differ between the shards, the merge fails. Prints the
    verdict for all results. Exit codes are those of `agentv run`.

    RUN is a run id or its prefix, a name, or a path, such as a run folder copied from another machine.
    """
    from agentv.cli.running.merging import merge

    return merge(runs, take_output_options(given), take_continue_options(given), name=name)
