"""The stored runs that the viewer shows, opened by id, with their index and their reports."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from agentv.engine.stored.report import load_report
from agentv.storage.files.run_file import stamp_of
from agentv.storage.index.index import RunIndex
from agentv.storage.index.row_query import RowPage, RowQuery
from agentv.storage.run.find import ListedRun, find_run, list_run_folders
from agentv.storage.run.labels import LABELS_FILE
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.results import RunReport

Found = TypeVar("Found")

_FILES_OF_REPORT = ("results.jsonl", "events.jsonl", LABELS_FILE)
_REST_PER_WORK = 20
"""A report of a run that is going on is counted again after this many times the time that counting took."""
_MAX_REPORTS = 16


class UnknownRunError(ConfigError):
    """No stored run has the id of an address."""


class _CountedReport(Struct, frozen=True):
    stamp: tuple[str, ...]
    report: RunReport
    counted_at: float
    took_s: float


class Library:
    """The runs in `home` and in other `folders`. Safe to use from several threads, each of which has its own index."""

    def __init__(
        self,
        home: Path,
        *,
        folders: Sequence[Path] = (),
        note: Callable[[str], None] = lambda _: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.home = home
        self._others = {folder.name: folder for folder in folders}
        self._note = note
        self._clock = clock
        self._local = threading.local()
        self._lock = threading.Lock()
        self._reports: dict[str, _CountedReport] = {}

    def runs(self) -> tuple[ListedRun, ...]:
        """Return the runs of the project, newest first."""
        return self.index().runs()[::-1]

    def open(self, run_id: str) -> StoredRun:
        """Open the run with an id, with the start of one, or `latest`. Raises UnknownRunError, StorageError."""
        folder = self._others.get(run_id)
        if folder is None:
            # A path would open runs outside of the project.
            if "/" in run_id or run_id.startswith("."):
                raise UnknownRunError(f"there is no run {run_id!r} in {self.home}")
            try:
                folder = find_run(self.home, run_id)
            except ConfigError as error:
                raise UnknownRunError(str(error)) from None
        return StoredRun(folder)

    def page(self, stored: StoredRun, query: RowQuery) -> RowPage:
        """Return a page of a run's results."""
        return self.index().page(stored, query)

    def report(self, stored: StoredRun) -> RunReport:
        """Return the report of a run as its files are now; of a long run that is going on, of a moment ago."""
        stamp = tuple(stamp_of(stored.folder / name) for name in _FILES_OF_REPORT)
        with self._lock:
            known = self._reports.get(stored.run_id)
        if known is not None:
            is_recent = self._clock() - known.counted_at < _REST_PER_WORK * known.took_s
            if known.stamp == stamp or (is_recent and stored.state() == "running"):
                return known.report
        started = self._clock()
        report = load_report(stored)
        ended = self._clock()
        with self._lock:
            self._reports.pop(stored.run_id, None)
            while len(self._reports) >= _MAX_REPORTS:
                self._reports.pop(next(iter(self._reports)))
            self._reports[stored.run_id] = _CountedReport(stamp, report, ended, ended - started)
        return report

    def run_before(self, stored: StoredRun) -> str | None:
        """Return the id of the newest earlier run with the same eval files, or None."""
        earlier = [folder for folder in list_run_folders(self.home) if folder.name < stored.folder.name]
        for folder in reversed(earlier):
            with suppress(OSError):
                other = StoredRun(folder)
                if other.suites == stored.suites:
                    return other.run_id
        return None

    def index(self) -> RunIndex:
        """Return the index of the calling thread."""
        index: RunIndex | None = getattr(self._local, "index", None)
        if index is None:
            index = self._local.index = RunIndex(self.home, note=self._note)
        return index
