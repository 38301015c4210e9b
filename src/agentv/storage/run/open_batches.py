"""Batches that a run handed in and did not fetch: whoever asks the same again takes them up instead of paying twice."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from agentv.storage.records.json_line import decode
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.lock import is_being_written
from agentv.types.json_value import JsonObject
from agentv.types.provider import BatchTicket

RUNS_SEARCHED = 50
ENDS = ("batch_fetched", "batch_failed")


def find_open_batch(
    home: Path, target: str, left: AbstractSet[str], *, keys: AbstractSet[str], own: str | None = None
) -> BatchTicket | None:
    """Return the ticket of the latest batch that nobody fetched and that answers what is `left` of `keys`, or None.

    It has answers to all that is left, and was handed in for none but these answer keys. Of the run that asks, `own`,
    any batch will do that answers some of what is left: what else was in it is done. A batch that failed is over too,
    and one whose run still goes on is that run's own.
    """
    over: set[str] = set()
    for folder in reversed(list_run_folders(home)[-RUNS_SEARCHED:]):
        events = list(_batch_events(folder / "events.jsonl"))
        over |= {str(event.get("id")) for event in events if event.get("type") in ENDS}
        if folder.name != own and is_being_written(folder):
            over |= {str(event.get("id")) for event in events}
        for event in reversed(events):
            if event.get("type") != "batch_submitted" or event.get("target") != target or event.get("id") in over:
                continue
            kept = event.get("keys")
            ticket = BatchTicket(str(event.get("id")), tuple(map(str, kept)) if isinstance(kept, list) else ())
            asked = frozenset(ticket.keys)
            if (left & asked) if folder.name == own else (left <= asked <= keys):
                return ticket
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
