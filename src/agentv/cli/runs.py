"""`agentv runs`: the runs that are stored."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from agentv.storage import ListedRun
    from agentv.types.json_value import JsonObject

RUNS_SCHEMA = "agentv-runs-1"


@click.group("runs")
def command() -> None:
    """List stored runs."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON object.")
@click.option("-v", "--verbose", is_flag=True, help="Say when the index cannot be used and the folders are read.")
def list_command(*, as_json: bool, verbose: bool) -> int:
    """List the runs of this project, latest first."""
    from pathlib import Path

    from agentv.cli.indexed import run_index
    from agentv.loading import find_home
    from agentv.reports import counts_text, one_line, printable_json
    from agentv.types.messages_json import pretty_json

    home = find_home(Path.cwd())
    with run_index(home, verbose=verbose) as index:
        runs = index.runs()[::-1]
    if as_json:
        click.echo(printable_json(pretty_json({"schema": RUNS_SCHEMA, "runs": [_to_json(run) for run in runs]})))
        return 0
    for run in runs:
        told = counts_text(run.counts) if run.problem is None else one_line(run.problem)
        name = f"  {one_line(run.run.name)}" if run.run is not None and run.run.name else ""
        click.echo(f"{run.run_id}  {run.state:11}  {told}{name}")
    if not runs:
        click.echo(f"no run is stored in {home}; `agentv run` makes one")
    return 0


def _to_json(run: "ListedRun") -> "JsonObject":
    fields: JsonObject = {
        "run_id": run.run_id,
        "name": None if run.run is None else run.run.name,
        "created_at": None if run.run is None else run.run.created_at.isoformat(),
        "state": run.state,
        "counts": run.counts,
        "folder": str(run.folder),
    }
    return fields if run.problem is None else {**fields, "problem": run.problem}
