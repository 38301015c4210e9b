"""The review of answers: which item a reviewer gets next, and the only place that writes reviewers' labels."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct, field

from agentv.engine.labels.label_rates import criteria_by_case
from agentv.engine.running.clock import make_clock
from agentv.engine.stored.report_tools import read_details
from agentv.reports.run.views import RowDetail
from agentv.scoring.judges.draws import AnswerName
from agentv.scoring.judges.labels import label_value
from agentv.scoring.judges.preference import EQUAL
from agentv.scoring.judges.reviewing import QueueLabels, Reviewed, make_label, queue_labels
from agentv.storage.files.run_file import stamp_of
from agentv.storage.run.find import runs_folder
from agentv.storage.run.first_answers import decode_result_line
from agentv.storage.run.folder import RUN_FILE, append_event
from agentv.storage.run.labels import LABELS_FILE, LabelConflictError, append_labels
from agentv.storage.run.reviews import REVIEWS_FOLDER, load_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError, StorageError
from agentv.types.json_value import JsonValue
from agentv.types.protocols import Clock
from agentv.types.records.answer import ResultKey
from agentv.types.records.label import NO_SCORE, HumanScore, HumanVerdict, Label, ShownPart
from agentv.types.records.review import QueueItem, ReviewQueue
from agentv.types.scales import EvaluationCriteria

LEASE_S = 30 * 60.0
"""Seconds for which an item that a reviewer opened is not given to another one, who could have it, too."""
_MAX_ITEMS_IN_MEMORY = 200
_ITEMS_PER_READ = 25
"""The number of items whose texts are read at once, since the files of the run have to be searched for them."""
_LISTED_S = 5.0
"""Seconds after which the folders of a project are listed again, which takes long with thousands of runs."""
_RESULTS = "results.jsonl"
OTHER_PAGES: Sequence[ShownPart] = ("judge", "labels", "target")
"""What the pages show that open after a reviewer's last label."""


Side: TypeAlias = Literal["first", "second", "equal", "unsure"]
"""What a reviewer says about a pair of answers, in the order in which they are shown."""


class ReviewRefusedError(ConfigError):
    """A reviewer asked for what is not theirs to see or to change."""


class UnknownItemError(ConfigError):
    """A queue has no such item."""


class BadLabelError(ConfigError):
    """A label that cannot be stored."""


class LabelledAlreadyError(ConfigError):
    """A reviewer sent another label of an item than the one that was stored from another window."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__("this answer was labelled in another tab or window; that label is stored, and yours is not")


class GivenItem(Struct, frozen=True):
    """An item for a reviewer to label."""

    number: int
    """Its place in the queue, from 0."""
    position: int
    """Its place among those of the reviewer, from 1."""
    total: int
    """The number of the reviewer's items, or of disputed ones."""
    item: QueueItem
    detail: RowDetail
    criterion: EvaluationCriteria | None
    """The criterion's definition in the case."""
    label_id: str
    """The id of the label that is to be sent."""
    earlier: Label | None
    """The reviewer's own label that the new one corrects."""
    before: int | None
    """The item that the reviewer labelled before."""
    shown: tuple[ShownPart, ...]
    other: RowDetail | None = None
    """The other answer of a pair."""
    disputed: tuple[Label, ...] = ()
    """The labels on which reviewers disagree, if the item is to be resolved."""


class SentLabel(Struct, frozen=True):
    """A label as it arrives from a page."""

    number: int
    label_id: str
    verdict: HumanVerdict | None = None
    score: HumanScore = NO_SCORE
    note: str = ""
    category: str = ""
    shown: tuple[ShownPart, ...] = ()
    is_resolution: bool = False
    better: Side | None = None
    """The better answer of a pair."""


class _Lease(Struct):
    given_s: float
    shown: set[ShownPart] = field(default_factory=set)


class ReviewSession:
    """A queue while it is reviewed. Safe to use from several threads; only one process should review a queue."""

    def __init__(
        self,
        stored: StoredRun,
        queue: ReviewQueue,
        *,
        other: StoredRun | None = None,
        clock: Clock | None = None,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stored = stored
        self.queue = queue
        self._clock = clock or make_clock()
        self._timer = timer
        self._lock = threading.RLock()
        self._leases: dict[tuple[int, str, bool], _Lease] = {}
        self._seen: dict[str, set[ShownPart]] = {}
        """What reviewers may have seen beside the answers since they labelled the last one."""
        self._read: list[Label] = []
        self._labels: tuple[str, QueueLabels] | None = None
        self._criteria = criteria_by_case(stored, {item.slot.eval_id for item in queue.items})
        self._texts = _ItemTexts(stored, [(item.slot, item.answer_ref.seq) for item in queue.items])
        compared = [item.compared_with for item in queue.items]
        self._other_texts = (
            None
            if other is None
            else _ItemTexts(other, [(each.slot, each.answer_ref.seq) for each in compared if each is not None])
        )

    def labels(self) -> QueueLabels:
        """Return the labels of the queue as they are stored now. Raises StorageError if the run was deleted."""
        with self._lock:
            if not (self.stored.folder / RUN_FILE).is_file():
                raise StorageError(f"run {self.stored.run_id} was deleted: {self.stored.folder} has no {RUN_FILE}")
            stamp = stamp_of(self.stored.folder / LABELS_FILE)
            if self._labels is None or self._labels[0] != stamp:
                # Lines are only ever added.
                self._read.extend(self.stored.all_labels(first=len(self._read)))
                self._labels = stamp, queue_labels(self.queue, self._read, self._criteria)
            return self._labels[1]

    def answer(self, number: int) -> str | None:
        """Return the text of an item's answer. Raises StorageError if it is no longer in the run."""
        return self._texts.detail(number).result.candidate_answer

    def note_seen(self, reviewer: str, *parts: ShownPart) -> None:
        """Store with the labels that a reviewer sends from now on what other pages may have shown."""
        with self._lock:
            self._seen_by(reviewer).update(parts)

    def _seen_by(self, reviewer: str) -> set[ShownPart]:
        seen = self._seen.get(reviewer)
        if seen is None:
            # Pages were open to a reviewer who was done before this server started.
            is_done = reviewer in self.queue.reviewers and not self.labels().waiting(reviewer)
            seen = self._seen[reviewer] = set(OTHER_PAGES) if is_done else set()
        return seen

    def give(self, reviewer: str, number: int | None = None, *, with_expected: bool = False) -> GivenItem | None:
        """Return the next item of a reviewer, or the one with a number; None if nothing is left.

        Raises UnknownItemError and ReviewRefusedError for an item of another reviewer.
        """
        self._check_reviewer(reviewer)
        with self._lock:
            labels = self.labels()
            self._seen_by(reviewer)
            waiting = labels.waiting(reviewer)
            if number is None:
                if not waiting:
                    return None
                number = waiting[0]
            self._check_item(reviewer, number)
            own = labels.items_of(reviewer)
            given = self._given(reviewer, number, labels, own, with_expected=with_expected)
        for texts in filter(None, (self._texts, self._other_texts)):
            texts.prefetch([each for each in waiting if each != number])
        return given

    def give_disputed(self, reviewer: str, number: int | None = None) -> GivenItem | None:
        """Return the next item on which reviewers disagree, without those that another reviewer has open."""
        self._check_reviewer(reviewer)
        with self._lock:
            labels = self.labels()
            self._check_done(reviewer, labels)
            self.note_seen(reviewer, "labels")
            disputed = labels.conflicts()
            if number is None:
                number = next((each for each in disputed if not self._is_leased(each, reviewer)), None)
                if number is None:
                    return None
            elif number not in disputed:
                raise UnknownItemError(f"reviewers do not disagree on item {number}, or it is resolved already")
            return self._given(reviewer, number, labels, disputed, is_resolution=True)

    def save(self, reviewer: str, sent: SentLabel) -> Label:
        """Store a label, and return it once it is on disk. A label that is sent again is stored once.

        Raises ReviewRefusedError, UnknownItemError, BadLabelError, and LabelledAlreadyError if the stored one of this
        id says something else.
        """
        self._check_reviewer(reviewer)
        with self._lock:
            item = self._item(sent.number)
            if sent.is_resolution:
                self._check_done(reviewer, self.labels())
            else:
                self._check_item(reviewer, sent.number)
            self._check_id(reviewer, sent)
            key = (sent.number, reviewer, sent.is_resolution)
            lease = self._leases.get(key)
            took_s = None if lease is None else self._timer() - lease.given_s
            seen = {*(lease.shown if lease else ()), *sent.shown, *self._seen_before(reviewer, sent, item)}
            shown = dict.fromkeys([*self._shown_always(sent), *sorted(seen)])
            verdict, score = self._said(item, sent)
            reviewed = Reviewed(
                label_id=sent.label_id,
                verdict=verdict,
                score=score,
                note=sent.note or None,
                category=sent.category or None,
                seconds=None if took_s is None or took_s > LEASE_S else round(took_s, 1),
                shown=tuple(shown),
                is_resolution=sent.is_resolution,
            )
            label = make_label(self.queue, item, reviewed, annotator=reviewer, time=self._clock())
            try:
                (saved,) = append_labels(self.stored.folder, [label], run_id=self.stored.run_id, note=self._note)
            except LabelConflictError as error:
                raise LabelledAlreadyError(sent.number) from error
            self._leases.pop(key, None)
            return saved

    def _seen_before(self, reviewer: str, sent: SentLabel, item: QueueItem) -> set[ShownPart]:
        """Return what a reviewer saw beside an answer before this label: with earlier labels, and on other pages."""
        labels = self.labels()
        if sent.label_id != self._label_id(reviewer, sent.number, labels, is_resolution=sent.is_resolution):
            same = next((each for each in self._read if each.label_id == sent.label_id), None)
            return set(same.shown if same else ())  # it is sent again
        earlier = (
            each.shown
            for each in self._read
            if (each.slot, each.answer_seq, each.annotator) == (item.slot, item.answer_ref.seq, reviewer)
        )
        return self._seen_by(reviewer).union(*earlier)

    def categories(self) -> list[str]:
        """Return the categories in use, sorted."""
        return sorted({each.category for each in self.stored.labels() if each.category})

    def _given(
        self,
        reviewer: str,
        number: int,
        labels: QueueLabels,
        own: Sequence[int],
        *,
        with_expected: bool = False,
        is_resolution: bool = False,
    ) -> GivenItem:
        item = self.queue.items[number]
        lease = self._leases.setdefault((number, reviewer, is_resolution), _Lease(self._timer()))
        if with_expected:
            lease.shown.add("expected")
        disputed = tuple(labels.current[number].values()) if is_resolution else ()
        return GivenItem(
            number=number,
            position=own.index(number) + 1,
            total=len(own),
            item=item,
            detail=self._texts.detail(number),
            other=None if self._other_texts is None else self._other_texts.detail(number),
            criterion=self._criterion(item),
            label_id=self._label_id(reviewer, number, labels, is_resolution=is_resolution),
            earlier=None if is_resolution else labels.current[number].get(reviewer),
            before=None if is_resolution else labels.labelled_before(reviewer, number),
            shown=tuple(sorted(lease.shown)),
            disputed=disputed,
        )

    def _label_id(self, reviewer: str, number: int, labels: QueueLabels, *, is_resolution: bool) -> str:
        """Return the id of the next label of an item: the same one until it is stored."""
        count = labels.counts.get((number, reviewer, is_resolution), 0)
        return f"{self._id_prefix(reviewer, number, is_resolution=is_resolution)}{count}"

    def _id_prefix(self, reviewer: str, number: int, *, is_resolution: bool) -> str:
        kind = "/resolution" if is_resolution else ""
        return f"{self.queue.name}/{number}/{reviewer}{kind}/"

    def _check_id(self, reviewer: str, sent: SentLabel) -> None:
        labels = self.labels()
        last = labels.counts.get((sent.number, reviewer, sent.is_resolution), 0)
        prefix = self._id_prefix(reviewer, sent.number, is_resolution=sent.is_resolution)
        if sent.label_id not in {f"{prefix}{count}" for count in range(last + 1)}:
            raise BadLabelError(f"{sent.label_id!r} is not the id of a label that this page gave out; reload the page")
        is_new = sent.label_id == f"{prefix}{last}"
        if sent.is_resolution and is_new and sent.number not in labels.conflicts():
            raise BadLabelError("reviewers do not disagree on this answer, or it is resolved already")

    def _criterion(self, item: QueueItem) -> EvaluationCriteria | None:
        known = self._criteria.get((item.slot.suite, item.slot.eval_id), ())
        return next((each for each in known if each.name == self.queue.criterion), None)

    def _said(self, item: QueueItem, sent: SentLabel) -> tuple[HumanVerdict | None, HumanScore | None]:
        """Return verdict and score of a label; of a pair the score of this run's answer."""
        is_skip = sent.verdict is None and sent.score == NO_SCORE and sent.better is None
        if is_skip or (sent.better is None) == (item.compared_with is None):
            return side_label(item, sent.better) if sent.better else (sent.verdict, self._score(item, sent))
        allowed = "first, second, equal or unsure as `better`" if item.compared_with else "a verdict or a score"
        raise BadLabelError(f"the answers of queue {self.queue.name!r} need {allowed}")

    def _score(self, item: QueueItem, sent: SentLabel) -> HumanScore | None:
        """Return the score that was sent, None for a verdict only."""
        if sent.verdict is not None or sent.score == NO_SCORE:
            return None
        try:
            label_value(sent.score, self._criterion(item))
        except ValueError as error:
            raise BadLabelError(str(error)) from None
        return sent.score

    def _shown_always(self, sent: SentLabel) -> tuple[ShownPart, ...]:
        shown: tuple[ShownPart, ...] = () if self.queue.blind else ("judge", "target")
        return (*shown, "labels") if sent.is_resolution else shown

    def _is_leased(self, number: int, reviewer: str) -> bool:
        """Return True if another reviewer has a disputed item open."""
        now = self._timer()
        return any(
            each == number and name != reviewer and is_resolution and now - lease.given_s < LEASE_S
            for (each, name, is_resolution), lease in self._leases.items()
        )

    def _check_reviewer(self, reviewer: str) -> None:
        if reviewer not in self.queue.reviewers:
            names = ", ".join(self.queue.reviewers)
            raise ReviewRefusedError(f"only its reviewers may label the answers of queue {self.queue.name!r}: {names}")

    def _check_done(self, reviewer: str, labels: QueueLabels) -> None:
        """Raise ReviewRefusedError before all answers of a reviewer are labelled: conflicts show labels of others."""
        if waiting := labels.waiting(reviewer):
            raise ReviewRefusedError(f"label your own answers first ({len(waiting):,} left)")

    def _item(self, number: int) -> QueueItem:
        if not 0 <= number < len(self.queue.items):
            raise UnknownItemError(f"queue {self.queue.name!r} has no item {number}")
        return self.queue.items[number]

    def _check_item(self, reviewer: str, number: int) -> None:
        if reviewer not in self._item(number).reviewers:
            raise ReviewRefusedError(f"item {number} of queue {self.queue.name!r} is for another reviewer")

    def _note(self, type_: str, fields: Mapping[str, JsonValue]) -> None:
        # A run that is going on records the checksums of its files when it ends.
        append_event(self.stored.folder, type_, fields, clock=self._clock)

    def close(self) -> None:
        """End the reading of texts ahead."""
        for texts in filter(None, (self._texts, self._other_texts)):
            texts.close()


def side_label(item: QueueItem, side: Side) -> tuple[HumanVerdict | None, HumanScore | None]:
    """Return verdict and score of what a reviewer says about a pair."""
    if side == "unsure":
        return "unsure", None
    if side == "equal":
        return None, EQUAL
    return None, 1.0 if (side == "first") != item.is_swapped else 0.0


def label_side(item: QueueItem, label: Label) -> Side | None:
    """Return what a reviewer said about a pair; None for a skip."""
    sides: tuple[Side, ...] = ("first", "second", "equal", "unsure")
    return next((side for side in sides if side_label(item, side) == _as_said(label)), None)


def _as_said(label: Label) -> tuple[HumanVerdict | None, HumanScore | None]:
    return label.verdict, None if label.score == NO_SCORE else label.score


class _ItemTexts:
    """The cases and answers of a queue's items, read some ahead."""

    def __init__(self, stored: StoredRun, names: Sequence[AnswerName]) -> None:
        self._stored = stored
        self._names = names
        self._places: dict[tuple[ResultKey, int], tuple[int, int, int]] | None = None
        self._found: dict[int, RowDetail] = {}
        self._lock = threading.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="review")
        self._ahead: Future[None] | None = None

    def detail(self, number: int) -> RowDetail:
        """Return the texts of an item. Raises StorageError if the answer is no longer in the run."""
        with self._lock:
            if number not in self._found:
                self._read([number])
            if number not in self._found:
                raise StorageError(f"the answer of item {number} is no longer in run {self._stored.run_id}")
            return self._found[number]

    def prefetch(self, numbers: Sequence[int]) -> None:
        """Read the next items in the background, if the first of them is missing."""
        if numbers and numbers[0] not in self._found and (self._ahead is None or self._ahead.done()):
            self._ahead = self._thread.submit(self._read_ahead, list(numbers[:_ITEMS_PER_READ]))

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read_ahead(self, numbers: Sequence[int]) -> None:
        with self._lock:
            self._read(numbers)

    def _read(self, numbers: Sequence[int]) -> None:
        if self._places is None:
            self._places = self._find_places()
        names = [self._names[each] for each in numbers]
        found = [(each, self._places[name]) for each, name in zip(numbers, names, strict=True) if name in self._places]
        results = list(self._stored.results_at(place for _, place in found))
        for (number, _), detail in zip(found, read_details(self._stored, results), strict=True):
            self._found[number] = detail
        while len(self._found) > _MAX_ITEMS_IN_MEMORY:
            self._found.pop(next(iter(self._found)))

    def _find_places(self) -> dict[tuple[ResultKey, int], tuple[int, int, int]]:
        wanted = set(self._names)
        places = {}
        for number, offset, line in self._stored.current_lines(_RESULTS):
            head = decode_result_line(line)
            if (head.slot, head.answer_ref.seq) in wanted:
                places[head.slot, head.answer_ref.seq] = (number, offset, len(line))
        return places


class Reviews:
    """The queues that are open, by run and name; those that are reviewed by this server also by name alone."""

    def __init__(self, sessions: Sequence[ReviewSession] = ()) -> None:
        self._sessions = {(each.stored.folder.resolve(), each.queue.name): each for each in sessions}
        self._reviewed = tuple(sessions)
        self._folders: tuple[float, frozenset[Path]] | None = None
        self._lock = threading.Lock()

    def reviewed(self, reviewer: str) -> list[ReviewSession]:
        """Return the queues that a reviewer labels here."""
        return [each for each in self._reviewed if reviewer in each.queue.reviewers]

    def named(self, name: str) -> ReviewSession | None:
        """Return the queue of this name that is reviewed here, or None."""
        return next((each for each in self._reviewed if each.queue.name == name), None)

    def of_run(self, stored: StoredRun, name: str) -> ReviewSession:
        """Return a queue of a run. Raises UnknownItemError with the known names if there is none."""
        with self._lock:
            key = stored.folder.resolve(), name
            session = self._sessions.get(key)
            if session is None:
                try:
                    queue = load_queue(stored.folder, name)
                except ConfigError as error:
                    raise UnknownItemError(str(error)) from None
                session = ReviewSession(stored, queue)
                self._sessions[key] = session
            return session

    def folders(self, home: Path) -> frozenset[Path]:
        """Return the folders of a project's runs that have queues, as they were a few seconds ago at most."""
        with self._lock:
            now = time.monotonic()
            if self._folders is None or now - self._folders[0] > _LISTED_S:
                found = runs_folder(home).glob(f"*/{REVIEWS_FOLDER}/*.json")
                self._folders = now, frozenset(path.parent.parent for path in found)
            return self._folders[1]

    def close(self) -> None:
        """End the open queues."""
        for each in self._sessions.values():
            each.close()
