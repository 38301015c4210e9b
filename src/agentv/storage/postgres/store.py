"""A PostgreSQL database in which a team shares runs."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import connect, store_errors
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.migrations import check_version, newest_version, upgrade
from agentv.storage.postgres.mirrored_run import MirroredRun
from agentv.storage.postgres.run_rows import find_shared_run, list_shared_runs, remove_shared_runs
from agentv.storage.run.folder import RunFolder
from agentv.storage.shared_runs import Pulled, Pushed, SharedRun, Upgraded
from agentv.templating.store_url import StoreUrl
from agentv.types.protocols import ResultStore

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection


class PostgresStore:
    """The database behind a URL. Nothing connects before a method is called."""

    def __init__(self, url: StoreUrl) -> None:
        self._url = url

    def share_run(self, open_folder: Callable[[], RunFolder]) -> ResultStore:
        """Open a run's folder, which is pushed to the database in the background. Raises StorageError."""
        return MirroredRun(self._url, open_folder)

    def upgrade(self) -> Upgraded:
        """Create or upgrade the tables. Raises StorageError."""
        connection = connect(self._url)
        with connection, store_errors(self._url, "cannot be upgraded"):
            return Upgraded(newest_version(), upgrade(connection, self._url))

    @contextmanager
    def opened(self) -> "Iterator[PostgresRuns]":
        """Connect until the end of the block. Raises StorageError when the tables have another version."""
        with connect(self._url) as connection:
            with store_errors(self._url, "cannot be read"):
                check_version(connection, self._url)
            yield PostgresRuns(connection, self._url)


class PostgresRuns:
    """The runs of a database, as SharedRuns."""

    def __init__(self, connection: "Connection", url: StoreUrl) -> None:
        self._connection = connection
        self._url = url

    def list(self) -> tuple[SharedRun, ...]:
        """Return all runs, oldest first."""
        return list_shared_runs(self._connection, self._url)

    def find(self, reference: str) -> str:
        """Return the id of the run that a reference names. Raises ConfigError."""
        return find_shared_run(self._connection, self._url, reference)

    def push(self, folder: Path) -> Pushed:
        """Copy what the database lacks of a run folder, with the run's state."""
        pusher = RunPusher(folder, self._connection, self._url)
        lines = pusher.push()
        pusher.settle()
        return Pushed(pusher.run_id, lines)

    def pull(self, run_id: str, runs_folder: Path) -> Pulled:
        """Copy what this machine lacks of a run."""
        return RunPuller(self._connection, self._url, run_id).pull(runs_folder)

    def remove(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Delete runs with all their lines; return the ids that existed."""
        return remove_shared_runs(self._connection, self._url, run_ids)
