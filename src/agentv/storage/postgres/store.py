"""A PostgreSQL database in which a team shares runs, and a run that is pushed to it in the background."""

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import connect, store_errors
from agentv.storage.postgres.copying import RunPuller, RunPusher
from agentv.storage.postgres.migrations import check_version, newest_version, upgrade
from agentv.storage.postgres.run_rows import find_shared_run, list_shared_runs, remove_shared_runs
from agentv.storage.run.folder import RunFolder
from agentv.storage.shared_runs import Pulled, Pushed, SharedRun, Upgraded
from agentv.templating.store_url import StoreUrl
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue
from agentv.types.protocols import REPORT_WAIT_S, ResultStore
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection


GATHER_S = 0.2
"""Seconds for which new lines are collected before they are pushed together."""
PATIENCE_S = 15.0
"""Seconds for which the end of a run waits for a database that makes no progress."""
LAST_ATTEMPTS = 2
"""The attempts to push the last lines at the end of a run."""
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


class Mirror:
    """Pushes one run folder to the database in a thread, from `start` until `finish`.

    A broken connection is reopened after one second, then after growing delays of up to half a minute. The thread
    appends messages for the user to `messages`; the writer of the run reports them.
    """

    def __init__(self, folder: Path, url: StoreUrl, connection: "Connection") -> None:
        self.messages: deque[str] = deque()
        self._folder = folder
        self._url = url
        self._connection: Connection | None = connection
        self._pusher: RunPusher | None = None
        self._has_reported_loss = False
        self._wait_s = 0.0
        self._progress_at = time.monotonic()
        self._is_behind = True
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentv-store", daemon=True)

    def start(self) -> None:
        """Compare the folder with the database, then start the thread. Raises StorageError as RunPusher does."""
        connection = self._connection or connect(self._url)
        self._pusher = RunPusher(self._folder, connection, self._url)
        self._thread.start()

    def wake(self) -> None:
        """Wake the thread because the folder has new lines."""
        if not self._woken.is_set():
            self._woken.set()

    def finish(
        self,
        patience_s: float = PATIENCE_S,
        *,
        on_wait: Callable[[], None] = lambda: None,
        report_wait_s: float = REPORT_WAIT_S,
    ) -> None:
        """Push the remaining lines; after `patience_s` without progress, report that some were not pushed.

        After `report_wait_s`, the wait is reported and `on_wait` is called.
        """
        if self._thread.ident is None:
            self._disconnect()
            return
        began = self._progress_at = time.monotonic()
        has_reported_wait = False
        self._closing.set()
        self._woken.set()
        while self._thread.is_alive() and time.monotonic() - self._progress_at < patience_s:
            if not has_reported_wait and time.monotonic() - began >= report_wait_s:
                has_reported_wait = True
                self.messages.append(
                    f"waiting for the store {self._url} to take the rest of this run, until it takes nothing for "
                    f"{patience_s:g} s"
                )
                on_wait()
            self._thread.join(GATHER_S)
        if self._is_behind:
            self.messages.append(
                f"the store {self._url} lacks a part of this run; push the rest: agentv store push {self._folder.name}"
            )

    def _run(self) -> None:
        """Push new lines until `finish`, pausing to collect them or after a failure; then push the last ones.

        Only pushes after `finish` count as attempts. `finish` also ends a pause.
        """
        attempts = LAST_ATTEMPTS
        while attempts:
            self._woken.wait()
            self._closing.wait(self._wait_s or GATHER_S)
            self._woken.clear()
            is_last = self._closing.is_set()
            is_complete = self._push()
            if is_last:
                attempts = 0 if is_complete else attempts - 1
                if attempts:
                    time.sleep(_FIRST_WAIT_S)
            if not is_complete:
                self._woken.set()
        self._disconnect()

    def _push(self) -> bool:
        """Push all new lines; return True if all of them are stored."""
        self._is_behind = True
        try:
            pusher = self._pusher = self._pusher or self._reconnect()
            pusher.push(self._note_progress)
        except StorageError as error:
            self._handle_loss(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a dead thread would push nothing more
            self._handle_loss(f"the store {self._url} failed: {type(error).__name__}")
            return False
        if self._has_reported_loss:
            self.messages.append(f"the store {self._url} is reachable again and up to date with this run")
        self._has_reported_loss = self._is_behind = False
        self._wait_s = 0.0
        return True

    def _reconnect(self) -> RunPusher:
        self._connection = connect(self._url)
        check_version(self._connection, self._url)
        return RunPusher(self._folder, self._connection, self._url)

    def _note_progress(self) -> None:
        self._progress_at = time.monotonic()

    def _handle_loss(self, message: str) -> None:
        if not self._has_reported_loss:
            self.messages.append(f"{message}. The run continues; its folder has every result")
        self._has_reported_loss = True
        self._wait_s = min(self._wait_s * 2 or _FIRST_WAIT_S, _LONGEST_WAIT_S)
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection, self._pusher = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


INTERRUPTED_PATIENCE_S = 3.0
"""As PATIENCE_S, for a run that was interrupted."""


class MirroredRun:
    """A ResultStore: the run folder acknowledges every record, and a Mirror pushes it to the database.

    The constructor connects first and raises StorageError when the database cannot be reached or has tables of
    another version, before any call costs money. `open_folder` then creates or reopens the run's folder. A later loss
    of the database does not stop the run; it is reported through `report_to`.
    """

    def __init__(self, url: StoreUrl, open_folder: Callable[[], RunFolder]) -> None:
        connection = connect(url)
        try:
            with store_errors(url, "cannot be read"):
                check_version(connection, url)
            self._run_folder = open_folder()
        except BaseException:
            connection.close()
            raise
        self._mirror = Mirror(Path(self._run_folder.folder), url, connection)
        self._report_message: Callable[[str], None] | None = None

    @property
    def run_id(self) -> str:
        """The id of the run that is written."""
        return self._run_folder.run_id

    @property
    def folder(self) -> str:
        """The path of the run's folder on this machine."""
        return self._run_folder.folder

    def report_to(self, report: Callable[[str], None]) -> None:
        """Call `report` with each message about the database or segments, in the thread that writes the run."""
        self._report_message = report
        self._run_folder.report_to(report)

    def begin(self, run: RunRecord) -> None:
        """Write run.json and start pushing. Raises StorageError when the database has a different run with this id."""
        self._run_folder.begin(run)
        self._mirror.start()
        self._mirror.wake()

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run."""
        self._run_folder.note(type_, fields)
        self._after_write()

    def append_case(self, case: CaseRecord) -> None:
        """Write a planned case; ignore a case that is already written."""
        self._run_folder.append_case(case)
        self._after_write()

    def append_answer(self, answer: Answer) -> Answer:
        """Write an answer and return it with its `seq`."""
        stored = self._run_folder.append_answer(answer)
        self._after_write()
        return stored

    def append(self, result: CaseResult) -> CaseResult:
        """Write a result and return it with its `seq`."""
        stored = self._run_folder.append(result)
        self._after_write()
        return stored

    def lost_files(self) -> tuple[str, ...]:
        """Return what is missing of the files of the run folder."""
        return self._run_folder.lost_files()

    def close(self, state: str) -> None:
        """Write the end of the run, then wait a limited time until the database has all lines."""
        try:
            self._run_folder.close(state)
        finally:
            patience_s = INTERRUPTED_PATIENCE_S if state == "interrupted" else PATIENCE_S
            self._mirror.finish(patience_s, on_wait=self._report)
            self._report()

    def _after_write(self) -> None:
        self._mirror.wake()
        if self._mirror.messages:
            self._report()

    def _report(self) -> None:
        while self._mirror.messages and self._report_message is not None:
            self._report_message(self._mirror.messages.popleft())


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
        """Connect for the duration of the block. Raises StorageError when the tables have another version."""
        with connect(self._url) as connection:
            with store_errors(self._url, "cannot be read"):
                check_version(connection, self._url)
            yield PostgresRuns(connection, self._url)


class PostgresRuns:
    """Implements the protocol SharedRuns (shared_runs.py) for the runs of a database."""

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
        """Copy the lines of a run folder that the database lacks, and the run's state."""
        pusher = RunPusher(folder, self._connection, self._url)
        lines = pusher.push()
        pusher.push_state()
        return Pushed(pusher.run_id, lines)

    def pull(self, run_id: str, runs_folder: Path, *, files: Collection[str] | None = None) -> Pulled:
        """Copy the lines of a run that this machine lacks; of a new folder only the named files, None for all."""
        return RunPuller(self._connection, self._url, run_id).pull(runs_folder, files=files)

    def remove(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Delete runs with all their lines; return the ids that existed."""
        return remove_shared_runs(self._connection, self._url, run_ids)
