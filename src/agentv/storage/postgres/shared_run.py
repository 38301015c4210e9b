"""A run that is written to its folder and brought to the team's database behind it."""

from collections.abc import Callable, Mapping
from pathlib import Path

from agentv.storage.postgres.connection import connect, told
from agentv.storage.postgres.migrations import check_version
from agentv.storage.postgres.mirror import PATIENCE_S, Mirror
from agentv.storage.postgres.url import StoreUrl
from agentv.storage.run_folder import RunFolder
from agentv.types.json_value import JsonValue
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord

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
