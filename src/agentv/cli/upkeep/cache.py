"""`agentv cache`: list or clear cached answers and embeddings."""

import sys
from typing import TYPE_CHECKING

import click

from agentv.cli.options import Span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from agentv.storage.cache.contents import CacheEntry, CacheGroup
    from agentv.types.json_value import JsonObject


CACHE_SCHEMA = "agentv-cache-1"


@click.group("cache")
def command() -> None:
    """List or clear cached answers (`agentv run --cache on`) and embeddings."""


@command.command("list")
@click.option("--target", metavar="NAME", help="List only answers of this target.")
@click.option("--json", "as_json", is_flag=True, help="Print the list as one JSON object.")
def list_command(target: str | None, *, as_json: bool) -> int:
    """List the cached files by kind and target."""
    from agentv.reports.text.amounts import count_text
    from agentv.reports.text.printable import one_line
    from agentv.storage.cache.contents import cache_groups

    groups = cache_groups(_select_entries(target, kind=None, older_s=None))
    if as_json:
        _print_json({"groups": [_to_json(group) for group in groups]})
        return 0
    for group in groups:
        name = one_line(group.target) if group.target else "-"
        files = f"{count_text(group.count, 'file'):>12}  {_size_text(group.size):>9}"
        since = f"oldest {group.oldest:%Y-%m-%d}, last used {group.used:%Y-%m-%d}"
        click.echo(f"{group.kind:10}  {name:20}  {files}  {since}")
    if not groups:
        click.echo("the cache is empty; `agentv run --cache on` fills it")
    return 0


command.add_command(
    click.Command("ls", callback=list_command.callback, params=list_command.params, help="Same as list.", hidden=True)
)


@command.command("clear")
@click.option("--target", metavar="NAME", help="Delete only answers of this target.")
@click.option("--kind", type=click.Choice(["answers", "embeddings"]), help="Delete only this kind.")
@click.option(
    "--older-than", "older_s", type=Span(), metavar="SPAN", help="Delete only files older than SPAN, e.g. 12h or 7d."
)
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation prompt, which is shown only on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="Print what was deleted as one JSON object.")
def clear_command(target: str | None, kind: str | None, older_s: float | None, *, yes: bool, as_json: bool) -> int:
    """Delete all cached files, or those that the options select. Answers in stored runs are not affected."""
    from agentv.reports.text.amounts import count_text
    from agentv.storage.cache.contents import clear_entries

    entries = _select_entries(target, kind=kind, older_s=older_s)
    size = sum(entry.file.size for entry in entries)
    question = f"Delete {count_text(len(entries), 'file')} ({_size_text(size)})?"
    if entries and not yes and sys.stdin.isatty() and not click.confirm(question, err=True):
        click.echo("cancelled; nothing was deleted")
        return 0
    count, freed = clear_entries(entries)
    if as_json:
        _print_json({"deleted": count, "bytes": freed})
    else:
        click.echo(f"deleted {count_text(count, 'file')} ({_size_text(freed)})")
    return 0


def _select_entries(target: str | None, *, kind: str | None, older_s: float | None) -> "Sequence[CacheEntry]":
    from datetime import timedelta
    from pathlib import Path

    from agentv.engine.running.clock import make_clock
    from agentv.loading.files.places import find_home
    from agentv.storage.cache.contents import cache_entries

    cutoff = None if older_s is None else make_clock()() - timedelta(seconds=older_s)
    return [
        entry
        for entry in cache_entries(find_home(Path.cwd()))
        if (target is None or entry.target == target)
        and (kind is None or entry.kind == kind)
        and (cutoff is None or entry.at < cutoff)
    ]


def _to_json(group: "CacheGroup") -> "JsonObject":
    return {
        "kind": group.kind,
        "target": group.target,
        "files": group.count,
        "bytes": group.size,
        "oldest": group.oldest.isoformat(),
        "last_used": group.used.isoformat(),
    }


def _print_json(fields: "JsonObject") -> None:
    from agentv.reports.text.printable import printable_json
    from agentv.types.messages_json import pretty_json

    click.echo(printable_json(pretty_json({"schema": CACHE_SCHEMA, **fields})))


def _size_text(size: int) -> str:
    """Return bytes as `950 B`, `12.3 kB`, `1.2 GB`."""
    amount, units = float(size), ["B", "kB", "MB", "GB"]
    while amount >= 999.95 and len(units) > 1:  # noqa: PLR2004 - what would be shown as 1000.0
        amount /= 1000
        units.pop(0)
    return f"{amount:.0f} B" if units[0] == "B" else f"{amount:.1f} {units[0]}"
