"""The index's sums of suites and targets equal those of their results, after any change of the run."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.trending import SUITE, TARGET, begin_run, keep_run, passing, row

from agentv.scoring.counting.run_sums import RunSums
from agentv.scoring.counting.summary import Summary
from agentv.storage.index.index import RunIndex, decode_sums, encode_sums, load_sums
from agentv.storage.run.find import runs_folder
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.stored import open_run
from agentv.types.json_value import JsonObject

PLACE = (SUITE, TARGET)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / ".agentv"


@pytest.fixture
def index(home: Path) -> Iterator[RunIndex]:
    opened = RunIndex(home, note=pytest.fail)
    yield opened
    opened.close()


scores = st.lists(st.one_of(st.none(), st.sampled_from([0.0, 0.3, 1.0])), max_size=12)


@given(scores, st.integers(1, 4))
def test_what_is_kept_comes_back_as_it_was(drawn: list[float | None], cases: int) -> None:
    summary = Summary(by=(), has_shared_cases=False)
    for number, score in enumerate(drawn):
        summary.add(row(f"case-{number % cases}", score, trial=number // cases))
    sums = RunSums.of(summary)
    assert decode_sums(encode_sums(sums)) == sums


def test_they_follow_a_run_that_grows_and_rows_that_are_done_again(home: Path, index: RunIndex) -> None:
    store = begin_run(home, 1, passing(3, of=4))
    folder = runs_folder(home) / store.run_id
    for number, generation, score in ((4, 0, 0.0), (3, 1, 1.0), (4, 2, 0.3), (5, 0, None)):
        store.append(row(f"case-{number}", score, run_id=store.run_id, generation=generation))
        assert index.sums(folder) == load_sums(open_run(folder))
    store.close("finished")
    found = index.sums(folder)[PLACE]
    assert found.counts == {"pass": 4, "fail": 1, "error": 1}
    assert found.scores.total == pytest.approx(4.3)


def test_cases_that_were_taken_out_count_no_more(home: Path, index: RunIndex) -> None:
    store = begin_run(home, 1, passing(3, of=4))
    folder = runs_folder(home) / store.run_id
    assert index.sums(folder)[PLACE].judged == 4
    slot: JsonObject = {"suite": SUITE, "eval_id": "case-3", "target": TARGET, "trial": 0}
    store.note("case_retired", {"slot": slot})
    assert index.sums(folder)[PLACE].counts == {"pass": 3}
    store.close("finished")


def test_they_are_kept_and_not_counted_again(home: Path, index: RunIndex) -> None:
    folder = runs_folder(home) / keep_run(home, 1, passing(3, of=4))
    before = index.sums(folder)
    rows = folder / "results.jsonl"
    stamp = rows.stat()
    kept = rows.read_bytes()
    # Other bytes with an unchanged stamp: an unchanged answer shows that the index was used.
    rows.write_bytes(kept.replace(b'"score":1.0', b'"score":0.0'))
    os.utime(rows, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert index.sums(folder) == before
    assert load_sums(open_run(folder)) != before


def test_a_broken_index_costs_no_answer(home: Path) -> None:
    folder = runs_folder(home) / keep_run(home, 1, passing(3, of=4))
    (home / "index.db").mkdir()
    notes: list[str] = []
    index = RunIndex(home, note=notes.append)
    assert index.sums(folder) == load_sums(open_run(folder))
    assert len(notes) == 1


def test_two_targets_of_one_run_are_kept_apart(home: Path, index: RunIndex) -> None:
    store = begin_run(home, 1, [1.0])
    assert isinstance(store, RunFolder)
    store.append(row("case-0", 0.0, target="other", run_id=store.run_id))
    store.close("finished")
    found = index.sums(runs_folder(home) / store.run_id)
    assert {place: sums.scores.mean for place, sums in found.items()} == {PLACE: 1.0, (SUITE, "other"): 0.0}


def test_their_order_is_the_same_before_and_after_they_are_kept(home: Path, index: RunIndex) -> None:
    store = begin_run(home, 1, [])
    for target in ("small", "large"):
        store.append(row("case-0", 1.0, target=target, run_id=store.run_id))
    store.close("finished")
    orders = [list(index.sums(runs_folder(home) / store.run_id)) for _ in range(2)]
    assert orders == [[(SUITE, "large"), (SUITE, "small")]] * 2
