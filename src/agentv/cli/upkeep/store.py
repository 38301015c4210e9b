"""`agentv store`: share runs through the team's PostgreSQL database."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.storage.postgres.run_rows import SharedRunInfo
    from agentv.storage.postgres.url import StoreUrl
    from agentv.types.json_value import JsonObject


STORE_SCHEMA = "agentv-store-1"
EXIT_STORE = 3

_as_json: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_store: Callable[..., Any] = click.option(
    "--store", "url", metavar="URL", help="Database URL (default: AGENTV_STORE, else .agentv.yaml)."
)


@click.group("store")
def command() -> None:
    """Share runs through the team's PostgreSQL database; run folders stay on each machine."""


@command.command("upgrade")
@click.argument("url", required=False, metavar="[URL]")
@_as_json
def upgrade_command(url: str | None, *, as_json: bool) -> int:
    """Create or upgrade the tables of the database. Does nothing if they are up to date."""
    from agentv.storage.postgres.connection import connect, store_errors
    from agentv.storage.postgres.migrations import newest_version, upgrade

    place = _place(url)
    connection = connect(place)
    with connection, store_errors(place, "cannot be upgraded"):
        taken = upgrade(connection, place)
    done = f"upgraded with {', '.join(taken)}" if taken else "is up to date"
    _print_result(
        {"store": place.shown, "version": newest_version(), "applied": list(taken)},
        f"{place}: {done} (version {newest_version()})",
        as_json=as_json,
    )
    return 0


@command.command("push")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_store
@_as_json
def push_command(runs: tuple[str, ...], url: str | None, *, as_json: bool) -> int:
    """Copy runs and their labels into the database.

    Data that is already there is not written again. Exits with 3 when a run could not be pushed.
    """
    from pathlib import Path

    from agentv.loading.files.places import find_home
    from agentv.storage.postgres.push import RunPusher
    from agentv.storage.run.find import find_run
    from agentv.types.errors import StorageError

    home = find_home(Path.cwd())
    folders = [find_run(home, run) for run in runs]
    code = 0
    pushed: list[JsonObject] = []
    with _opened(url) as (connection, place):
        for folder in folders:
            try:
                pusher = RunPusher(folder, connection, place)
                lines = pusher.push()
                pusher.settle()
            except StorageError as error:
                code = EXIT_STORE
                click.echo(f"error: {error}", err=True)
                continue
            pushed.append({"run_id": pusher.run_id, "lines": lines})
            if not as_json:
                click.echo(f"{pusher.run_id}: {f'{lines} lines pushed' if lines else 'already there'}")
        if as_json:
            _print_result({"store": place.shown, "pushed": pushed}, "", as_json=True)
    return code


@command.command("pull")
@click.argument("run", metavar="RUN")
@_store
@_as_json
def pull_command(run: str, url: str | None, *, as_json: bool) -> int:
    """Copy a run from the database into this project.

    RUN is a run id or its prefix, a name, or latest. If this project has a different run with the same id, nothing is
    copied and the command fails with exit code 3.
    """
    from pathlib import Path

    from agentv.loading.files.places import find_home
    from agentv.storage.postgres.pull import RunPuller
    from agentv.storage.postgres.run_rows import find_shared_run
    from agentv.storage.run.find import runs_folder

    home = find_home(Path.cwd())
    with _opened(url) as (connection, place):
        run_id = find_shared_run(connection, place, run)
        pulled = RunPuller(connection, place, run_id).pull(runs_folder(home))
    done = f"{pulled.lines} lines pulled into" if pulled.lines else "already here:"
    described: JsonObject = {
        "store": place.shown,
        "run_id": run_id,
        "lines": pulled.lines,
        "folder": str(pulled.folder),
    }
    _print_result(described, f"{run_id}: {done} {pulled.folder}", as_json=as_json)
    return 0


@command.command("list")
@_store
@_as_json
def list_command(url: str | None, *, as_json: bool) -> int:
    """List the runs in the database, latest first."""
    from agentv.reports.run.run_view import counts_text
    from agentv.reports.text.printable import one_line
    from agentv.storage.postgres.run_rows import list_shared_runs

    with _opened(url) as (connection, place):
        runs = list_shared_runs(connection, place)[::-1]
    lines = [
        f"{one_line(run.run_id)}  {run.state:11}  {counts_text(run.counts)}  {one_line(run.name or '')}".rstrip()
        for run in runs
    ]
    text = "\n".join(lines) or f"no runs in {place}; add some with `agentv run --store URL` or `agentv store push`"
    _print_result({"store": place.shown, "runs": [_to_json(run) for run in runs]}, text, as_json=as_json)
    return 0


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt.")
@_store
@_as_json
def rm_command(runs: tuple[str, ...], url: str | None, *, yes: bool, as_json: bool) -> int:
    """Delete runs from the database, but not their local folders.

    RUN is a run id or its prefix, a name, latest or latest~1. A run in progress is stored there
    again with its next result.
    """
    from agentv.reports.text.printable import one_line
    from agentv.storage.postgres.remove import remove_shared_runs
    from agentv.storage.postgres.run_rows import find_shared_run

    with _opened(url) as (connection, place):
        ids = list(dict.fromkeys(find_shared_run(connection, place, run) for run in runs))
        what = f"{len(ids)} run{'' if len(ids) == 1 else 's'}"
        for run_id in ids:
            click.echo(one_line(run_id), err=as_json)
        if not yes and sys.stdin.isatty():
            click.confirm(f"delete {what} from {place} for all users?", abort=True, err=True)
        gone = remove_shared_runs(connection, place, ids)
    _print_result({"store": place.shown, "deleted": list(gone)}, f"deleted {what} from {place}", as_json=as_json)
    return 0


def _to_json(run: "SharedRunInfo") -> "JsonObject":
    return {
        "run_id": run.run_id,
        "name": run.name,
        "created_at": None if run.created_at is None else run.created_at.isoformat(),
        "state": run.state,
        "counts": run.counts,
        "pushed_at": run.pushed_at.isoformat(),
    }


def _place(url: str | None) -> "StoreUrl":
    """Return the database from the option, environment or config. Raises ConfigError when none is set."""
    import os
    from pathlib import Path

    from agentv.loading.project import choose_store
    from agentv.storage.postgres.url import parse_store_url
    from agentv.types.errors import ConfigError

    chosen = choose_store(url, Path.cwd(), os.environ)
    if chosen is None:
        raise ConfigError(
            "no store is configured: give its URL (postgresql://user@host/database), set AGENTV_STORE, "
            "or set `store:` in .agentv.yaml"
        )
    return parse_store_url(chosen)


@contextmanager
def _opened(url: str | None) -> "Iterator[tuple[Connection, StoreUrl]]":
    """Connect to the database and check that its tables have the current version."""
    from agentv.storage.postgres.connection import connect, store_errors
    from agentv.storage.postgres.migrations import check_version

    place = _place(url)
    with connect(place) as connection:
        with store_errors(place, "cannot be read"):
            check_version(connection, place)
        yield connection, place


def _print_result(fields: "JsonObject", text: str, *, as_json: bool) -> None:
    from agentv.reports.text.printable import printable_json
    from agentv.types.messages_json import pretty_json

    click.echo(printable_json(pretty_json({"schema": STORE_SCHEMA, **fields})) if as_json else text)
