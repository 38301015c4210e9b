"""Pages by cursor equal the sorted list of all results, whatever is indexed so far, and never depend on an index."""

import json
import sqlite3
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.storage.test_index import Row, judged, keep, queries, read_page, row, rows, trials_of
from tests.support.stored import RUN, SLOT, at_noon, make_answer, make_case, make_result, make_run

from agentv.scoring.gates.failing_cases import shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.file import pages_file
from agentv.storage.index.index import RunIndex
from agentv.storage.index.indexer import Indexer
from agentv.storage.index.pages import RunPages
from agentv.storage.index.paging import FEW
from agentv.storage.index.row_query import SORT_KEYS, Counted, CursorPage, Progress, RowEntry, RowQuery, SortKey
from agentv.storage.index.words import begin_words, find_words, split_words
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.errors import StorageError
from agentv.types.records.answer import AnswerRef


def encoded(values: list[object]) -> str:
    return urlsafe_b64encode(json.dumps(values).encode()).rstrip(b"=").decode()


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


def trial_counts(rows: Iterable[RowEntry]) -> dict[int, tuple[int, int] | None]:
    """Return the numbers of passed trials and of all by the line of the row that stands for them."""
    return {row.line: row.trials for row in rows}


def expected_counts(stored: StoredRun, query: RowQuery) -> dict[int, tuple[int, int]]:
    counts = {
        (min(trials, key=shown_first).seq or 0) + 1: (sum(row_state(row) == "pass" for row in trials), len(trials))
        for trials in trials_of(stored.results())
    }
    return {line: counts[line] for line in expected_lines(stored, query)}


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
                    if query.one_trial:
                        assert trial_counts(row for page in found for row in page.rows) == expected_counts(
                            stored, query
                        )
                assert pages.progress().is_complete


@st.composite
def trials(draw: st.DrawFn, generations: Sequence[int]) -> Row:
    """A result of one of few cases, so that those of a case come in any order, and replace each other."""
    status, verdict = draw(judged)
    slot = replace(SLOT, eval_id=draw(st.sampled_from("xy")), trial=draw(st.integers(0, 2)))
    return make_result(slot=slot, status=status, verdict=verdict, generation=draw(st.sampled_from(generations)))


def growths(generations: Sequence[int]) -> st.SearchStrategy[list[list[Row]]]:
    return st.lists(st.lists(trials(generations), max_size=4), min_size=1, max_size=5)


@given(growths([0]) | growths([0, 0, 0, 1, 2]), st.sampled_from([*SORT_KEYS]), st.booleans())
def test_the_worst_trial_of_a_case_is_shown_in_whatever_order_results_come(
    growth: list[list[Row]], sort: SortKey, is_descending: bool
) -> None:
    query = RowQuery(one_trial=True, sort=sort, is_descending=is_descending, page_size=1)
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        for new in growth:
            stored = keep(home, new)
            with closing(indexed_pages(home, stored)) as pages:
                found = list(walk(pages, query))
                assert [line for page in found for line in lines(page)] == expected_lines(stored, query)
                assert trial_counts(row for page in found for row in page.rows) == expected_counts(stored, query)
                assert found[0].counted == Counted(*read_page(stored, query)[1:])
                assert found[0].entries == found[0].counted.total


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".agentv"


def indexed_pages(home: Path, stored: StoredRun) -> RunPages:
    index_run(home, stored)
    return RunPages(pages_file(home, stored.run_id), stored.folder)


def ids(page: CursorPage) -> list[str]:
    return [entry.slot.eval_id for entry in page.rows]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "?", "\0", "ü", "x" * 10_000, "e30", encoded(["score", 1.0]), encoded(["score", "high", 1])),
        *(encoded(["score", 0.5, 0]), encoded(["score", 0.5, 2**70]), encoded(["score", 2**64, 1])),
        *(encoded(["-score", 0.5, 1]), encoded(["id", "a", 1]), encoded(["score", 0.5, 1, 1])),
    ],
)
def test_a_broken_cursor_is_an_error(home: Path, cursor: str) -> None:
    with closing(indexed_pages(home, keep(home, [row("a")]))) as pages:
        for name in ("after", "before"):
            with pytest.raises(ValueError, match="begin at the first page"):
                pages.page(replace(RowQuery(sort="score"), **{name: cursor}))


def test_two_cursors_are_an_error(home: Path) -> None:
    with closing(indexed_pages(home, keep(home, [row("a"), row("b")]))) as pages:
        cursor = pages.page(RowQuery(page_size=1)).after
        with pytest.raises(ValueError, match="not both"):
            pages.page(RowQuery(after=cursor, before=cursor))


def test_a_cursor_holds_while_the_run_grows(home: Path) -> None:
    query = RowQuery(sort="score", page_size=2)
    stored = keep(home, [row(name, score=score) for name, score in (("a", 0.1), ("b", 0.5), ("c", 0.9))])
    with closing(indexed_pages(home, stored)) as pages:
        first = pages.page(query)
        keep(home, [row("d", score=0.2), row("e", score=0.5)])
        index_run(home, stored)
        second = pages.page(replace(query, after=first.after))
        assert (ids(first), ids(second)) == (["a", "b"], ["e", "c"])
        assert ids(pages.page(replace(query, before=second.before))) == ["d", "b"]


def test_rows_are_listed_while_the_run_is_being_indexed(home: Path) -> None:
    count = 2_500
    stored = keep(home, [row(f"case-{number % 7}") for number in range(count)])
    file, seen = pages_file(home, stored.run_id), list[tuple[int, bool, bool]]()
    with closing(RunPages(file, stored.folder)) as pages:
        empty = pages.page(RowQuery())
        assert (empty.rows, empty.counted, empty.progress) == ((), None, Progress(0, 0.0, False, 0.0))

        def look() -> None:
            for sort in SORT_KEYS:
                page = pages.page(RowQuery(sort=sort, is_descending=True, page_size=None))
                assert len(page.rows) == page.progress.lines == sum(page.counts.values())
            progress = pages.progress()
            seen.append((progress.lines, progress.is_complete, progress.words_ready))

        Indexer(file, stored.folder).run(look)
        assert seen[0] == (1_000, False, False)
        assert seen[-1] == (count, True, True)
        assert (count, True, False) in seen
        assert pages.progress() == Progress(count, 1.0, True, 1.0)


def test_an_indexer_that_is_stopped_goes_on_later(home: Path) -> None:
    stored = keep(home, [row("a") for _ in range(1_500)])
    file = pages_file(home, stored.run_id)
    indexer = Indexer(file, stored.folder)
    indexer.run(indexer.stop)
    with closing(RunPages(file, stored.folder)) as pages:
        assert pages.progress().lines == 1_000
        Indexer(file, stored.folder).run()
        assert pages.progress().is_complete


def test_a_run_that_was_rewritten_is_indexed_anew(home: Path) -> None:
    stored = keep(home, [row("apple"), row("pear")])
    with closing(indexed_pages(home, stored)) as pages:
        path = stored.folder / "results.jsonl"
        lines_before = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(lines_before[1])
        index_run(home, stored)
        assert ids(pages.page(RowQuery(sort="id"))) == ["pear"]
        assert ids(pages.page(RowQuery(q="apple"))) == []
        assert ids(pages.page(RowQuery(q="pear"))) == ["pear"]


def test_a_broken_index_of_a_run_is_replaced(home: Path) -> None:
    stored = keep(home, [row("a")])
    with closing(indexed_pages(home, stored)) as pages:
        with closing(sqlite3.connect(pages_file(home, stored.run_id))) as file:
            file.execute("DROP TABLE rows")
        assert ids(pages.page(RowQuery())) == []
        index_run(home, stored)
        assert ids(pages.page(RowQuery())) == ["a"]


def test_an_index_that_was_deleted_is_opened_anew(home: Path) -> None:
    stored = keep(home, [row("a")])
    with closing(indexed_pages(home, stored)) as pages:
        assert ids(pages.page(RowQuery())) == ["a"]
        rmtree(pages_file(home, stored.run_id).parent)
        assert ids(pages.page(RowQuery())) == []
        index_run(home, stored)
        assert ids(pages.page(RowQuery())) == ["a"]


def test_a_case_that_cannot_be_read_is_named(home: Path) -> None:
    stored = with_texts(home, TEXTS)
    with closing(indexed_pages(home, stored)) as pages:
        cases = stored.folder / "cases.jsonl"
        cases.write_bytes(b"x" * cases.stat().st_size)
        with pytest.raises(StorageError, match=r"cases\.jsonl: JSON is malformed"):
            pages.texts(pages.page(RowQuery()).rows)


def test_listing_runs_removes_the_indexes_of_deleted_ones(home: Path) -> None:
    stays, goes = (keep(home, [row("a")], run_id=f"2026020{day}T0-0") for day in (1, 2))
    for stored in (stays, goes):
        index_run(home, stored)
    rmtree(goes.folder)
    with closing(RunIndex(home, note=pytest.fail)) as index:
        index.runs()
    assert [path.name for path in pages_file(home, "").parent.glob("*.db")] == [f"{stays.run_id}.db"]


# Words.


def with_texts(home: Path, texts: Sequence[tuple[str, str, str]]) -> StoredRun:
    """Store a case and a result for each id, question and answer."""
    store = RunFolder(runs_folder(home), RUN.run_id, clock=at_noon)
    store.begin(make_run())
    for eval_id, question, text in texts:
        slot = replace(SLOT, eval_id=eval_id)
        store.append_case(make_case(eval_id=eval_id, question=question))
        answer = store.append_answer(make_answer(slot=slot, text=text))
        reference = AnswerRef(answer.seq or 0)
        store.append(make_result(slot=slot, candidate_answer=text, answer_ref=reference))
    store.close("finished")
    return open_run(runs_folder(home) / RUN.run_id)


TEXTS = (
    ("refund-1", "May I return order 7?", "Within thirty days."),
    ("refund-2", "Where is my parcel?", "We will look into the RETURN."),
    ("ship_3", "Wo bleibt die Übergabe?", "Returning is not possible, naïve x."),
)


@pytest.mark.parametrize(
    ("q", "found"),
    [
        ("refund", ["refund-1", "refund-2"]),
        ("return", ["refund-1", "refund-2", "ship_3"]),
        ("return order", ["refund-1"]),
        ("order retur", ["refund-1"]),
        ("retur order", []),
        ('"refund-2', ["refund-2"]),
        ("ship_3", ["ship_3"]),
        ("ubergabe", ["ship_3"]),
        ("u\u0308bergabe", ["ship_3"]),
        ("x", ["ship_3"]),
        ("7", ["refund-1"]),
        ("*", ["refund-1", "refund-2", "ship_3"]),
        ("nothing", []),
    ],
)
@pytest.mark.parametrize("sort", ["written", "id"])
@pytest.mark.parametrize("few", [0, FEW])
def test_words_are_found_in_id_question_and_answer(
    home: Path, q: str, found: list[str], sort: SortKey, few: int
) -> None:
    stored = with_texts(home, TEXTS)
    index_run(home, stored)
    with closing(RunPages(pages_file(home, stored.run_id), stored.folder, few=few)) as pages:
        page = pages.page(RowQuery(q=q, sort=sort))
        assert ids(page) == found
        assert pages.count(RowQuery(q=q)).total == len(found)


HOSTILE = [
    '"a-b',
    "NEAR(",
    "NEAR(a b, 2)",
    "*",
    "a*",
    '"',
    "a OR",
    "NOT a",
    "text : a",
    "{x}: y",
    "^a",
    "(a",
    "-- ;",
    "\0",
]


@pytest.mark.parametrize(
    "q", [*HOSTILE, "🙂", "x" * 10_000, "a " * 5_000, "\ud800", "a\u0300\u0301", "ㄱㅏ 中文 ก็ᾳ", "²½Ⅷ"]
)
def test_hostile_words_are_searched_without_an_error(home: Path, q: str) -> None:
    stored = with_texts(home, TEXTS)
    with closing(indexed_pages(home, stored)) as pages:
        found = pages.page(RowQuery(q=q))
        assert found.words or len(found.rows) == len(TEXTS)


@given(st.text(max_size=30))
def test_any_text_can_be_searched(q: str) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        begin_words(connection)
        assert set(find_words(connection, q)) <= set(split_words(q))


def test_without_a_table_of_words_a_run_is_listed_all_the_same(home: Path) -> None:
    stored = with_texts(home, TEXTS)
    file = pages_file(home, stored.run_id)
    Indexer(file, stored.folder, with_words=False).run()
    with closing(sqlite3.connect(file)) as other:
        other.execute("DROP TABLE words")
    with closing(indexed_pages(home, stored)) as pages:
        page = pages.page(RowQuery(q="refund"))
        assert (len(page.rows), page.words, page.progress.words_ready) == (3, (), False)


# Texts.


def test_texts_and_details_of_rows_are_read_by_their_places(home: Path) -> None:
    large = "x" * 300_000
    stored = with_texts(home, [*TEXTS, ("large", large, f"so {large}")])
    with closing(indexed_pages(home, stored)) as pages:
        rows = pages.page(RowQuery(sort="id", is_descending=True)).rows
        texts, details = pages.texts(rows, limit=20), pages.details(rows)
        by_id = {name: (question[:20], answer[:20]) for name, question, answer in TEXTS}
        by_id["large"] = large[:20], f"so {large}"[:20]
        assert [(each.question, each.answer) for each in texts] == [by_id[row.slot.eval_id] for row in rows]
        assert [each.reasons[1].text for each in texts] == ["Friendly throughout."] * 4
        assert [each.result.eval_id for each in details] == [row.slot.eval_id for row in rows]
        assert [each.case and each.case.eval_id for each in details] == [row.slot.eval_id for row in rows]
        assert [each.answer and each.answer.text for each in details] == [
            each.result.candidate_answer for each in details
        ]
        assert len(details[1 if rows[1].slot.eval_id == "large" else 2].result.candidate_answer) > 0
        assert [entry.line for entry in pages.rows_at([3, 1, 99])] == [3, 1]


def test_a_case_that_is_not_stored_has_no_question(home: Path) -> None:
    with closing(indexed_pages(home, keep(home, [row("a")]))) as pages:
        rows = pages.page(RowQuery()).rows
        assert [each.question for each in pages.texts(rows)] == [None]
        assert [(each.case, each.answer) for each in pages.details(rows)] == [(None, None)]
