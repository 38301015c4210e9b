"""The index for pages by cursor of the runs that are looked at, which is filled in the background."""

import sqlite3
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from agentv.storage.index.file import pages_file
from agentv.storage.index.indexer import Indexer
from agentv.storage.index.pages import RunPages
from agentv.storage.index.pairs import ChangedKind, ChangedPairs, RunPairs
from agentv.storage.index.row_query import Counted, CursorPage, Facets, Progress, RowEntry, RowQuery
from agentv.storage.index.texts import RowTexts, StoredDetail
from agentv.storage.run.find import runs_folder
from agentv.storage.run.stored import StoredRun
from agentv.types.results import CaseName

_FIRST_WAIT_S = 0.3
"""How long the first request for a run waits for its index; a run of some thousand results is complete by then."""
_MAX_COUNTS = 64
_CHUNK_ROWS = 2_000

Found = TypeVar("Found")


class FoundRows(Struct, frozen=True):
    """One page of a run's results, with their texts."""

    page: CursorPage
    texts: tuple[RowTexts, ...]
    counted: Counted | None
    """None while the results are still being counted."""
    problem: str = ""
    """Why the rest of the run cannot be indexed; empty if nothing is known to be wrong."""

    @property
    def is_final(self) -> bool:
        """True if the same request gives the same page, as long as the run does not change."""
        progress = self.page.progress
        return progress.is_complete and progress.words_ready and self.counted is not None


class _Indexed(Struct):
    """What is known of the index of one run."""

    pages: RunPages
    lock: threading.Lock
    """Held while `pages` are read, which one thread at a time may do."""
    file: Path
    thread: threading.Thread | None = None
    indexer: Indexer | None = None
    problem: str = ""
    """Why the last attempt to index the run failed."""
    counts: dict[tuple[bytes, int], Counted] = field(default_factory=dict)
    counting: set[tuple[bytes, int]] = field(default_factory=set)

    def read(self, act: Callable[[RunPages], Found]) -> Found:
        """Return the result of `act` on the pages."""
        with self.lock:
            return act(self.pages)

    def add_results(self, indexer: Indexer) -> None:
        """Index what is new, or note why that failed."""
        try:
            indexer.run()
        except (OSError, sqlite3.Error) as error:
            self.problem = str(error)
        else:
            self.problem = ""


class RunIndexes:
    """The indexes of the runs of a project. Safe to use from several threads; `stop` ends all work in the background.

    A run elsewhere, or of a project that cannot be written, has its index in a temporary folder.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._indexed: dict[Path, _Indexed] = {}
        self._counters = ThreadPoolExecutor(1, thread_name_prefix="count")
        self._is_stopped = False

    def rows(self, stored: StoredRun, query: RowQuery) -> FoundRows:
        """Return a page of a run's results as far as they are indexed.

        Raises ValueError for a broken cursor, OSError for results that cannot be read.
        """
        indexed = self._refreshed(stored)

        def read(pages: RunPages) -> tuple[CursorPage, tuple[RowTexts, ...]]:
            page = pages.page(query)
            return page, pages.texts(page.rows)

        page, texts = indexed.read(read)
        counted = page.counted or self._count_later(stored, indexed, query, page.progress)
        return FoundRows(page, texts, counted, indexed.problem)

    def entries(self, stored: StoredRun, query: RowQuery) -> Iterator[RowEntry]:
        """Yield all results that match, as far as they are indexed, without their texts."""
        indexed = self._refreshed(stored)
        after = None
        while True:
            asked = replace(query, page=1, page_size=_CHUNK_ROWS, after=after, before=None)
            page = indexed.read(partial(RunPages.page, query=asked))
            yield from page.rows
            after = page.after
            if after is None:
                return

    def facets(self, stored: StoredRun, query: RowQuery) -> Facets:
        """Return the facets of a query, however long it takes to count them."""
        return self._refreshed(stored).read(lambda pages: pages.count(query)).facets

    def detail(self, stored: StoredRun, seq: int) -> StoredDetail | None:
        """Return a result with a number, whether it counts or not, with its case and answer; None if there is none."""

        def read(pages: RunPages) -> StoredDetail | None:
            rows = pages.rows_at([seq + 1])
            return pages.details(rows)[0] if rows else None

        return self._refreshed(stored).read(read)

    def details(self, stored: StoredRun, lines: Sequence[int]) -> tuple[StoredDetail, ...]:
        """Return the results at lines of results.jsonl, from 1, each with its case and answer."""
        return self._refreshed(stored).read(lambda pages: pages.details(pages.rows_at(lines)))

    def changed_pairs(
        self,
        before: StoredRun,
        after: StoredRun,
        kind: ChangedKind,
        accepts: Callable[[CaseName], bool] | None,
        *,
        most: int,
    ) -> ChangedPairs | None:
        """Return the first pairs of two runs that changed; None if the runs are not indexed, or cannot be paired."""
        sides = [self._refreshed(stored) for stored in (before, after)]
        if not all(side.read(RunPages.progress).is_complete for side in sides):
            return None
        with ExitStack() as stack:
            # Objects of their own, because the pass takes longer than a page, and the runs may be the same.
            pages = (stack.enter_context(closing(RunPages(side.file, side.pages.folder))) for side in sides)
            return RunPairs(*pages).changed(kind, accepts, most=most)

    def progress(self, stored: StoredRun) -> Progress:
        """Return how far a run is indexed, after a moment in which what is new may be added."""
        return self._refreshed(stored).read(RunPages.progress)

    def stop(self) -> None:
        """Stop indexing, and remove what was stored in a temporary folder."""
        with self._lock:
            self._is_stopped = True
            running = [each for each in self._indexed.values() if each.indexer is not None and each.thread is not None]
        self._counters.shutdown(wait=False, cancel_futures=True)
        for each in running:
            if each.indexer is not None and each.thread is not None:
                each.indexer.stop()
                each.thread.join()
        for each in self._indexed.values():
            each.read(RunPages.close)
        if self._temporary is not None:
            self._temporary.cleanup()

    def _indexed_run(self, stored: StoredRun) -> _Indexed:
        with self._lock:
            known = self._indexed.get(stored.folder)
            if known is None:
                file = self._file_for(stored)
                known = self._indexed[stored.folder] = _Indexed(RunPages(file, stored.folder), threading.Lock(), file)
            return known

    def _file_for(self, stored: StoredRun) -> Path:
        file = pages_file(self._home, stored.folder.name)
        if stored.folder.resolve().parent == runs_folder(self._home).resolve():
            with suppress(OSError):
                file.parent.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=file.parent):
                    return file
        if self._temporary is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="agentv-view-")
        return Path(self._temporary.name) / f"{len(self._indexed)}.db"

    def _refreshed(self, stored: StoredRun) -> _Indexed:
        """Begin to index what is new in a run, and wait a moment for it; return its index."""
        indexed = self._indexed_run(stored)
        progress = indexed.read(RunPages.progress)
        if progress.share >= 1 and progress.is_complete and progress.words_ready:
            return indexed
        with self._lock:
            is_idle = indexed.thread is None or not indexed.thread.is_alive()
            if is_idle and not self._is_stopped:
                indexed.indexer = Indexer(indexed.file, stored.folder)
                indexed.thread = threading.Thread(target=indexed.add_results, args=(indexed.indexer,), daemon=True)
                indexed.thread.start()
            thread = indexed.thread
        if thread is not None:
            thread.join(_FIRST_WAIT_S)
        return indexed

    def _count_later(self, stored: StoredRun, indexed: _Indexed, query: RowQuery, progress: Progress) -> Counted | None:
        """Return the counts of a query if they are known; else begin to count in the background."""
        plain = replace(query, sort="written", is_descending=False, page=1, page_size=None, after=None, before=None)
        key = msgspec.json.encode(plain), progress.lines
        with self._lock:
            if key in indexed.counts:
                return indexed.counts[key]
            if key in indexed.counting or self._is_stopped:
                return None
            indexed.counting.add(key)
            self._counters.submit(_quietly(partial(self._count, stored, indexed, plain, key)))
        return None

    def _count(self, stored: StoredRun, indexed: _Indexed, query: RowQuery, key: tuple[bytes, int]) -> None:
        pages = RunPages(indexed.file, stored.folder)
        try:
            counted = pages.count(query)
        finally:
            pages.close()
            with self._lock:
                indexed.counting.discard(key)
        with self._lock:
            while len(indexed.counts) >= _MAX_COUNTS:
                indexed.counts.pop(next(iter(indexed.counts)))
            indexed.counts[key] = counted


def _quietly(work: Callable[[], None]) -> Callable[[], None]:
    """Return a function that does work in the background; the next request reports what cannot be read."""

    def run() -> None:
        with suppress(OSError, sqlite3.Error):
            work()

    return run
