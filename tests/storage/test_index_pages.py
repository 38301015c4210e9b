"""Pages by cursor equal the sorted list of all results, whatever is indexed so far, and never depend on an index."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.storage.test_index import Row, keep, queries, read_page, rows

from agentv.storage.index.indexer import Indexer
from agentv.storage.index.pages import RunPages, pages_file
from agentv.storage.index.paging import FEW
from agentv.storage.index.row_query import CursorPage, RowQuery
from agentv.storage.run.stored import StoredRun


def open_pages(home: Path, stored: StoredRun) -> RunPages:
    return RunPages(pages_file(home, stored.run_id), stored.folder)


def index_run(home: Path, stored: StoredRun) -> None:
    Indexer(pages_file(home, stored.run_id), stored.folder).run()


def lines(page: CursorPage) -> list[int]:
    return [entry.line for entry in page.rows]


def walk(pages: RunPages, query: RowQuery) -> Iterator[CursorPage]:
    """Yield all pages of a query, the first one first."""
    page = pages.page(query)
    yield page
    while page.after is not None:
        page = pages.page(replace(query, after=page.after))
        yield page


def walk_back(pages: RunPages, query: RowQuery, page: CursorPage) -> Iterator[CursorPage]:
    while page.before is not None:
        page = pages.page(replace(query, before=page.before))
        yield page


def expected_lines(stored: StoredRun, query: RowQuery) -> list[int]:
    return [(row.seq or 0) + 1 for row in read_page(stored, replace(query, page=1, page_size=None))[0]]


@given(
    st.lists(st.lists(rows(), max_size=12), min_size=1, max_size=2),
    st.lists(queries, min_size=1, max_size=6),
    st.sampled_from([0, 2, FEW]),
)
def test_pages_by_cursor_are_the_sorted_list_however_the_run_grew(
    growth: list[list[Row]], page_queries: list[RowQuery], few: int
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        for new in growth:
            stored = keep(home, new)
            index_run(home, stored)
            with closing(RunPages(pages_file(home, stored.run_id), stored.folder, few=few)) as pages:
                for query in page_queries:
                    found = list(walk(pages, query))
                    assert [line for page in found for line in lines(page)] == expected_lines(stored, query)
                    assert [page.before is None for page in found] == [True] + [False] * (len(found) - 1)
                    back = list(walk_back(pages, query, found[-1]))
                    assert list(map(lines, back)) == list(map(lines, found[-2::-1]))
                    _, total, facets = read_page(stored, query)
                    assert pages.count(query) == (total, facets)
                    assert found[0].counted in (None, (total, facets))
                    assert found[0].counts == stored.counts()
                assert pages.progress().is_complete
