"""Merge the review queues, labels and failure categories of several runs."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.judges.categories import make_categories, merged_category_events
from agentv.storage.run.categories import append_category_events, load_category_events
from agentv.storage.run.folder import RunFolder
from agentv.storage.run.labels import LABELS_FILE, append_labels
from agentv.storage.run.reviews import load_queues, save_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.records.answer import AnswerRef, ResultKey
from agentv.types.records.category import CategoryEvent
from agentv.types.records.label import Label
from agentv.types.records.review import DrawnStratum, QueueItem, ReviewQueue

_REVIEW_ID = re.compile(r"(?P<queue>[^/]+)/(?P<number>\d{1,9})/(?P<rest>.+)", re.DOTALL)
"""The id of a label that a review stored: queue, item, reviewer and number."""

_OTHER_RUN = "because the results of these cases are taken from another run"


class MergedRun(Struct, frozen=True):
    """One of the runs that are merged."""

    run: StoredRun
    new_ref: Callable[[ResultKey, int], AnswerRef | None]
    """Returns the reference to an answer in the new run; None for an answer of a result that another run has."""


class _Place(Struct, frozen=True):
    """Where an item of a run's queue is in the new run."""

    queue: str
    number: int


_Places = Mapping[tuple[int, str, int], _Place]
"""Where items are now, by the number of their run, their queue and their number in it."""


def merge_reviews(store: RunFolder, runs: Sequence[MergedRun], *, now: datetime) -> list[str]:
    """Write the queues, labels and categories of all runs into the new one; return what the user should know.

    Queues of the same criterion that were drawn in the same way become one, and the ids of its labels follow. Labels
    of results that are taken from another run are left out, and counted in a note.
    """
    notes: list[str] = []
    queues, places = _merged_queues(runs, store.run_id, notes)
    for queue in queues:
        save_queue(Path(store.folder), queue)
    labels, numbers = _merge_labels(store, runs, {queue.name: queue for queue in queues}, places, notes)
    _merge_categories(Path(store.folder), runs, labels, numbers, now)
    return notes


def _merged_queues(runs: Sequence[MergedRun], run_id: str, notes: list[str]) -> tuple[list[ReviewQueue], _Places]:
    """Return the queues of the new run: the first ones of a criterion become one, the second ones another."""
    groups: defaultdict[tuple[object, ...], list[tuple[int, ReviewQueue]]] = defaultdict(list)
    for index, each in enumerate(runs):
        seen = Counter[tuple[object, ...]]()
        for queue in load_queues(each.run.folder):
            kind = queue.criterion, queue.compared_with, queue.blind, queue.stratify
            groups[*kind, seen[kind]].append((index, queue))
            seen[kind] += 1
    merged: list[ReviewQueue] = []
    places: dict[tuple[int, str, int], _Place] = {}
    names: set[str] = set()
    for queues in groups.values():
        name = _free_name(queues[0][1].name, names)
        names.add(name)
        items = sorted(_items(runs, queues))
        left_out = sum(len(queue.items) for _, queue in queues) - len(items)
        if left_out:
            notes.append(f"queue {name!r}: {left_out:,} answer{'' if left_out == 1 else 's'} left out, {_OTHER_RUN}")
        found = replace(
            _joined([queue for _, queue in queues]),
            name=name,
            run_id=run_id,
            after=tuple(each.name for each in merged if each.criterion == queues[0][1].criterion),
            items=tuple(item.item for item in items),
        )
        merged.append(found)
        places |= {item.source: _Place(name, number) for number, item in enumerate(items)}
    return merged, places


class _Item(Struct, frozen=True, order=True):
    """An item with its place in its queue, from 0 to 1, by which the order of the new queue is random, too."""

    share: float
    source: tuple[int, str, int]
    item: QueueItem


def _items(runs: Sequence[MergedRun], queues: Sequence[tuple[int, ReviewQueue]]) -> Iterator[_Item]:
    for index, queue in queues:
        for number, item in enumerate(queue.items):
            ref = runs[index].new_ref(item.slot, item.answer_ref.seq)
            if ref is not None:
                share = (number + 0.5) / len(queue.items)
                yield _Item(share, (index, queue.name, number), replace(item, answer_ref=ref))


def _joined(queues: Sequence[ReviewQueue]) -> ReviewQueue:
    """Return one queue with the strata, reviewers and numbers of all. Strata with the same probability become one."""
    strata: dict[tuple[str, float], DrawnStratum] = {}
    allocation = Counter[str]()
    for queue in queues:
        allocation.update(queue.allocation)
        for each in queue.strata:
            known = strata.get((each.name, each.p), DrawnStratum(each.name, 0, 0))
            strata[each.name, each.p] = DrawnStratum(each.name, known.n + each.n, known.size + each.size)
    return replace(
        queues[0],
        created_at=min(queue.created_at for queue in queues),
        n=sum(queue.n for queue in queues),
        allocation=dict(allocation),
        reviewers=tuple(dict.fromkeys(name for queue in queues for name in queue.reviewers)),
        golden_every=next((queue.golden_every for queue in queues if queue.golden_every), None),
        strata=tuple(strata.values()),
    )


def _free_name(name: str, taken: set[str]) -> str:
    count = 1
    found = name
    while found in taken:
        count += 1
        found = f"{name[:70]}-{count}"
    return found


def _merge_labels(
    store: RunFolder,
    runs: Sequence[MergedRun],
    queues: Mapping[str, ReviewQueue],
    places: _Places,
    notes: list[str],
) -> tuple[Sequence[Label], list[dict[int, int]]]:
    """Append the labels of all runs; return them, and for each run the new number of each of its labels."""
    found: list[Label] = []
    numbers: list[dict[int, int]] = []
    ids: dict[str, str] = {}
    for index, each in enumerate(runs):
        numbers.append({})
        left_out = 0
        for label in each.run.all_labels():
            ref = each.new_ref(label.slot, label.answer_seq)
            if ref is None:
                left_out += 1
                continue
            new = _moved(replace(label, answer_ref=ref), index, queues, places)
            place = f"{each.run.folder / LABELS_FILE}:{(label.seq or 0) + 1}"
            if new.label_id is not None:
                if new.label_id in ids:
                    notes.append(
                        f"label {new.label_id!r} of {place} is stored as {new.label_id}@{each.run.run_id}: another "
                        f"label has this id ({ids[new.label_id]})"
                    )
                    new = replace(new, label_id=f"{new.label_id}@{each.run.run_id}")
                ids[new.label_id or ""] = place
            numbers[index][label.seq or 0] = len(found)
            found.append(new)
        if left_out:
            noun = "label" if left_out == 1 else "labels"
            notes.append(f"run {each.run.run_id}: {left_out:,} {noun} left out, {_OTHER_RUN}")
    if not found:
        return (), numbers
    return append_labels(Path(store.folder), found, run_id=store.run_id, note=store.note), numbers


def _moved(label: Label, index: int, queues: Mapping[str, ReviewQueue], places: _Places) -> Label:
    """Return a label of a review with the queue, item and draw that it has in the new run."""
    parts = _REVIEW_ID.fullmatch(label.label_id or "")
    place = None if parts is None else places.get((index, parts["queue"], int(parts["number"])))
    if parts is None or place is None:
        return label
    queue = queues[place.queue]
    item = queue.items[place.number]
    if item.slot != label.slot:
        return label  # an imported label with an id like those of reviews
    draw = label.draw and queue.draw_of(item)
    return replace(label, label_id=f"{place.queue}/{place.number}/{parts['rest']}", draw=draw)


def _merge_categories(
    folder: Path,
    runs: Sequence[MergedRun],
    labels: Sequence[Label],
    numbers: Sequence[Mapping[int, int]],
    now: datetime,
) -> None:
    """Append the changes of all runs in the order of their times, then what keeps each label in its category."""
    events: list[CategoryEvent] = []
    wanted: dict[int, str] = {}
    for each, new in zip(runs, numbers, strict=True):
        own = list(load_category_events(each.run.folder))
        by_label = make_categories(each.run.all_labels(), own).by_label
        wanted |= {number: by_label.get(seq, "") for seq, number in new.items()}
        moved = (replace(event, labels=tuple(new[label] for label in event.labels if label in new)) for event in own)
        events += [event for event in moved if event.labels or event.type != "assigned"]
    if events:
        events.sort(key=lambda event: event.time)
        append_category_events(folder, merged_category_events(labels, events, wanted, now=now))
