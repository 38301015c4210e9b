"""Batches that were submitted and never fetched: a later run with the same requests fetches them."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path

from agentv.storage.records.json_line import decode
from agentv.storage.run.find import list_run_folders
from agentv.storage.run.lock import is_being_written
from agentv.types.json_value import JsonObject
from agentv.types.provider import BatchTicket

RUNS_SEARCHED = 50
"""The number of latest runs whose events are searched."""
END_EVENTS = ("batch_fetched", "batch_failed")


def find_open_batch(
    home: Path, target: str, unanswered: AbstractSet[str], *, keys: AbstractSet[str], own_run_id: str | None = None
) -> BatchTicket | None:
    """Return the ticket of the latest open batch that answers the keys in `unanswered`, or None.

    `keys` are the answer keys of all requests of the caller, `unanswered` those without an answer yet. A batch of
    another run must have all of `unanswered` and no key outside `keys`. A batch of the calling run, `own_run_id`, needs
    only one key of `unanswered`, because its other keys may have been answered since. A batch is not open if it was
    fetched, if it failed, or if another run that is still being written submitted it.
    """
    closed: set[str] = set()
    for folder in reversed(list_run_folders(home)[-RUNS_SEARCHED:]):
        events = list(_batch_events(folder / "events.jsonl"))
        closed |= {str(event.get("id")) for event in events if event.get("type") in END_EVENTS}
        if folder.name != own_run_id and is_being_written(folder):
            closed |= {str(event.get("id")) for event in events}
        for event in reversed(events):
            if event.get("type") != "batch_submitted" or event.get("target") != target or event.get("id") in closed:
                continue
            listed = event.get("keys")
            ticket = BatchTicket(str(event.get("id")), tuple(map(str, listed)) if isinstance(listed, list) else ())
            requested = frozenset(ticket.keys)
            if (unanswered & requested) if folder.name == own_run_id else (unanswered <= requested <= keys):
                return ticket
    return None


def _batch_events(path: Path) -> Iterator[JsonObject]:
    """Yield the events about batches; skip lines that cannot be read."""
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
