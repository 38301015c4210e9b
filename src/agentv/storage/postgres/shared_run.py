"""A run that is written to its folder and brought to the team's database behind it."""

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from agentv.storage.postgres.connection import connect, told
from agentv.storage.postgres.migrations import check_version
from agentv.storage.postgres.push import RunPusher
from agentv.storage.postgres.url import StoreUrl
from agentv.storage.run.folder import RunFolder
from agentv.types.errors import StorageError
from agentv.types.json_value import JsonValue
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord

if TYPE_CHECKING:
    from agentv.storage.postgres.connection import Connection


GATHER_S = 0.2
"""How long lines are gathered before they are brought together."""
PATIENCE_S = 15.0
"""How long the end of a run waits for a database that takes nothing."""
LAST_TRIES = 2
_FIRST_WAIT_S = 1.0
_LONGEST_WAIT_S = 30.0


class Mirror:
    """Brings one run folder to the database from `start` until `finish`.

    A connection that breaks is opened again, after one second first, then later and later up to half a minute.
    `said` fills with what people should know, in order; whoever owns the run takes it out and tells it.
    """

    def __init__(self, folder: Path, url: StoreUrl, connection: "Connection") -> None:
        self.said: deque[str] = deque()
        self._folder = folder
        self._url = url
        self._connection: Connection | None = connection
        self._pusher: RunPusher | None = None
        self._told_of_loss = False
        self._wait_s = 0.0
        self._moved_at = time.monotonic()
        self._is_behind = True
        self._woken = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agentv-store", daemon=True)

    def start(self) -> None:
        """Compare the folder with the database, then begin to bring it. Raises StorageError when they differ."""
        connection = self._connection or connect(self._url)
        self._pusher = RunPusher(self._folder, connection, self._url)
        self._thread.start()

    def wake(self) -> None:
        """Say that the folder has more; costs nothing while the thread is at it."""
        if not self._woken.is_set():
            self._woken.set()

    def finish(self, patience_s: float = PATIENCE_S) -> None:
        """Bring the rest, and say so when that is not possible; waits as long as it goes on, and `patience_s` more."""
        if self._thread.ident is None:
            self._disconnect()
            return
        self._moved_at = time.monotonic()
        self._closing.set()
        self._woken.set()
        while self._thread.is_alive() and time.monotonic() - self._moved_at < patience_s:
            self._thread.join(GATHER_S)
        if self._is_behind:
            self.said.append(
                f"the store {self._url} has not all of this run; bring the rest: agentv store push {self._folder.name}"
            )

    def _run(self) -> None:
        tries = LAST_TRIES
        while tries:
            self._woken.wait()
            self._closing.wait(self._wait_s or GATHER_S)
            self._woken.clear()
            is_last = self._closing.is_set()
            is_through = self._bring()
            if is_last:
                tries = 0 if is_through else tries - 1
                time.sleep(0 if is_through or not tries else _FIRST_WAIT_S)
            if not is_through:
                self._woken.set()
        self._disconnect()

    def _bring(self) -> bool:
        """Bring what there is; return whether all of it is safe."""
        self._is_behind = True
        try:
            pusher = self._pusher = self._pusher or self._reconnected()
            pusher.push(self._moved)
        except StorageError as error:
            self._lost(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a thread that died would leave the run's owner waiting for it
            self._lost(f"the store {self._url} failed: {type(error).__name__}")
            return False
        if self._told_of_loss:
            self.said.append(f"the store {self._url} answers again and has the run so far")
        self._told_of_loss = self._is_behind = False
        self._wait_s = 0.0
        return True

    def _reconnected(self) -> RunPusher:
        self._connection = connect(self._url)
        check_version(self._connection, self._url)
        return RunPusher(self._folder, self._connection, self._url)

    def _moved(self) -> None:
        self._moved_at = time.monotonic()

    def _lost(self, message: str) -> None:
        if not self._told_of_loss:
            self.said.append(f"{message}. The run goes on; its folder has every row")
        self._told_of_loss = True
        self._wait_s = min(self._wait_s * 2 or _FIRST_WAIT_S, _LONGEST_WAIT_S)
        self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection, self._pusher = self._connection, None, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


INTERRUPTED_PATIENCE_S = 3.0


class SharedRun:
    """A ResultStore: every row is acknowledged by the run folder, which stays the truth.

    Making one connects, and raises StorageError when the database cannot be reached or has tables of another version:
    before anything is paid for. `open_folder` makes or reopens the run's folder after that. A database that goes away
    later stops nothing: it is told through `tell_by`.
    """

    def __init__(self, url: StoreUrl, open_folder: Callable[[], RunFolder]) -> None:
        connection = connect(url)
        try:
            with told(url, "cannot be read"):
                check_version(connection, url)
            self._inner = open_folder()
        except BaseException:
            connection.close()
            raise
        self._mirror = Mirror(Path(self._inner.folder), url, connection)
        self._tell: Callable[[str], None] | None = None

    @property
    def run_id(self) -> str:
        """The run that is written."""
        return self._inner.run_id

    @property
    def folder(self) -> str:
        """Where the run lies on this machine."""
        return self._inner.folder

    def tell_by(self, tell: Callable[[str], None]) -> None:
        """Give what people should know of the database to `tell`, in the thread that writes the run."""
        self._tell = tell

    def begin(self, run: RunRecord) -> None:
        """Write run.json, and begin to bring the run. Raises StorageError when the database has another of its id."""
        self._inner.begin(run)
        self._mirror.start()
        self._mirror.wake()

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run."""
        self._inner.note(type_, fields)
        self._wrote()

    def append_case(self, case: CaseRecord) -> None:
        """Write a planned case; a second write of the same case is dropped."""
        self._inner.append_case(case)
        self._wrote()

    def append_answer(self, answer: Answer) -> Answer:
        """Write what a target returned; the answer comes back with its `seq`."""
        kept = self._inner.append_answer(answer)
        self._wrote()
        return kept

    def append(self, result: CaseResult) -> CaseResult:
        """Write a judged row; the row comes back with its `seq`."""
        kept = self._inner.append(result)
        self._wrote()
        return kept

    def close(self, state: str) -> None:
        """Write the end of the run, then give the database a while to take the rest."""
        try:
            self._inner.close(state)
        finally:
            self._mirror.finish(INTERRUPTED_PATIENCE_S if state == "interrupted" else PATIENCE_S)
            self._say()

    def _wrote(self) -> None:
        self._mirror.wake()
        if self._mirror.said:
            self._say()

    def _say(self) -> None:
        while self._mirror.said and self._tell is not None:
            self._tell(self._mirror.said.popleft())
