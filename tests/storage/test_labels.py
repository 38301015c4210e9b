"""Labels on disk."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.support.stored import NOON, at_noon, make_answer, make_result, make_run
from tests.support.strategies import counts, maybe, moments, names, numbers, slots, texts

from agentv.storage.records.decode import LABELS
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import encode
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import append_labels, current_labels
from agentv.storage.run.merge import find_owners, merge_into
from agentv.storage.run.stored import open_run
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label

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
)


@given(labels)
def test_a_label_survives_a_round_trip(label: Label) -> None:
    assert LABELS.of_line(encode(to_record(label))) == label


@given(st.lists(labels, max_size=5))
def test_what_counts_is_never_contradicted(written: list[Label]) -> None:
    current = current_labels([*written, *written])
    keys = [(label.slot, label.answer_seq, label.criterion, label.annotator) for label in current]
    assert len(keys) == len(set(keys))
    assert set(keys) == {(each.slot, each.answer_seq, each.criterion, each.annotator) for each in written}


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
    merge_into(store, [stored], find_owners([stored]))
    store.close("finished")
    assert [(each.criterion, each.run_id) for each in open_run(Path(store.folder)).labels()] == [("polite", "whole")]
