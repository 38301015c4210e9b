"""Labels on disk."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.full_disk import files_limited_to
from tests.support.stored import NOON, at_noon, make_answer, make_result, make_run
from tests.support.strategies import counts, maybe, moments, names, numbers, slots, texts

from agentv.storage.records.decode import LABELS
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import encode
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import LabelConflictError, append_labels, current_labels
from agentv.storage.run.merge import find_owners, merge_into
from agentv.storage.run.stored import open_run
from agentv.types.errors import StorageError
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import NO_SCORE, Draw, Label

labels = st.builds(
    Label,
    slot=slots,
    answer_key=texts,
    answer_ref=st.builds(AnswerRef, counts),
    criterion=names,
    score=st.booleans() | st.integers(-1000, 1000) | numbers | texts,
    annotator=names,
    time=moments,
    reasoning=maybe(texts),
    seq=counts,
    label_id=maybe(names),
    verdict=st.sampled_from([None, "pass", "fail", "unsure"]),
    note=maybe(texts),
    category=maybe(texts),
    seconds=maybe(st.floats(0, 1e6)),
    blind=maybe(st.booleans()),
    shown=st.lists(st.sampled_from(["judge", "target", "labels"]), unique=True).map(tuple),
    draw=maybe(st.builds(Draw, names, counts, names, st.floats(0.001, 1), st.integers(1, 99), st.integers(1, 99))),
    golden=st.booleans(),
)


@given(labels)
def test_a_label_survives_a_round_trip(label: Label) -> None:
    assert LABELS.of_line(encode(to_record(label))) == label


@given(st.lists(labels, max_size=5))
def test_what_counts_is_never_contradicted(written: list[Label]) -> None:
    current = current_labels([*written, *written])
    keys = [(each.slot, each.answer_seq, each.criterion, each.annotator, each.golden) for each in current]
    assert len(keys) == len(set(keys))
    assert set(keys) == {(each.slot, each.answer_seq, each.criterion, each.annotator, each.golden) for each in written}


def test_a_merge_copies_the_labels_of_a_run_outside_the_folder_of_runs(tmp_path: Path) -> None:
    part = RunFolder(tmp_path / "elsewhere", "part", clock=at_noon)
    part.begin(make_run(run_id="part"))
    answer = part.append_answer(make_answer())
    part.append(make_result(slot=answer.slot, answer_ref=AnswerRef(0)))
    part.close("finished")
    label = Label(
        slot=answer.slot,
        answer_key=answer.answer_key,
        answer_ref=AnswerRef(0),
        criterion="polite",
        score=True,
        annotator="ann",
        time=NOON,
    )
    append_labels(Path(part.folder), [label], run_id="part")
    store, stored = RunFolder(tmp_path / "runs", "whole", clock=at_noon), open_run(Path(part.folder))
    store.begin(make_run(run_id="whole"))
    assert merge_into(store, [stored], find_owners([stored]), now=NOON) == []
    store.close("finished")
    assert [(each.criterion, each.run_id) for each in open_run(Path(store.folder)).labels()] == [("polite", "whole")]


def a_label(**fields: Any) -> Label:
    known: dict[str, Any] = {
        "slot": make_answer().slot,
        "answer_key": "v1:aa",
        "answer_ref": AnswerRef(0),
        "criterion": "tone",
        "score": True,
        "annotator": "anna",
        "time": NOON,
        "verdict": "pass",
        "label_id": "a-1",
    } | fields
    return Label(**known)


def a_run(folder: Path) -> Path:
    store = RunFolder(folder, "run", clock=at_noon)
    store.begin(make_run(run_id="run"))
    store.close("finished")
    return Path(store.folder)


def test_a_label_that_is_sent_again_is_stored_once(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    (first,) = append_labels(folder, [a_label()], run_id="run")
    again = a_label(time=NOON + timedelta(seconds=3), seconds=9.0)
    sent = append_labels(folder, [again, a_label(label_id="a-2", annotator="ben"), again], run_id="run")
    assert [label.seq for label in sent] == [0, 1, 0]
    assert sent[0].time == first.time
    assert [label.label_id for label in open_run(folder).all_labels()] == ["a-1", "a-2"]


def test_an_id_with_another_content_is_refused_and_nothing_is_stored(tmp_path: Path) -> None:
    folder = a_run(tmp_path)
    append_labels(folder, [a_label()], run_id="run")
    other = a_label(score=False, verdict="fail")
    with pytest.raises(LabelConflictError, match=r"label 'a-1' is stored already, as line 1 of labels\.jsonl"):
        append_labels(folder, [a_label(label_id="a-2"), other], run_id="run")
    assert len(list(open_run(folder).all_labels())) == 1


def test_a_golden_label_takes_no_drawn_label_away() -> None:
    drawn = a_label(draw=Draw("q", 1, "all", 0.5, 1, 2))
    golden = a_label(golden=True, label_id="a-2", score=False, verdict="fail")
    assert current_labels([drawn, golden]) == (drawn, golden)


def test_a_skip_and_an_unsure_label_say_nothing() -> None:
    skips = [a_label(score=NO_SCORE, verdict=None), a_label(score=NO_SCORE, verdict="unsure"), a_label()]
    assert [label.is_skip for label in skips] == [True, True, False]


@pytest.mark.parametrize("room", [0, 50])
def test_labels_are_saved_again_after_the_disk_was_full(tmp_path: Path, room: int) -> None:
    folder = a_run(tmp_path)
    with files_limited_to(room), pytest.raises(StorageError, match="no label was saved"):
        append_labels(folder, [a_label()], run_id="run", wait_s=0)
    append_labels(folder, [a_label()], run_id="run", wait_s=0)
    assert [label.label_id for label in open_run(folder).all_labels()] == ["a-1"]
