"""The work on a review queue: what a reviewer gets next, the label of an item, conflicts, and drift on golden items."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from agentv.scoring.judges.draws import AnswerName
from agentv.scoring.judges.feedback import score_of_verdict
from agentv.types.records.label import HumanScore, HumanVerdict, Label, ShownPart
from agentv.types.records.review import QueueItem, ReviewQueue


class ReviewProgress(Struct, frozen=True):
    """The number of items of a reviewer, and how many of them have a label or were skipped."""

    done: int
    total: int


class Reviewed(Struct, frozen=True, kw_only=True):
    """What a reviewer sends about an item; without verdict and score, the item is skipped."""

    label_id: str
    """Chosen by the sender: what is sent again with the same id is stored once."""
    verdict: HumanVerdict | None = None
    score: HumanScore | None = None
    """On the criterion's scale; None for a verdict only."""
    note: str | None = None
    category: str | None = None
    seconds: float | None = None
    shown: tuple[ShownPart, ...] = ()
    """What was shown beside the answer; empty for a blind review."""


class GoldenAgreement(Struct, frozen=True):
    """A reviewer's labels of golden items, in the order of time: True where they have the known verdict."""

    annotator: str
    right: tuple[bool, ...]


def item_name(item: QueueItem) -> AnswerName:
    """Return the identity of an item's answer."""
    return item.slot, item.answer_ref.seq


def items_of(queue: ReviewQueue, reviewer: str) -> list[QueueItem]:
    """Return the items of a reviewer, in the order of review."""
    return [item for item in queue.items if reviewer in item.reviewers]


def next_item(
    queue: ReviewQueue, labels: Iterable[Label], reviewer: str, *, leased: Collection[AnswerName] = ()
) -> QueueItem | None:
    """Return the first item of a reviewer that has no label of theirs and is not leased; None if all are done."""
    done = _done(queue, labels, reviewer)
    waiting = (item for item in items_of(queue, reviewer) if (item_name(item), item.golden is not None) not in done)
    return next((item for item in waiting if item_name(item) not in leased), None)


def progress(queue: ReviewQueue, labels: Iterable[Label], reviewer: str) -> ReviewProgress:
    """Return how far a reviewer is."""
    items, done = items_of(queue, reviewer), _done(queue, labels, reviewer)
    return ReviewProgress(sum((item_name(item), item.golden is not None) in done for item in items), len(items))


def _done(queue: ReviewQueue, labels: Iterable[Label], reviewer: str) -> set[tuple[AnswerName, bool]]:
    return {
        ((label.slot, label.answer_seq), label.golden)
        for label in labels
        if label.annotator == reviewer and label.criterion == queue.criterion
    }


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
        blind=not reviewed.shown,
        shown=reviewed.shown,
        draw=queue.draw_of(item),
        golden=item.golden is not None,
    )


def conflicts(labels: Iterable[Label]) -> list[AnswerName]:
    """Return the answers on which the verdicts of two annotators differ, by one criterion; skips differ from none."""
    said: defaultdict[tuple[AnswerName, str], set[object]] = defaultdict(set)
    for label in labels:
        if not label.is_skip and not label.golden:
            said[(label.slot, label.answer_seq), label.criterion].add(label.verdict or label.score)
    return list(dict.fromkeys(name for (name, _), found in said.items() if len(found) > 1))


def golden_agreement(queue: ReviewQueue, labels: Sequence[Label]) -> list[GoldenAgreement]:
    """Return for each annotator which of their labels of golden items have the known verdict."""
    known = {item_name(item): item.golden for item in queue.items if item.golden is not None}
    found: defaultdict[str, list[bool]] = defaultdict(list)
    for label in sorted(labels, key=lambda each: each.time):
        verdict = known.get((label.slot, label.answer_seq))
        if label.golden and verdict is not None and label.criterion == queue.criterion:
            found[label.annotator].append(label.verdict == verdict)
    return [GoldenAgreement(annotator, tuple(right)) for annotator, right in sorted(found.items())]
