"""The index gives the same answers as the run folders, and its failure stops no command."""

import fcntl
import os
import sqlite3
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatchcase
from pathlib import Path
from shutil import copytree, rmtree
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.stored import CONTAINS, RUN, at_noon, make_result, make_run

from agentv.scoring.gates.failing_cases import shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.index import RunIndex
from agentv.storage.index.lines import ResultLineReader
from agentv.storage.index.row_query import (
    OUTCOMES,
    SORT_KEYS,
    Facets,
    Range,
    RowPage,
    RowQuery,
    searchable_metadata,
)
from agentv.storage.index.schema import TABLES_OF_RUN, VERSION
from agentv.storage.run.find import list_runs, runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import StoredRun, open_run
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.records.result import CaseResult

Row = CaseResult
ALL = RowQuery(page_size=None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".agentv"


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def index(home: Path, notes: list[str]) -> Iterator[RunIndex]:
    opened = RunIndex(home, note=notes.append)
    yield opened
    opened.close()


def keep(home: Path, rows: Iterable[Row], *, run_id: str = RUN.run_id, state: str = "finished") -> StoredRun:
    """Append rows to a run and close it."""
    store = RunFolder(runs_folder(home), run_id, clock=at_noon)
    store.begin(make_run(run_id=run_id))
    for row in rows:
        store.append(row)
    store.close(state)
    return open_run(runs_folder(home) / run_id)


def row(eval_id: str, **changes: object) -> Row:
    return make_result(slot=ResultKey("evals/refunds.yaml", eval_id, "agent-v2"), **changes)


def ids(page: RowPage) -> list[str]:
    return [entry.slot.eval_id for entry in page.rows]


def bodies(stored: StoredRun, page: RowPage) -> list[Row]:
    return list(stored.results_at((entry.line, entry.offset, entry.size) for entry in page.rows))


# The property: a page of the index equals the page that is made from the whole run.

few = st.sampled_from
slots = st.builds(
    ResultKey,
    few(["a.yaml", "b.yaml"]),
    few(["x", "y-1", "Y-10", "ü", ""]),
    few(["t", "u"]),
    trial=few([0, 1]),
    prompt=few([None, None, "v1", "v2"]),
)
judged = few([("pass", "pass"), ("fail", "borderline"), ("fail", "fail"), ("error", None), ("skipped", None)])
numbers = few([None, 0.0, 0.25, 1.0])
metadata = st.dictionaries(few(["k", "l"]), few(["a", 1, 1.5, True, None, [1], "x" * 300, "true"]), max_size=2)


FOUND = ("pass", "borderline", "fail", "error", "skipped", None)
"""What an evaluator may find; the last two are no outcomes."""


def make_evaluator_result(name: str, found: str | None) -> EvaluatorResult:
    failed = Failure("judge_error", "no JSON", stage="evaluator") if found == "error" else None
    return EvaluatorResult(
        name=name,
        type="contains",
        status="error" if failed else "skipped" if found == "skipped" else "scored",
        score=0.0,
        verdict=found if found in OUTCOMES and not failed else None,  # type: ignore[arg-type]  # narrowed by OUTCOMES
        error=failed,
    )


def outcomes(row: Row) -> list[tuple[str, str]]:
    found = [(each.name, "error" if each.error else each.verdict) for each in row.evaluator_results]
    return [(name, outcome) for name, outcome in found if outcome is not None]


@st.composite
def rows(draw: st.DrawFn) -> Row:
    status, verdict = draw(judged)
    slot = draw(slots)
    return make_result(
        slot=slot,
        prompt=slot.prompt,
        status=status,
        verdict=verdict,
        generation=draw(few([0, 0, 0, 1, 2])),
        score=draw(numbers),
        cost_usd=draw(numbers),
        duration_ms=draw(numbers),
        tags=draw(st.lists(few(["p", "q", '","']), max_size=2).map(tuple)),
        metadata=draw(metadata),
        evaluator_results=tuple(
            make_evaluator_result(name, draw(few(FOUND))) for name in draw(few([(), ("c",), ("c", "d"), ("c", "c")]))
        ),
    )


def some(values: Sequence[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.just(()) | st.lists(few(values), max_size=2).map(tuple)


ranges = few([None, None, None, (None, None), (0.0, 0.5), (0.25, None), (None, 0.25), (0.5, 0.2)])
queries = st.builds(
    RowQuery,
    suites=some(["a.yaml", "b.yaml", "c.yaml"]),
    targets=some(["t", "u"]),
    prompts=some(["v1", "v2"]),
    states=some(["pass", "borderline", "fail", "error", "skipped"]),
    tags=some(["p", "q", ",", '","']),
    text=few(["", "", "y", "1", "%", "ü", "Ü"]),
    case=few([None, None, "x", "y-*", "[xy]", "Y-1?"]),
    metadata=st.dictionaries(few(["k", "l", "m"]), few([None, "a", "1", "1.5", "true", "null"]), max_size=1),
    evaluators=st.lists(st.tuples(few(["c", "d", "e"]), few(OUTCOMES)), max_size=2).map(tuple),
    trial=few([None, None, 0, 1]),
    one_trial=st.booleans(),
    score=ranges,
    cost=ranges,
    duration=ranges,
    sort=few(SORT_KEYS),
    is_descending=st.booleans(),
    page=st.integers(1, 3),
    page_size=few([None, 1, 3, 50]),
)

STATES = ("error", "fail", "borderline", "pass", "skipped")
SORT_VALUE: dict[str, Callable[[Row], float | str | None]] = {
    "written": lambda row: row.seq or 0,
    "id": lambda row: row.eval_id,
    "state": lambda row: STATES.index(row_state(row)),
    "score": lambda row: row.judged_score,
    "cost": lambda row: row.cost_usd,
    "duration": lambda row: row.duration_ms,
}


def fits(row: Row, query: RowQuery, *, but: str = "") -> bool:
    found = searchable_metadata(row.metadata)
    return (
        (but == "suite" or not query.suites or row.slot.suite in query.suites)
        and (but == "target" or not query.targets or row.target in query.targets)
        and (but == "prompt" or not query.prompts or row.prompt in query.prompts)
        and (but == "state" or not query.states or row_state(row) in query.states)
        and (but == "tag" or not query.tags or bool(set(query.tags) & set(row.tags)))
        and (query.text.lower() if query.text.isascii() else query.text) in row.eval_id.lower()
        and (query.case is None or row.eval_id == query.case or fnmatchcase(row.eval_id, query.case))
        and (but == "evaluator" or set(query.evaluators) <= set(outcomes(row)))
        and query.trial in (None, row.trial)
        and is_within(row.judged_score, query.score)
        and is_within(row.cost_usd, query.cost)
        and is_within(row.duration_ms, query.duration)
        and all(key in found and value in (None, found[key]) for key, value in query.metadata.items())
    )


def is_within(value: float | None, bounds: Range | None) -> bool:
    if bounds is None or bounds == (None, None):
        return True
    low, high = bounds
    return value is not None and (low is None or low <= value) and (high is None or value <= high)


def ordered(rows: list[Row], query: RowQuery) -> list[Row]:
    value = SORT_VALUE[query.sort]
    known = [row for row in rows if value(row) is not None]
    known.sort(key=value, reverse=query.is_descending)  # type: ignore[arg-type]  # those without a value are out
    return known + [row for row in rows if value(row) is None]


def trials_of(rows: Iterable[Row]) -> list[list[Row]]:
    """Return the trials of each case, with its prompt and target."""
    found: dict[tuple[object, ...], list[Row]] = {}
    for each in rows:
        slot = each.slot
        found.setdefault((slot.suite, slot.eval_id, slot.target, slot.prompt), []).append(each)
    return list(found.values())


def shown_rows(rows: list[Row]) -> list[Row]:
    """Return the shown trial of each case, in the order of all rows."""
    shown = [min(trials, key=shown_first) for trials in trials_of(rows)]
    return [each for each in rows if each in shown]


def read_page(stored: StoredRun, query: RowQuery) -> tuple[list[Row], int, Facets]:
    """Return the expected page, made from all rows of the folder."""
    current = list(stored.results())
    if query.one_trial:
        current = shown_rows(current)
    found = ordered([row for row in current if fits(row, query)], query)
    start = 0 if query.page_size is None else (query.page - 1) * query.page_size
    end = None if query.page_size is None else start + query.page_size

    def count(kind: str, values: Callable[[Row], Iterable[str]]) -> dict[str, int]:
        return dict(Counter(each for row in current if fits(row, query, but=kind) for each in set(values(row))))

    facets = Facets(
        count("state", lambda row: [row_state(row)]),
        count("target", lambda row: [row.target]),
        count("tag", lambda row: row.tags),
        count("suite", lambda row: [row.slot.suite]),
        count("prompt", lambda row: () if row.prompt is None else (row.prompt,)),
        dict(Counter(each for row in current if fits(row, query, but="evaluator") for each in set(outcomes(row)))),
    )
    return found[start:end], len(found), facets


@given(st.lists(st.lists(rows(), max_size=8), min_size=1, max_size=3), st.lists(queries, min_size=1, max_size=4))
def test_a_page_of_the_index_is_the_page_of_the_files_however_the_run_grew(
    growth: list[list[Row]], page_queries: list[RowQuery]
) -> None:
    with TemporaryDirectory() as folder:
        home = Path(folder) / ".agentv"
        index = RunIndex(home, note=pytest.fail)
        for new in growth:
            stored = keep(home, new)
            for query in page_queries:
                page = index.page(stored, query)
                assert (bodies(stored, page), page.total, page.facets) == read_page(stored, query)
                assert page.counts == stored.counts()
            assert index.runs() == list_runs(home)
        index.close()


def test_runs_with_equal_results_are_counted_and_paged_separately(home: Path, index: RunIndex) -> None:
    results = [row("a", tags=("p",)), row("b", tags=("p",), status="error", verdict=None)]
    first, second = (keep(home, results, run_id=f"2026020{day}T000000-000000") for day in (1, 2))
    assert index.runs() == list_runs(home)
    for stored in (first, second):
        for sort in SORT_KEYS:
            query = RowQuery(sort=sort, tags=("p",), page_size=2)
            page = index.page(stored, query)
            assert (bodies(stored, page), page.total, page.facets) == read_page(stored, query)
            assert page.counts == stored.counts()


def test_each_result_of_a_run_may_have_its_own_tags(home: Path, index: RunIndex) -> None:
    count = 5_010
    stored = keep(home, [row("a", tags=(f"tag-{number}",)) for number in range(count)])
    page = index.page(stored, replace(ALL, tags=(f"tag-{count - 1}",)))
    assert (page.total, len(page.rows), len(page.facets.tags)) == (1, 1, count)


@pytest.mark.parametrize("field", ["q", "after", "before"])
def test_words_and_cursors_are_refused_for_pages_by_number(home: Path, index: RunIndex, field: str) -> None:
    with pytest.raises(ValueError, match="RunPages"):
        index.page(keep(home, [row("a")]), replace(ALL, **{field: "a"}))


def test_facets_are_sorted_by_suite_target_and_state(home: Path, index: RunIndex) -> None:
    names = [(suite, target) for suite in "cab" for target in "zyx"]
    stored = keep(home, [make_result(slot=ResultKey(suite, "a", target)) for suite, target in names])
    facets = index.page(stored, ALL).facets
    assert (list(facets.suites), list(facets.targets)) == (["a", "b", "c"], ["x", "y", "z"])


# Changes on disk.


def test_a_run_that_grew_is_read_from_where_it_was_left(home: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a" if number == 0 else "b") for number in range(100)])
    assert ids(index.page(stored, ALL)) == ["a"] + ["b"] * 99
    path = stored.folder / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    # Only reading the first line again shows the change.
    lines[0] = lines[0].replace(b'"eval_id":"a"', b'"eval_id":"z"')
    path.write_bytes(b"".join((*lines, lines[0])))
    assert ids(index.page(stored, ALL)) == ["a"] + ["b"] * 99 + ["z"]


def test_a_file_that_was_not_only_appended_to_is_read_anew(home: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a"), row("b")])
    index.page(stored, ALL)
    path = stored.folder / "results.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(reversed(lines)) + lines[0])
    assert ids(index.page(stored, ALL)) == ["b", "a", "a"]
    path.write_bytes(lines[1])
    assert ids(index.page(stored, ALL)) == ["b"]
    path.unlink()
    assert ids(index.page(stored, ALL)) == []


def test_a_run_whose_folder_is_gone_leaves_the_index(home: Path, index: RunIndex) -> None:
    stays, goes = (
        keep(
            home, [row("a", tags=("p",), metadata={"k": 1}, evaluator_results=(CONTAINS,))], run_id=f"2026020{day}T0-0"
        )
        for day in (1, 2)
    )
    assert [len(index.sums(run.folder)) for run in (stays, goes)] == [1, 1]
    rmtree(goes.folder)
    assert [run.run_id for run in index.runs()] == [stays.run.run_id]
    with closing(sqlite3.connect(home / "index.db")) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        left = {table: file.execute(f"SELECT count(*) FROM {table}").fetchone() for table in tables}
    # `cases`, `answers` and `stages` are of the index of a single run.
    assert left == dict.fromkeys(tables, (1,)) | dict.fromkeys(("cases", "answers", "stages"), (0,))
    assert set(tables) == set(TABLES_OF_RUN)


def test_lines_that_cannot_be_read_are_skipped_and_counted(home: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a")])
    path = stored.folder / "results.jsonl"
    whole = path.read_bytes()
    newer = whole.replace(b"agentv-result-1", b"agentv-result-2")
    path.write_bytes(b"not json\n" + whole + b"\n[1]\n" + newer + b"\xff\n" + whole[:40])
    page = index.page(stored, ALL)
    assert (ids(page), page.skipped) == (["a"], 5)
    assert bodies(stored, page)[0].eval_id == "a"
    path.write_bytes(path.read_bytes() + whole[40:])
    page = index.page(stored, ALL)
    assert (ids(page), page.skipped) == (["a", "a"], 5)


def test_runs_that_cannot_be_read_are_listed_as_their_folders_tell(home: Path, index: RunIndex) -> None:
    for number, name in enumerate(("results.jsonl", "events.jsonl", "run.json")):
        stored = keep(home, [row("a")], run_id=f"2026020{number}T000000-000000")
        with (stored.folder / name).open("ab") as file:
            file.write(b"not json\n")
    keep(home, [row("a")])
    assert index.runs() == list_runs(home)
    assert [run.state for run in index.runs()] == ["finished", "unreadable", "unreadable", "unreadable"]


def test_a_running_run_is_distinguished_from_a_killed_one(home: Path, index: RunIndex) -> None:
    store = RunFolder(runs_folder(home), "r", clock=at_noon)
    store.begin(make_run(run_id="r"))
    store.append(row("a"))
    (running,) = index.runs()
    assert (running.state, running.counts) == ("running", {"fail": 1})
    store.close("stopped")
    assert [run.state for run in index.runs()] == ["stopped"]


def test_large_metadata_is_found_by_its_key(home: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a", metadata={"doc": "x" * 300_000, "n": 1}), row("b")])
    assert (stored.folder / "blobs").is_dir()
    assert ids(index.page(stored, replace(ALL, metadata={"doc": None, "n": "1"}))) == ["a"]


def test_a_run_elsewhere_is_paged_and_not_kept(home: Path, tmp_path: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a")])
    elsewhere = tmp_path / "elsewhere"
    copytree(stored.folder, elsewhere)
    rmtree(stored.folder)
    assert ids(index.page(open_run(elsewhere), ALL)) == ["a"]
    assert index.runs() == ()


def test_a_run_folder_is_not_written_to(home: Path, index: RunIndex) -> None:
    stored = keep(home, [row("a")])

    def look() -> dict[str, int]:
        return {str(path): path.stat().st_mtime_ns for path in (stored.folder, *stored.folder.iterdir())}

    before = look()
    index.page(stored, ALL)
    index.runs()
    assert look() == before


# Failures of the index.


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a database, but long enough to be looked at" * 50,
        b"SQLite format 3\0" + bytes(84) + b"\xff" * 4000,
    ],
    ids=["empty", "text", "torn"],
)
def test_a_file_that_is_no_index_is_replaced(home: Path, index: RunIndex, notes: list[str], content: bytes) -> None:
    stored = keep(home, [row("a")])
    (home / "index.db").write_bytes(content)
    assert ids(index.page(stored, ALL)) == ["a"]
    assert notes == []


@pytest.mark.parametrize(
    "change",
    [
        f"PRAGMA user_version = {VERSION + 1}",
        "PRAGMA application_id = 7",
        "DROP TABLE runs; PRAGMA user_version = 0; CREATE TABLE 'of \"others'(x)",
    ],
)
def test_an_index_of_another_version_is_made_anew(home: Path, index: RunIndex, notes: list[str], change: str) -> None:
    stored = keep(home, [row("a")])
    index.page(stored, ALL)
    index.close()
    with closing(sqlite3.connect(home / "index.db")) as file:
        file.executescript(change)
    assert ids(index.page(stored, ALL)) == ["a"]
    assert notes == []


def test_an_index_that_breaks_later_is_reported_once_and_deleted(home: Path, notes: list[str]) -> None:
    stored = keep(home, [row("a")])
    first = RunIndex(home, note=notes.append)
    first.page(stored, ALL)
    with closing(sqlite3.connect(home / "index.db")) as file:
        file.execute("DROP TABLE rows")
    assert ids(first.page(stored, ALL)) == ["a"]
    assert ids(first.page(stored, ALL)) == ["a"]
    assert first.runs() == list_runs(home)
    first.close()
    (note,) = notes
    assert "cannot be used (no such table: rows); their folders are read instead" in note
    second = RunIndex(home, note=pytest.fail)
    assert ids(second.page(stored, ALL)) == ["a"]
    second.close()


def test_an_index_that_another_process_holds_is_done_without(home: Path, notes: list[str]) -> None:
    stored = keep(home, [row("a")])
    index = RunIndex(home, note=notes.append, busy_s=0.0)
    index.page(stored, ALL)
    with closing(sqlite3.connect(home / "index.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert ids(index.page(stored, ALL)) == ["a"]  # without new lines reading needs no lock
        keep(home, [row("b")])
        assert notes == []
        assert ids(index.page(stored, ALL)) == ["a", "b"]
    index.close()
    assert "database is locked" in notes[0]


def test_a_home_that_cannot_be_written_is_read_all_the_same(home: Path, index: RunIndex, notes: list[str]) -> None:
    stored = keep(home, [row("a")])
    (home / "index.db").mkdir()
    assert ids(index.page(stored, ALL)) == ["a"]
    assert index.runs() == list_runs(home)
    assert len(notes) == 1


def test_the_index_is_readable_by_its_owner_alone(home: Path, index: RunIndex) -> None:
    index.page(keep(home, [row("a")]), ALL)
    assert {path.stat().st_mode & 0o777 for path in home.glob("index.db*")} == {0o600}


READER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from agentv.storage.run.find import runs_folder
    from agentv.storage.run.stored import open_run
    from agentv.storage.index.index import RunIndex
    from agentv.storage.index.row_query import RowQuery

    home = Path(sys.argv[1])
    index = RunIndex(home, note=sys.exit)
    print("ready", flush=True)
    for line in sys.stdin:
        index.runs()
        print(index.page(open_run(runs_folder(home) / line.strip()), RowQuery()).total, flush=True)
    """
)


def test_several_processes_make_and_grow_one_index_together(home: Path) -> None:
    keep(home, [row(f"case-{number}") for number in range(300)])
    keep(home, [row(f"case-{number}") for number in range(300)], run_id="20260201T000000-000000")
    readers = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(4)
    ]
    pipes = [(reader.stdin, reader.stdout) for reader in readers if reader.stdin and reader.stdout]
    assert [stdout.readline() for _, stdout in pipes] == ["ready\n"] * 4
    for total in (300, 310, 320):
        for stdin, _ in pipes:
            print(RUN.run_id, file=stdin, flush=True)
        assert [stdout.readline() for _, stdout in pipes] == [f"{total}\n"] * 4
        keep(home, [row(f"more-{number}") for number in range(10)])
    for (stdin, stdout), reader in zip(pipes, readers, strict=True):
        stdin.close()
        stdout.close()
        assert reader.wait(timeout=30) == 0


def test_two_processes_that_find_a_broken_index_replace_it_once(home: Path, notes: list[str]) -> None:
    stored = keep(home, [row("a")])
    (home / "index.db").write_bytes(b"broken" * 1000)
    descriptor = os.open(home / "index.db.lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    reader = subprocess.Popen(
        [sys.executable, "-c", READER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert reader.stdin is not None
    assert reader.stdout is not None
    assert reader.stdout.readline() == "ready\n"
    print(RUN.run_id, file=reader.stdin, flush=True)
    # The other process waits while this one replaces the file, and then uses the new one.
    (home / "index.db").unlink()
    index = RunIndex(home, note=notes.append)
    assert index.page(stored, RowQuery()).total == 1
    made = (home / "index.db").stat().st_ino
    os.close(descriptor)
    assert reader.stdout.readline() == "1\n"
    assert (home / "index.db").stat().st_ino == made
    index.close()
    reader.stdin.close()
    reader.stdout.close()
    assert reader.wait(timeout=30) == 0
    assert notes == []


KEY = ResultKey("a.yaml", "a", "t", trial=1, prompt="v1")


@pytest.mark.parametrize(
    "other",
    [{"suite": "b.yaml"}, {"eval_id": "b"}, {"target": "u"}, {"trial": 0}, {"prompt": "v2"}, {"prompt": None}],
    ids=str,
)
def test_results_of_a_retired_case_count_again_when_it_returns(
    home: Path, index: RunIndex, other: dict[str, str | int | None]
) -> None:
    first, second = (make_result(slot=slot, prompt=slot.prompt) for slot in (KEY, replace(KEY, **other)))
    run = keep(home, [first, second])

    def change(event: str, *more: Row) -> list[tuple[ResultKey, int]]:
        store = RunFolder(runs_folder(home), run.run_id, clock=at_noon)
        store.note(event, {"slot": second.slot.to_json()})
        for row in more:
            store.append(row)
        store.close("finished")
        (listed,) = index.runs()
        assert listed.counts == run.counts()
        by_case = replace(ALL, one_trial=True)
        page = index.page(run, by_case)
        assert (bodies(run, page), page.total, page.facets) == read_page(run, by_case)
        return [(entry.slot, entry.generation) for entry in index.page(run, ALL).rows]

    assert change("case_retired") == [(first.slot, 0)]
    assert change("case_returned", replace(second, generation=1)) == [(first.slot, 0), (second.slot, 1)]
    assert change("case_retired") == [(first.slot, 0)]


def test_a_line_that_is_completed_while_it_is_read_belongs_to_the_next_reading(home: Path) -> None:
    rows = [make_result(slot=ResultKey("suite", name, "target")) for name in ("a", "b")]
    path = keep(home, rows).folder / "results.jsonl"
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:20])
    reader = ResultLineReader(1, path, resolve=lambda value: value)
    batches = reader.batches(end_offset=0, lines=0)
    (read,) = [next(batches)]
    path.write_bytes(first + second)
    assert list(batches) == []
    assert (read.end_offset, read.lines, read.skipped) == (len(first), 1, 0)
    (rest,) = reader.batches(end_offset=read.end_offset, lines=read.lines)
    assert (rest.end_offset, rest.lines, rest.skipped) == (len(first + second), 2, 0)
