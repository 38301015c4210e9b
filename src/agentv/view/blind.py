"""The blind queues that wait for a reviewer, who must not see judge, target and other reviewers until they are done."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from agentv.storage.run.reviews import queue_names
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import AgentvError
from agentv.view.reviews import Reviews, ReviewSession

_MAX_COMPARED = 5
"""The number of answers with equal keys whose texts are compared: those of a copy are all equal."""


class BlindWork(Struct, frozen=True):
    """The answers of a blind queue that wait for a reviewer."""

    session: ReviewSession
    left: int

    def __str__(self) -> str:
        queue = self.session.queue
        return f"{self.left:,} answer{'' if self.left == 1 else 's'} of queue {queue.name!r} of run {queue.run_id}"

    def is_about(self, other: ReviewSession) -> bool:
        """Return True if another queue is of the same run, or has any of the same answers."""
        queue = self.session.queue
        if {queue.run_id, queue.compared_with} & {other.queue.run_id, other.queue.compared_with} - {None}:
            return True
        numbers = {item.answer_key: number for number, item in enumerate(other.queue.items) if item.answer_key}
        same = (
            (number, numbers[item.answer_key]) for number, item in enumerate(queue.items) if item.answer_key in numbers
        )
        with suppress(AgentvError):  # a text that is gone is shown nowhere
            return any(
                self.session.answer(mine) == other.answer(theirs) for mine, theirs in islice(same, _MAX_COMPARED)
            )
        return False


def blind_work(reviews: Reviews, home: Path, reviewer: str) -> Iterator[BlindWork]:
    """Yield the blind queues with answers left for a reviewer: those that are reviewed here, and others of the project.

    They may be reviewed at the same time by another process, so that what is stored decides. Queues that cannot be read
    are skipped: nobody can review them.
    """
    reviewed = reviews.reviewed(reviewer)
    yield from _waiting(reviewed, reviewer)
    known = {(each.stored.run_id, each.queue.name) for each in reviewed}
    for folder in sorted({*reviews.folders(home), *(each.stored.folder for each in reviewed)}):
        with suppress(AgentvError, OSError):
            stored = StoredRun(folder)
            for name in queue_names(folder):
                if (stored.run_id, name) not in known:
                    with suppress(AgentvError, OSError):
                        yield from _waiting([reviews.of_run(stored, name)], reviewer)


def _waiting(sessions: Iterable[ReviewSession], reviewer: str) -> Iterator[BlindWork]:
    for session in sessions:
        if session.queue.blind and reviewer in session.queue.reviewers:
            left = len(session.labels().waiting(reviewer))
            if left:
                yield BlindWork(session, left)
