"""Of each slot the first answer to its current question counts, with its newest judging."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv.storage.run.first_answers import ErrorHead, FirstAnswers, SlotLine, find_first_answers
from agentv.types.records.answer import AnswerRef, ResultKey

SLOT = ResultKey("s", "a", "t")
Make = Callable[[int], SlotLine]
"""Makes a line of a generation."""


def judged(seq: int, key: str = "k", *, rerun: str | None = None) -> Make:
    return lambda generation: SlotLine(SLOT, generation, rerun, "pass", "pass", key, AnswerRef(seq))


def unjudged(seq: int, key: str = "k") -> Make:
    """Return the line of an answer whose judge failed."""
    error = ErrorHead("evaluator", "judge_error")
    return lambda generation: SlotLine(SLOT, generation, None, "error", None, key, AnswerRef(seq), error)


def failed(seq: int, key: str = "k") -> Make:
    """Return the line of a call that failed."""
    return lambda generation: SlotLine(SLOT, generation, None, "error", None, key, AnswerRef(seq), ErrorHead())


def unscored(seq: int, key: str = "k") -> Make:
    """Return the line of an answer that no evaluator scored."""
    return lambda generation: SlotLine(SLOT, generation, None, "skipped", None, key, AnswerRef(seq))


def skipped() -> Make:
    """Return the line of a case whose target was not called."""
    return lambda generation: SlotLine(SLOT, generation, None, "skipped")


COUNTS, RERUN, REPLACED = "counts", "rerun", "replaced"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param([judged(0)], [COUNTS], id="one answer"),
        pytest.param([judged(0), judged(1, rerun="failed")], [COUNTS, RERUN], id="a re-run"),
        pytest.param([judged(0), judged(1), judged(2)], [COUNTS, RERUN, RERUN], id="re-runs of an older version"),
        pytest.param([judged(0), failed(1)], [COUNTS, RERUN], id="a failed re-run of an older version"),
        pytest.param([failed(0), failed(1), judged(2)], [REPLACED, REPLACED, COUNTS], id="a missing answer supplied"),
        pytest.param([judged(0), judged(0), judged(0)], [REPLACED, REPLACED, COUNTS], id="judged again"),
        pytest.param([unjudged(0), judged(0)], [REPLACED, COUNTS], id="its judge failed"),
        pytest.param([unjudged(0), judged(1)], [COUNTS, RERUN], id="an answer whose judge failed is an answer"),
        pytest.param([unscored(0), judged(0)], [REPLACED, COUNTS], id="not scored at first"),
        pytest.param([unscored(0), judged(1)], [COUNTS, RERUN], id="an answer that no evaluator scored is an answer"),
        pytest.param([judged(0), judged(0), judged(1)], [REPLACED, COUNTS, RERUN], id="judged again, then re-run"),
        pytest.param([judged(0), judged(1), judged(0)], [REPLACED, RERUN, COUNTS], id="re-run, then judged again"),
        pytest.param([judged(0), judged(1, "edited")], [REPLACED, COUNTS], id="an edited question"),
        pytest.param(
            [judged(0), judged(1), judged(2, "edited")], [REPLACED, REPLACED, COUNTS], id="re-run, then edited"
        ),
        pytest.param([judged(0), judged(1, "e"), judged(0)], [REPLACED, REPLACED, COUNTS], id="edited and back"),
        pytest.param([judged(0), skipped()], [REPLACED, COUNTS], id="nothing left to score"),
        pytest.param([skipped(), judged(0)], [REPLACED, COUNTS], id="skipped at first"),
        pytest.param(
            [failed(0), judged(1), judged(2, rerun="case"), judged(1), judged(3, rerun="fresh")],
            [REPLACED, REPLACED, RERUN, COUNTS, RERUN],
            id="all of it",
        ),
    ],
)
def test_the_first_answer_to_the_current_question_counts_with_its_newest_judging(
    lines: list[Make], expected: list[str]
) -> None:
    made = [make(generation) for generation, make in enumerate(lines)]
    first = find_first_answers(lambda: made)
    assert [first.standing(each) for each in made] == expected


def test_a_line_that_was_written_twice_counts_twice_and_is_refused_later() -> None:
    made = [judged(0)(0), judged(1, rerun="case")(1), judged(0)(0)]
    first = find_first_answers(lambda: made)
    assert [first.standing(each) for each in made] == [COUNTS, RERUN, COUNTS]


@pytest.mark.parametrize(("rerun", "is_unmarked"), [(None, True), ("failed", False)])
def test_further_answers_without_a_mark_are_of_an_older_version(rerun: str | None, *, is_unmarked: bool) -> None:
    made = [judged(0)(0), judged(1, rerun=rerun)(1)]
    first = find_first_answers(lambda: made)
    assert first.has_unmarked_reruns is is_unmarked
    assert [first.is_newest(each) for each in made] == [False, True]


makers = st.one_of(
    st.builds(judged, st.integers(0, 3), st.sampled_from(["k", "e"]), rerun=st.sampled_from([None, "failed"])),
    st.builds(unjudged, st.integers(0, 3)),
    st.builds(unscored, st.integers(0, 3)),
    st.builds(failed, st.integers(4, 7)),
)


@given(st.lists(makers, max_size=8))
def test_one_line_of_a_slot_counts_and_no_rerun_does(makers: list[Make]) -> None:
    made = [make(generation) for generation, make in enumerate(makers)]
    first = find_first_answers(lambda: made)
    counted = [each for each in made if first.standing(each) == COUNTS]
    assert len(counted) == any(each.rerun is None for each in made)
    assert all(each.rerun is None for each in counted)
    assert first.highest(SLOT) == max(len(made) - 1, 0)


@pytest.mark.nightly
def test_a_slot_with_several_generations_costs_fifty_bytes_at_most() -> None:
    first = FirstAnswers()
    tracemalloc.start()
    try:
        for number in range(50_000):
            slot = ResultKey("suite", f"case-{number}", "target")
            first.note(slot, 1)
            first.add(SlotLine(slot, 0, None, "pass", "pass", "k", AnswerRef(number)))
        grown, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert grown / 50_000 < 50
