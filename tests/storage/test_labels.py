"""Labels on disk."""

from hypothesis import given
from hypothesis import strategies as st
from tests.support.strategies import counts, maybe, moments, names, numbers, slots, texts

from agentv.storage.records.decode import LABELS
from agentv.storage.records.encode import to_record
from agentv.storage.records.json_line import encode
from agentv.storage.run.labels import current_labels
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
