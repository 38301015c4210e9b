"""The note of a run that makes one call at a time: how long that takes, and how long with more workers."""

from agentv.reports.text.amounts import about_text

PROPOSED_WORKERS = 10
MIN_ELAPSED_S = 5.0
"""Seconds until the first estimate."""
MIN_LEFT_S = 60.0
"""A run with less left is not worth a note."""


def waiting_note(*, done: int, left: int, elapsed_s: float) -> str | None:
    """Return the note after `done` results of a target in `elapsed_s` seconds, or None while there is nothing to say.

    `left` results are still to come.
    """
    if not done or elapsed_s < MIN_ELAPSED_S:
        return None
    left_s = elapsed_s / done * left
    if left_s < MIN_LEFT_S:
        return None
    faster = about_text(left_s / min(PROPOSED_WORKERS, left))
    return f"one call at a time: about {about_text(left_s)} left; --workers {PROPOSED_WORKERS}: about {faster}"


class WaitingWatch:
    """Counts the results of a target and makes the note once. `planned` is the number of its results."""

    def __init__(self, planned: int, now_s: float) -> None:
        self._planned, self._began_s = planned, now_s
        self._done = 0
        self._is_over = False

    def after_result(self, now_s: float) -> str | None:
        """Return the note after another result, at the time `now_s`; None if there is none, or it was made."""
        self._done += 1
        if self._is_over:
            return None
        note = waiting_note(done=self._done, left=self._planned - self._done, elapsed_s=now_s - self._began_s)
        self._is_over = note is not None
        return note
