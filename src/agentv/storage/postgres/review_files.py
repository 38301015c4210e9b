"""Copy the review queues of a run, which never change, between its folder and the database."""

from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.run.reviews import REVIEWS_FOLDER, load_queue_file, queue_names, save_queue_file
from agentv.types.errors import ConfigError, StorageError

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection
    from agentv.templating.store_url import StoreUrl

_ADD = "INSERT INTO agentv.reviews (run_id, name, record) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_FIND = "SELECT name, record FROM agentv.reviews WHERE run_id = %s ORDER BY name"


class ReviewPusher:
    """Pushes the queues of a run, also those drawn later. Raises StorageError for one that differs in the database."""

    def __init__(self, folder: Path, run_id: str, url: "StoreUrl") -> None:
        self._folder = folder
        self._run_id = run_id
        self._url = url
        self._pushed: set[str] = set()

    def push(self, connection: "Connection") -> int:
        """Push the queues that were not pushed yet; return the number that the database lacked."""
        missing = [name for name in queue_names(self._folder) if name not in self._pushed]
        if not missing:
            return 0
        known = _stored(connection, self._run_id)
        added = 0
        for name in missing:
            record = load_queue_file(self._folder, name)
            if name not in known:
                added += connection.execute(_ADD, [self._run_id, name, record]).rowcount
                known |= _stored(connection, self._run_id)
            if known.get(name) != record:
                raise StorageError(
                    f"the store {self._url} has a different {REVIEWS_FOLDER}/{name}.json of run {self._run_id}: a "
                    "queue of this name was drawn in another copy of the run. This one was not pushed; draw another "
                    "one with agentv review --queue NAME"
                )
            self._pushed.add(name)
        return added


def pull_reviews(connection: "Connection", url: "StoreUrl", run_id: str, folder: Path) -> int:
    """Write the queues that a run's folder lacks; return their number.

    Raises StorageError, before any is written, if a queue of the folder differs from that of the database.
    """
    found = _stored(connection, run_id)
    own = {name: load_queue_file(folder, name) for name in queue_names(folder) if name in found}
    different = next((name for name, record in own.items() if record != found[name]), None)
    if different is not None:
        raise StorageError(
            f"{folder} has a different {REVIEWS_FOLDER}/{different}.json than the store {url}: a queue of this name "
            "was drawn in another copy of the run. Nothing was changed; move the folder away to pull"
        )
    for name in found.keys() - own.keys():
        try:
            save_queue_file(folder, name, found[name])
        except ConfigError as error:
            raise StorageError(f"the store {url} has a bad review queue of run {run_id}: {error}") from error
    return len(found) - len(own)


def _stored(connection: "Connection", run_id: str) -> dict[str, bytes]:
    rows = connection.execute(_FIND, [run_id], binary=True).fetchall()
    return {str(name): bytes(record) for name, record in rows}
