"""Batches that a run handed in and did not fetch: whoever asks the same again takes them up instead of paying twice."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from agentv.storage.find_run import list_run_folders
from agentv.storage.json_line import decode
from agentv.storage.run_lock import is_being_written
from agentv.types.json_value import JsonObject
from agentv.types.provider import BatchTicket

RUNS_SEARCHED = 50
ENDS = ("batch_fetched", "batch_failed")


def find_open_batch(
    home: Path, target: str, keys: AbstractSet[str], *, without: str | None = None
) -> BatchTicket | None:
    """Return the ticket of the latest batch of exactly these answer keys that nobody fetched, or None.

    A batch that failed is over too, and one whose run still goes on is that run's own.
    """
    over: set[str] = set()
    for folder in reversed(list_run_folders(home)[-RUNS_SEARCHED:]):
        if folder.name == without:
            continue
        events = list(_batch_events(folder / "events.jsonl"))
        over |= {str(event.get("id")) for event in events if event.get("type") in ENDS}
        if is_being_written(folder):
            over |= {str(event.get("id")) for event in events}
        for event in reversed(events):
            if event.get("type") != "batch_submitted" or event.get("target") != target or event.get("id") in over:
                continue
            kept = event.get("keys")
            if isinstance(kept, list) and frozenset(kept) == keys:
                return BatchTicket(str(event["id"]), tuple(map(str, kept)))
    return None


def _batch_events(path: Path) -> Iterator[JsonObject]:
    """Yield the events about batches; lines that cannot be read are somebody else's trouble."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return
    for line in lines:
        if b'"batch_' in line:
            try:
                yield decode(line)
            except ValueError:
                continue
