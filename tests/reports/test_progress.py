"""Where a run stands, from its events."""

from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.reports.rows import FAILED, PASSED, STARTED
from tests.support.stored import NOON, make_answer

from agentv.reports.progress.progress import Progress, plan_text, stopping_text
from agentv.reports.text.signs import UNICODE
from agentv.types.events import (
    AnswerArrived,
    RowBegun,
    RowFinished,
    RowKept,
    RowLeft,
    RowsCounted,
    RunStarted,
    RunStopping,
)
from agentv.types.records.result import CaseResult

LATER = NOON + timedelta(seconds=10)
SMALL = replace(STARTED, planned=100, workers=4)


def progress_of(*events: AnswerArrived | RowBegun | RowFinished | RowKept | RowLeft | RunStopping) -> Progress:
    progress = Progress(SMALL, NOON)
    for event in events:
        progress.add(event)
    return progress


def test_a_resumed_run_shows_its_own_pace() -> None:
    pace = progress_of(*[RowKept(PASSED)] * 90, *[RowFinished(PASSED)] * 5).pace(LATER)
    assert (pace["rate"], pace["left"]) == ("0.5/s", "about 00:10 left")


@pytest.mark.parametrize(
    ("started", "text"),
    [
        (STARTED, "refunds · 240 cases × 2 targets × 3 trials = 1,440"),  # noqa: RUF001
        (replace(STARTED, planned=9, cases=3, targets=("a",), trials=1), "refunds · 3 cases, 9 results"),
        (replace(STARTED, planned=6, cases=6, trials=1), "refunds · 6 cases, 2 targets, 6 results"),
        (replace(STARTED, planned=None, cases=None, targets=("a",)), "refunds · 3 trials"),
    ],
)
def test_how_much_is_planned_is_a_product_only_where_it_is_one(started: RunStarted, text: str) -> None:
    assert plan_text(started, UNICODE) == text


def test_before_the_first_new_row_nothing_is_said_of_the_rest() -> None:
    assert "left" not in progress_of(*[RowKept(PASSED)] * 90).pace(LATER)


def test_workers_are_busy_from_a_rows_beginning_to_its_end() -> None:
    begun = [RowBegun(FAILED.slot)] * 3
    assert progress_of(*begun).pace(LATER)["workers"] == "3/4 workers"
    assert progress_of(*begun, RowFinished(FAILED), RowLeft(FAILED.slot)).pace(LATER)["workers"] == "1/4 workers"


def test_more_rows_in_hand_than_workers_as_in_a_batch_are_all_workers() -> None:
    assert progress_of(*[RowBegun(FAILED.slot)] * 50).pace(LATER)["workers"] == "4/4 workers"


def test_what_was_spent_before_counts_towards_the_budget() -> None:
    progress = Progress(replace(SMALL, budget_usd=5.0, spent_usd=1.25), NOON)
    progress.add(AnswerArrived(make_answer(cost_usd=0.5)))
    assert progress.pace(LATER)["cost"] == "$1.75 of $5.00"


def test_when_all_is_done_no_time_is_left() -> None:
    assert "left" not in progress_of(*[RowFinished(PASSED)] * 100).pace(LATER)


def test_a_stop_says_what_becomes_of_the_rows_under_way() -> None:
    assert stopping_text(RunStopping("SIGINT")) == "stopping, cancelling running cases: SIGINT"
    assert stopping_text(RunStopping("enough", drains=True)) == "stopping, finishing running cases: enough"


class Looking(Progress):
    """Looks at itself as the thread of the heartbeats may, in the middle of an event."""

    def _count(self, result: CaseResult) -> None:
        assert self.done_now >= 0
        super()._count(result)
        assert self.done_now >= 0


def test_no_look_in_the_middle_finds_fewer_than_no_rows_finished() -> None:
    progress = Looking(SMALL, NOON)
    for event in (RowKept(PASSED), RowFinished(PASSED), RowKept(PASSED)):
        progress.add(event)
    assert progress.done_now == 1


def test_the_rows_counted_beside_the_run_give_the_share_and_the_time_left() -> None:
    started = replace(STARTED, planned=None, cases=None)
    progress = Progress(started, NOON)
    progress.add(RowFinished(FAILED))
    assert (progress.share, progress.remaining_s(LATER)) == (None, None)
    progress.add(RowsCounted(4, 4))
    assert (progress.share, progress.started.cases) == (0.25, 4)
    assert progress.remaining_s(LATER) == 3 * (LATER - NOON).total_seconds()
