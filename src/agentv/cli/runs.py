"""`agentv runs`: the runs that are stored."""

import click

RUNS_SCHEMA = "agentv-runs-1"


@click.group("runs")
def command() -> None:
    """List stored runs."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON object.")
def list_command(*, as_json: bool) -> int:
    """List the runs of this project, latest first."""
    from pathlib import Path

    from agentv.loading import find_home
    from agentv.reports import counts_text, one_line, printable_json
    from agentv.storage import list_runs
    from agentv.types.messages_json import pretty_json

    home = find_home(Path.cwd())
    runs = list_runs(home)[::-1]
    if as_json:
        rows = [
            {
                "run_id": run.run_id,
                "name": run.run.name,
                "created_at": run.run.created_at.isoformat(),
                "state": run.state(),
                "counts": run.counts(),
                "folder": str(run.folder),
            }
            for run in runs
        ]
        click.echo(printable_json(pretty_json({"schema": RUNS_SCHEMA, "runs": rows})))
        return 0
    for run in runs:
        name = f"  {one_line(run.run.name)}" if run.run.name else ""
        click.echo(f"{run.run_id}  {run.state():11}  {counts_text(run.counts())}{name}")
    if not runs:
        click.echo(f"no run is stored in {home}; `agentv run` makes one")
    return 0
