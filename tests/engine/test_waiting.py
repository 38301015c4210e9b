"""The note of a run that waits for one call after another."""

import pytest

from agentv.engine.runs.waiting import WaitingWatch, waiting_note


@pytest.mark.parametrize(
    ("done", "left", "elapsed_s", "expected"),
    [
        (30, 770, 6.0, "one call at a time: about 3 min left; --workers 10: about 15 s"),
        (1, 399, 30.0, "one call at a time: about 3 h 20 min left; --workers 10: about 20 min"),
        (10, 4, 300.0, "one call at a time: about 2 min left; --workers 10: about 30 s"),  # 4 calls, all at once
        (30, 290, 6.0, None),  # 58 s left
        (1, 9, 4.9, None),  # too early
        (0, 9, 60.0, None),
    ],
)
def test_the_note_has_the_time_that_is_left_and_that_with_more_workers(
    done: int, left: int, elapsed_s: float, expected: str | None
) -> None:
    assert waiting_note(done=done, left=left, elapsed_s=elapsed_s) == expected


def test_the_note_is_made_once() -> None:
    watch = WaitingWatch(planned=1000, now_s=100.0)
    notes = [watch.after_result(100.0 + seconds) for seconds in range(1, 20)]
    assert [index for index, note in enumerate(notes) if note is not None] == [4]
