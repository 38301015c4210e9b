"""The stored runs that the viewer shows, opened by id, with their index and their reports."""

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agentv.engine.stored.report import load_report
from agentv.engine.stored.report_tools import labels_of, read_details
from agentv.reports.run.views import RowDetail
from agentv.storage.files.run_file import size_of, stamp_of
from agentv.storage.index.index import RunIndex
from agentv.storage.index.lines import RESULTS_FILE
from agentv.storage.index.pairs import ChangedKind, ChangedPairs
from agentv.storage.index.row_query import RowEntry, RowQuery
from agentv.storage.index.texts import StoredDetail
from agentv.storage.run.find import ListedRun, find_run, list_run_folders
from agentv.storage.run.labels import LABELS_FILE
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.results import CaseName, RunReport
from agentv.view.address import BadAddressError
from agentv.view.compared import ComparedRuns, compare_runs
from agentv.view.indexing import FoundRows, RunIndexes
from agentv.view.matching_cases import MatchingCases, matching_cases
from agentv.view.recent import RecentValues

_FILES_OF_REPORT = (RESULTS_FILE, "events.jsonl", LABELS_FILE)
_MAX_REPORTS = 16
_MAX_COMPARISONS = 4
_MAX_CASE_LISTS = 8
LONG_BYTES = 4 * 1024 * 1024
"""The size of the results of two runs from which their comparison is not waited for."""


class UnknownRunError(ConfigError):
    """No stored run has the id of an address."""


class CopiedRunError(ConfigError):
    """A run is a copy of another one, with the same id."""


class IncomparableRunsError(ConfigError):
    """Two runs have no case that can be compared."""


class Library:
    """The runs in `home` and in other `folders`. Safe to use from several threads, each of which has its own index.

    Raises StorageError for a folder without a run that can be read.
    """

    def __init__(
        self,
        home: Path,
        *,
        folders: Sequence[Path] = (),
        clock: Callable[[], float] = time.monotonic,
        long_bytes: int = LONG_BYTES,
    ) -> None:
        self.home = home
        self._long_bytes = long_bytes
        # By id, as in the links of pages: the folder of a copied run may have any name.
        self._others = {StoredRun(folder).run_id: folder for folder in folders}
        self._local = threading.local()
        self._indexes = RunIndexes(home)
        self._reports = RecentValues[RunReport](_MAX_REPORTS, clock)
        self._comparisons = RecentValues[ComparedRuns](_MAX_COMPARISONS, clock)
        self._changed = RecentValues[ChangedPairs | None](_MAX_COMPARISONS, clock)
        self._cases = RecentValues[MatchingCases](_MAX_CASE_LISTS, clock)

    def runs(self) -> tuple[ListedRun, ...]:
        """Return the runs of the project, newest first."""
        index = self.index()
        runs = index.runs()
        index.release_memory()  # each thread has its own index, and long runs fill it
        return runs[::-1]

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
        stored = StoredRun(folder)
        if run_id not in self._others and stored.run_id != folder.name and self._others.get(stored.run_id) != folder:
            self._check_only(stored)
        return stored

    def _check_only(self, stored: StoredRun) -> None:
        """Raise CopiedRunError if another folder has the id of a run in a renamed folder: links would lead there."""
        with suppress(ConfigError):
            found = self._others.get(stored.run_id) or find_run(self.home, stored.run_id)
            if found == stored.folder:
                return
        raise CopiedRunError(
            f"more than one folder has the run {stored.run_id}; to see this one: agentv view {stored.folder}"
        )

    def rows(self, stored: StoredRun, query: RowQuery) -> FoundRows:
        """Return a page of a run's results with their texts. Raises BadAddressError for a broken cursor."""
        try:
            return self._indexes.rows(stored, query)
        except ValueError as error:
            raise BadAddressError(f"after or before: {error}") from None

    def detail(self, stored: StoredRun, seq: int) -> RowDetail | None:
        """Return the result of a run with a number, with its case, answer and labels; None if there is none."""
        found = self._indexes.detail(stored, seq)
        if found is not None:
            return RowDetail(found.result, found.case, found.answer, labels_of(stored, found.result))
        rows = list(stored.results_numbered({seq}))  # not indexed yet, or not there
        return read_details(stored, rows)[0] if rows else None

    def entries(self, stored: StoredRun, query: RowQuery) -> Iterator[RowEntry]:
        """Yield all of a run's results that match a query, without their texts."""
        return self._indexes.entries(stored, query)

    def close(self) -> None:
        """Stop what goes on in the background."""
        self._indexes.stop()

    def report(self, stored: StoredRun) -> RunReport:
        """Return the report of a run as its files are now; of a long run that is going on, of a moment ago."""
        return self._reports.get(
            stored.folder, _stamp(stored), lambda: load_report(stored), is_running=stored.state() == "running"
        )

    def comparison(self, before: StoredRun, after: StoredRun) -> ComparedRuns:
        """Return the comparison of two runs as their files are now; of runs that are going on, of a moment ago.

        Raises ConfigError if no case can be compared.
        """
        return self._comparisons.get(
            (before.folder, after.folder),
            (_stamp(before), _stamp(after)),
            lambda: compare_runs(before, after, self.home),
            is_running="running" in (before.state(), after.state()),
        )

    def changed_pairs(
        self,
        before: StoredRun,
        after: StoredRun,
        kind: ChangedKind,
        accepts: Callable[[CaseName], bool] | None,
        *,
        most: int,
        named: Hashable,
    ) -> ChangedPairs | None:
        """Return the first pairs of long runs that changed, while their comparison is not known; else None.

        `named` tells one `accepts` from another.
        """
        key, stamp = (before.folder, after.folder), (_stamp(before), _stamp(after))
        is_long = sum(size_of(each.folder / RESULTS_FILE) for each in (before, after)) >= self._long_bytes
        if not is_long or self._comparisons.has(key, stamp):
            return None
        return self._changed.get(
            (*key, kind, named, most),
            stamp,
            lambda: self._indexes.changed_pairs(before, after, kind, accepts, most=most),
            is_running=False,
        )

    def details(self, stored: StoredRun, lines: Sequence[int]) -> tuple[StoredDetail, ...]:
        """Return the indexed results at lines of results.jsonl, from 1, each with its case."""
        return self._indexes.details(stored, lines)

    def cases(self, stored: StoredRun, query: RowQuery, *, only_differing: bool) -> MatchingCases:
        """Return the cases of which any result matches a query, on one page; on request only where results differ."""
        query = replace(query, page=1, page_size=None, after=None, before=None)
        progress = self._indexes.progress(stored)

        def find() -> MatchingCases:
            found = partial(self.entries, stored)
            return matching_cases(
                found, query, self._indexes.facets(stored, query), progress, only_differing=only_differing
            )

        return self._cases.get(
            (stored.folder, msgspec.json.encode(query), only_differing),
            (_stamp(stored), progress),
            find,
            is_running=stored.state() == "running",
        )

    def run_before(self, stored: StoredRun) -> str | None:
        """Return the id of the newest earlier run with the same eval files, or None."""
        folders = list_run_folders(self.home)
        place = folders.index(stored.folder) if stored.folder in folders else 0
        for folder in reversed(folders[:place]):
            with suppress(OSError):
                other = StoredRun(folder)
                if other.suites == stored.suites:
                    return other.run_id
        return None

    def index(self) -> RunIndex:
        """Return the index of the calling thread."""
        index: RunIndex | None = getattr(self._local, "index", None)
        if index is None:
            index = self._local.index = RunIndex(self.home, note=lambda _: None)
        return index


def _stamp(stored: StoredRun) -> tuple[str, ...]:
    """Return what changes with the files that a report is counted from."""
    return tuple(stamp_of(stored.folder / name) for name in _FILES_OF_REPORT)
