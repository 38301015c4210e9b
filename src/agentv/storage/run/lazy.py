"""Stores of runs that may not be stored: one that is opened by its first row, and one that keeps nothing."""

from collections.abc import Callable, Mapping, Sequence

from agentv.types.json_value import JsonValue
from agentv.types.protocols import FileStore, ReportingStore, ResultStore
from agentv.types.records.answer import Answer
from agentv.types.records.result import CaseResult
from agentv.types.records.run import CaseRecord, RunRecord


class NoStore:
    """A ResultStore that keeps nothing."""

    run_id = ""
    folder = None

    def begin(self, run: RunRecord) -> None:
        """Do nothing."""

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Do nothing."""

    def append_case(self, case: CaseRecord) -> None:
        """Do nothing."""

    def append_answer(self, answer: Answer) -> Answer:
        """Return the answer as it is."""
        return answer

    def append(self, result: CaseResult) -> CaseResult:
        """Return the result as it is."""
        return result

    def close(self, state: str) -> None:
        """Do nothing."""


class LazyStore:
    """A ResultStore that is opened by its first line, so that no run is empty.

    `make_record` describes the run that `open_store` opened. An event before the first line is of no run, and dropped.
    """

    def __init__(self, open_store: Callable[[], ResultStore], make_record: Callable[[str], RunRecord]) -> None:
        self._open_store = open_store
        self._make_record = make_record
        self._opened: ResultStore | None = None
        self._report: Callable[[str], None] | None = None

    def open(self) -> ResultStore:
        """Return the store, opened on first use. Raises StorageError."""
        if self._opened is None:
            self._opened = self._open_store()
            if self._report is not None and isinstance(self._opened, ReportingStore):
                self._opened.report_to(self._report)
            self._opened.begin(self._make_record(self._opened.run_id))
        return self._opened

    @property
    def run_id(self) -> str:
        """The id of the run; "" before the first line."""
        return "" if self._opened is None else self._opened.run_id

    @property
    def folder(self) -> str | None:
        """The run's folder on disk; None before the first line."""
        return None if self._opened is None else self._opened.folder

    def report_to(self, report: Callable[[str], None]) -> None:
        """Call `report` with each message of the store."""
        self._report = report

    def begin(self, run: RunRecord) -> None:
        """Do nothing: the run begins with its first line."""

    def note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        """Write one event of the run, if it has a line."""
        if self._opened is not None:
            self._opened.note(type_, fields)

    def append_case(self, case: CaseRecord) -> None:
        """Write a case; a repeated write of the same case is ignored."""
        self.open().append_case(case)

    def append_answer(self, answer: Answer) -> Answer:
        """Write an answer; return it with its `seq`."""
        return self.open().append_answer(answer)

    def append(self, result: CaseResult) -> CaseResult:
        """Write a row; return it with its `seq`."""
        return self.open().append(result)

    def lost_files(self) -> Sequence[str]:
        """Return what is missing of the written files."""
        store: object = self._opened
        return store.lost_files() if isinstance(store, FileStore) else ()

    def close(self, state: str) -> None:
        """Write the end of the run, if it has a line, and release its lock."""
        if self._opened is not None:
            self._opened.close(state)
