"""A note of a run is printed once: as it comes, or at the end."""

import pytest
from msgspec.structs import replace
from tests.reports.rows import PASSED, REPORT
from tests.support.stored import SLOT

from agentv.reports.progress.notes import ShownNotes
from agentv.reports.run.end_table import end_report
from agentv.types.events import RowBegun, RowFinished, RunEvent, RunNote


@pytest.mark.parametrize(
    "first", [RowBegun(SLOT), RowFinished(PASSED)], ids=["a call", "a stored answer that is scored"]
)
def test_notes_after_the_first_call_wait_for_the_end_unless_they_are_urgent(first: RunEvent) -> None:
    notes = ShownNotes()
    assert notes.shows(RunNote("early"))
    assert not notes.shows(first)
    late = [RunNote("late"), RunNote("urgent", is_urgent=True), RunNote("problem", is_problem=True)]
    assert [notes.shows(note) for note in late] == [False, True, True]
    text = end_report(replace(REPORT, notes=("early", "late", "urgent")), shown_notes=notes.messages)
    assert [line for line in text.splitlines() if line.startswith("note")] == ["note    late"]
