"""Notes of a run or a stream: each once, and a last one when there are more."""

from agentv.engine.running.recorder import MAX_NOTES, add_note


def test_notes_after_the_last_one_are_reported_as_more() -> None:
    notes: dict[str, None] = {}
    added = [add_note(notes, f"note {number % (MAX_NOTES + 5)}") for number in range(2 * MAX_NOTES)]
    assert [each for each in added if each is not None] == list(notes)
    assert list(notes) == [*(f"note {number}" for number in range(MAX_NOTES)), "there are more notes than can be shown"]
