"""`agentv store`: share runs through a team database (PostgreSQL)."""

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from agentv.cli.options import Span

if TYPE_CHECKING:
    from agentv.engine.stored.wanted_runs import WantedRuns
    from agentv.storage.shared_runs import SharedRun
    from agentv.types.json_value import JsonObject


STORE_SCHEMA = "agentv-store-1"
EXIT_STORE = 3

_json_option: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_store_option: Callable[..., Any] = click.option(
    "--store", "url", metavar="URL", help="Database URL (default: AGENTV_STORE, else .agentv.yaml)."
)


@click.group("store")
def command() -> None:
    """Share runs through a team database (PostgreSQL); run folders stay on each machine."""


@command.command("upgrade")
@click.argument("url", required=False, metavar="[URL]")
@_json_option
def upgrade_command(url: str | None, *, as_json: bool) -> int:
    """Create or upgrade the tables of the database. Does nothing if they are up to date.

    URL is the address of the database (default: AGENTV_STORE, else .agentv.yaml).
    """
    from agentv.cli.run_sources import find_store

    store_url, store = find_store(url)
    upgraded = store.upgrade()
    outcome = f"upgraded with {', '.join(upgraded.applied)}" if upgraded.applied else "is up to date"
    _print_result(
        {"store": store_url.shown, "version": upgraded.version, "applied": list(upgraded.applied)},
        f"{store_url}: {outcome} (version {upgraded.version})",
        as_json=as_json,
    )
    return 0


@command.command("push")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@_store_option
@_json_option
def push_command(runs: tuple[str, ...], url: str | None, *, as_json: bool) -> int:
    """Copy runs and their labels into the database.

    Data that is already there is not written again. Exits with 3 when a run could not be pushed.

    RUN is a run id or its prefix, a name, a path, 'latest' or 'latest~1'.
    """
    from pathlib import Path

    from agentv.cli.run_sources import open_store
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import find_run
    from agentv.types.errors import StorageError

    home = find_home(Path.cwd())
    folders = [find_run(home, run) for run in runs]
    code = 0
    pushed: list[JsonObject] = []
    with open_store(url) as (shared, store_url):
        for folder in folders:
            try:
                run = shared.push(folder)
            except StorageError as error:
                code = EXIT_STORE
                click.echo(f"error: {error}", err=True)
                continue
            pushed.append({"run_id": run.run_id, "lines": run.lines})
            if not as_json:
                outcome = f"{run.lines} lines pushed" if run.lines else "already there"
                click.echo(f"{run.run_id}: {outcome}")
        if as_json:
            _print_result({"store": store_url.shown, "pushed": pushed}, "", as_json=True)
    return code


@command.command("pull", short_help="Copy runs from the database into this project.")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@click.option("--suite", "suites", multiple=True, metavar="PATH", help="Pull runs of this eval file; repeatable.")
@click.option("--target", "targets", multiple=True, metavar="NAME", help="Pull runs of this target; repeatable.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="Pull runs with this tag; repeatable.")
@click.option("--since", type=Span(), metavar="SPAN", help="Pull runs started in this time, e.g. 12h or 7d.")
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Pull only the newest N of the selected runs.")
@_store_option
@_json_option
def pull_command(runs: tuple[str, ...], url: str | None, *, as_json: bool, **filters: Any) -> int:
    """Copy runs from the database into this project: those named by RUN, else those that the options select.

    RUN is a run id or its prefix, a name, 'latest' or 'latest~1'. If this project has a different run with the same id,
    that run is not copied and the exit code is 3. It is also 3 if a run differs from its recorded checksums.
    """
    from pathlib import Path

    from agentv.cli.run_sources import open_store
    from agentv.cli.screen import warn_of_edits
    from agentv.loading.files.places import find_home
    from agentv.storage.run.find import runs_folder
    from agentv.storage.run.stored import open_run
    from agentv.storage.run.stored_check import check_stored_run
    from agentv.types.errors import ConfigError, StorageError

    wanted = _wanted_runs(**filters)
    if wanted.has_no_filter != bool(runs):
        raise ConfigError(
            "name the runs to pull, or select them with --suite, --target, --tag, --since and --last, but not both"
        )
    folder = runs_folder(find_home(Path.cwd()))
    code = 0
    pulled: list[JsonObject] = []
    with open_store(url) as (shared, store_url):
        for run_id in list(dict.fromkeys(map(shared.find, runs))) or _selected_ids(wanted, shared.list()):
            try:
                found = shared.pull(run_id, folder)
                edits = check_stored_run(open_run(found.folder)).edits
            except StorageError as error:
                code = EXIT_STORE
                click.echo(f"error: {error}", err=True)
                continue
            warn_of_edits(run_id, edits)
            code = EXIT_STORE if edits else code
            pulled.append({"run_id": run_id, "lines": found.lines, "folder": str(found.folder), "edited": list(edits)})
            if not as_json:
                outcome = f"{found.lines} lines pulled into" if found.lines else "already here:"
                click.echo(f"{run_id}: {outcome} {found.folder}")
        if as_json:
            only = pulled[0] if len(pulled) == 1 else {}
            _print_result({"store": store_url.shown, **only, "pulled": list(pulled)}, "", as_json=True)
    return code


def _wanted_runs(
    suites: tuple[str, ...], targets: tuple[str, ...], tags: tuple[str, ...], since: float | None, last: int | None
) -> "WantedRuns":
    from datetime import timedelta

    from agentv.engine.running.clock import make_clock
    from agentv.engine.stored.trend_runs import WantedPlaces
    from agentv.engine.stored.wanted_runs import WantedRuns

    earliest = None if since is None else make_clock()() - timedelta(seconds=since)
    return WantedRuns(WantedPlaces(suites, targets), tags, earliest, last)


def _selected_ids(wanted: "WantedRuns", runs: Sequence["SharedRun"]) -> list[str]:
    """Return the ids of the runs that the filters select; print those that cannot be read."""
    from agentv.reports.text.printable import one_line

    for run in runs:
        if run.problem is not None:
            click.echo(f"skipped: {one_line(run.problem)}", err=True)
    return [run.run_id for run in wanted.of(runs)]


@command.command("list")
@_store_option
@_json_option
def list_command(url: str | None, *, as_json: bool) -> int:
    """List the runs in the database, latest first."""
    from agentv.cli.run_sources import open_store
    from agentv.reports.run.views import counts_text
    from agentv.reports.text.printable import one_line

    with open_store(url) as (shared, store_url):
        runs = shared.list()[::-1]
    lines = [
        f"{one_line(run.run_id)}  {run.state:11}  {counts_text(run.counts)}  {one_line(run.name or '')}".rstrip()
        for run in runs
    ]
    text = "\n".join(lines) or f"no runs in {store_url}; add some with `agentv run --store URL` or `agentv store push`"
    _print_result({"store": store_url.shown, "runs": [_to_json(run) for run in runs]}, text, as_json=as_json)
    return 0


@command.command("rm")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt, which is shown only on a terminal.")
@_store_option
@_json_option
def rm_command(runs: tuple[str, ...], url: str | None, *, yes: bool, as_json: bool) -> int:
    """Delete runs from the database, but not their local folders.

    RUN is a run id or its prefix, a name, 'latest' or 'latest~1'. If a run is still in progress, it reappears in the
    database with its next result.
    """
    from agentv.cli.run_sources import open_store
    from agentv.reports.text.amounts import count_text
    from agentv.reports.text.printable import one_line

    with open_store(url) as (shared, store_url):
        ids = list(dict.fromkeys(map(shared.find, runs)))
        runs_text = count_text(len(ids), "run")
        for run_id in ids:
            click.echo(one_line(run_id), err=as_json)
        if not yes and sys.stdin.isatty():
            click.confirm(f"delete {runs_text} from {store_url} for all users?", abort=True, err=True)
        removed = shared.remove(ids)
    _print_result(
        {"store": store_url.shown, "deleted": list(removed)}, f"deleted {runs_text} from {store_url}", as_json=as_json
    )
    return 0


def _to_json(run: "SharedRun") -> "JsonObject":
    return {
        "run_id": run.run_id,
        "name": run.name,
        "created_at": None if run.created_at is None else run.created_at.isoformat(),
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "state": run.state,
        "counts": run.counts,
        "pushed_at": run.pushed_at.isoformat(),
    }


def _print_result(fields: "JsonObject", text: str, *, as_json: bool) -> None:
    from agentv.reports.text.printable import printable_json
    from agentv.types.messages_json import pretty_json

    click.echo(printable_json(pretty_json({"schema": STORE_SCHEMA, **fields})) if as_json else text)
