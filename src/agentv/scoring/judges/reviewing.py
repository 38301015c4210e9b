"""The work on a review queue: who labels what next, what they disagree on, drift on golden items, and labels."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from agentv.scoring.judges.feedback import score_of_verdict
from agentv.scoring.judges.labels import label_passed
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import HumanScore, HumanVerdict, Label, ShownPart
from agentv.types.records.review import QueueItem, ReviewQueue
from agentv.types.scales import EvaluationCriteria

Criteria = Mapping[tuple[str, str], Sequence[EvaluationCriteria]]
"""The criteria of each case, by suite and id."""


class Reviewed(Struct, frozen=True, kw_only=True):
    """What a reviewer says about an item; without verdict and score, the item is skipped."""

    label_id: str
    """What is sent again with the same id is stored once."""
    verdict: HumanVerdict | None = None
    score: HumanScore | None = None
    """On the criterion's scale; None for a verdict only."""
    note: str | None = None
    category: str | None = None
    seconds: float | None = None
    shown: tuple[ShownPart, ...] = ()
    """What was shown beside the answer."""
    is_resolution: bool = False


def make_label(queue: ReviewQueue, item: QueueItem, reviewed: Reviewed, *, annotator: str, time: datetime) -> Label:
    """Return the label of an item, with the probability with which it was drawn."""
    return Label(
        slot=item.slot,
        answer_key=item.answer_key,
        answer_ref=item.answer_ref,
        criterion=queue.criterion,
        score=score_of_verdict(reviewed.verdict) if reviewed.score is None else reviewed.score,
        annotator=annotator,
        time=time,
        label_id=reviewed.label_id,
        verdict=reviewed.verdict,
        note=reviewed.note,
        category=reviewed.category,
        seconds=reviewed.seconds,
        blind=not set(reviewed.shown) - {"expected"},
        shown=reviewed.shown,
        draw=queue.draw_of(item),
        golden=item.golden is not None,
        resolution=reviewed.is_resolution,
        compared_with=item.compared_with,
    )


class ReviewerProgress(Struct, frozen=True):
    """How far a reviewer is, without golden items."""

    reviewer: str
    total: int
    labelled: int
    """The number of answers with a verdict or a score."""
    skipped: int
    """The number of answers that were skipped, or that the reviewer could not tell."""

    @property
    def left(self) -> int:
        """The number of answers that wait."""
        return self.total - self.labelled - self.skipped


class GoldenProgress(Struct, frozen=True):
    """How often a reviewer agrees with known verdicts: in the first and in the second half of the golden items."""

    reviewer: str
    first: tuple[int, int]
    """The number of agreements, and of answers."""
    second: tuple[int, int]


class QueueLabels(Struct, frozen=True):
    """The labels of a queue's items."""

    queue: ReviewQueue
    criteria: Criteria
    current: tuple[Mapping[str, Label], ...]
    """The latest label of each reviewer, by item."""
    resolutions: Mapping[int, Label]
    """The latest resolution of an item on which reviewers disagreed."""
    counts: Mapping[tuple[int, str, bool], int]
    """The number of labels, with those that were corrected, by item, annotator and whether it is a resolution."""

    def waiting(self, reviewer: str) -> list[int]:
        """Return the items that a reviewer has not labelled, in the order of review."""
        return [number for number in self.items_of(reviewer) if reviewer not in self.current[number]]

    def items_of(self, reviewer: str) -> list[int]:
        """Return the items of a reviewer, in the order of review."""
        return [number for number, item in enumerate(self.queue.items) if reviewer in item.reviewers]

    def labelled_before(self, reviewer: str, number: int | None) -> int | None:
        """Return the item that a reviewer labelled last, before labelling item `number` if given; None without one."""
        done = sorted(
            (label.time, each) for each in self.items_of(reviewer) if (label := self.current[each].get(reviewer))
        )
        own = None if number is None else self.current[number].get(reviewer)
        return next((each for time, each in reversed(done) if own is None or (time, each) < (own.time, number)), None)

    def conflicts(self) -> list[int]:
        """Return the items on which reviewers disagree, without those that are resolved."""
        return [
            number
            for number, item in enumerate(self.queue.items)
            if number not in self.resolutions and self._is_disputed(number, item)
        ]

    def progress(self) -> list[ReviewerProgress]:
        """Return how far each reviewer is."""
        return [self._progress(name) for name in self.queue.reviewers]

    def golden(self) -> list[GoldenProgress]:
        """Return how each reviewer labels the golden items; empty without any."""
        found = []
        for name in self.queue.reviewers:
            given = sorted(
                (label.time, self._passed(label) == (item.golden == "pass"))
                for item, labels in zip(self.queue.items, self.current, strict=True)
                if item.golden is not None and (label := labels.get(name)) is not None and not label.is_skip
            )
            if given:
                agreed = [each for _, each in given]
                half = len(agreed) // 2
                first, second = agreed[:half], agreed[half:]
                found.append(GoldenProgress(name, (sum(first), len(first)), (sum(second), len(second))))
        return found

    def labels(self) -> list[Label]:
        """Return the labels that count, without those of golden items."""
        given = [label for each in self.current for label in each.values() if not label.golden]
        return [*given, *self.resolutions.values()]

    def _progress(self, reviewer: str) -> ReviewerProgress:
        own = [number for number in self.items_of(reviewer) if self.queue.items[number].golden is None]
        labels = [label for number in own if (label := self.current[number].get(reviewer)) is not None]
        skipped = sum(label.is_skip for label in labels)
        return ReviewerProgress(reviewer, len(own), len(labels) - skipped, skipped)

    def _is_disputed(self, number: int, item: QueueItem) -> bool:
        given = [label for label in self.current[number].values() if not label.is_skip]
        found = {label.score if item.compared_with else self._passed(label) for label in given} - {None}
        return item.golden is None and len(found) > 1

    def _passed(self, label: Label) -> bool | None:
        return label_passed(label, self.criteria.get((label.slot.suite, label.slot.eval_id), ()))


def queue_labels(queue: ReviewQueue, labels: Iterable[Label], criteria: Criteria) -> QueueLabels:
    """Return the state of a queue. `labels` are all of the run, in the order in which they were written."""
    numbers: dict[tuple[ResultKey, int, str, bool], int] = {}
    for number, item in enumerate(queue.items):
        for name in item.reviewers:
            numbers[item.slot, item.answer_ref.seq, name, item.golden is not None] = number
    drawn = {(item.slot, item.answer_ref.seq): n for n, item in enumerate(queue.items) if item.golden is None}
    current: list[dict[str, Label]] = [{} for _ in queue.items]
    resolutions: dict[int, Label] = {}
    counts: Counter[tuple[int, str, bool]] = Counter()
    for label in labels:
        is_of_queue = label.golden if label.draw is None else label.draw.queue == queue.name
        if label.criterion != queue.criterion or not is_of_queue:
            continue
        answer = (label.slot, label.answer_seq)
        found = drawn.get(answer) if label.resolution else numbers.get((*answer, label.annotator, label.golden))
        if found is None:
            continue
        counts[found, label.annotator, label.resolution] += 1
        if label.resolution:
            resolutions[found] = label
        else:
            current[found][label.annotator] = label
    return QueueLabels(queue, criteria, tuple(current), resolutions, counts)
