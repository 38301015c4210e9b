"""Reviews of a stored run: a queue is drawn from its answers, and what a reviewer sees is read."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct, field
from msgspec.structs import asdict

from agentv.engine.stored.label_rates import HUMAN, load_people_verdicts, row_opinions
from agentv.engine.stored.report_tools import read_details
from agentv.reports.run.views import RowDetail
from agentv.scoring.judges.draws import AnswerName, DrawRow, GoldenRow, draw_queue, rows_to_draw
from agentv.scoring.judges.reviewing import item_name
from agentv.storage.run.judgements import JudgedRow, read_judged_rows
from agentv.storage.run.reviews import load_queues, save_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.records.label import OVERALL, Label
from agentv.types.records.review import ReviewQueue, Stratify


class ReviewPlan(Struct, frozen=True, kw_only=True):
    """What to draw for a review."""

    name: str
    n: int
    seed: int = 0
    criterion: str | None = None
    """None: that of the run's only evaluator, else `OVERALL`."""
    stratify: Stratify = "none"
    allocation: Mapping[str, int] = field(default_factory=dict)
    overlap: float = 0.0
    reviewers: tuple[str, ...] = ("reviewer",)
    golden_every: int | None = None
    blind: bool = True


def draw_review(run: StoredRun, plan: ReviewPlan, *, now: datetime) -> ReviewQueue:
    """Draw a queue from the answers that no earlier queue of its criterion has, and store it in the run's folder.

    The same plan again returns the stored queue. Raises ConfigError for a plan that does not fit the run, and for the
    name of a queue that was drawn otherwise.
    """
    rows = [row for row in read_judged_rows(run) if row.answer_seq is not None]
    criterion = plan.criterion or default_criterion(rows)
    queues = list(load_queues(run.folder))
    stored = next((queue for queue in queues if queue.name == plan.name), None)
    if stored is not None:
        _refuse_change(plan, criterion, stored)
        return stored
    earlier = [queue for queue in queues if queue.criterion == criterion]
    drawable = [_draw_row(row, criterion) for row in rows]
    drawn = draw_queue(
        rows_to_draw(drawable, earlier, stratify=plan.stratify),
        n=plan.n,
        seed=plan.seed,
        stratify=plan.stratify,
        allocation=plan.allocation,
        reviewers=plan.reviewers,
        overlap=plan.overlap,
        golden=_golden(run, criterion, drawable) if plan.golden_every else (),
        golden_every=plan.golden_every,
    )
    queue = ReviewQueue(
        run_id=run.run_id,
        created_at=now,
        after=tuple(each.name for each in earlier),
        strata=drawn.strata,
        items=drawn.items,
        **{**asdict(plan), "criterion": criterion},
    )
    save_queue(run.folder, queue)
    return queue


def _refuse_change(plan: ReviewPlan, criterion: str, stored: ReviewQueue) -> None:
    """Raise ConfigError with what differs if a stored queue was drawn by another plan."""
    changed = [
        f"{name} {getattr(stored, name)!r}, not {value!r}"
        for name, value in {**asdict(plan), "criterion": criterion}.items()
        if getattr(stored, name) != value
    ]
    if changed:
        raise ConfigError(
            f"queue {plan.name!r} was drawn with {'; '.join(changed)}. A queue is never changed, because its labels "
            "have the probabilities with which it was drawn; draw more under another name"
        )


def default_criterion(rows: list[JudgedRow]) -> str:
    """Return the name of the only evaluator of a run, else `OVERALL`, the verdict on the answer as a whole."""
    names = {each.result.name for row in rows for each in row.judgements if each.result.type != HUMAN}
    return names.pop() if len(names) == 1 else OVERALL


def load_items(run: StoredRun, queue: ReviewQueue) -> dict[AnswerName, RowDetail]:
    """Return the results of a queue's items with their cases, answers and labels, in one pass over the run."""
    names = {item_name(item) for item in queue.items}
    rows = [row for row in run.results() if (row.slot, row.answer_seq) in names]
    return {(each.result.slot, each.result.answer_seq or 0): each for each in read_details(run, rows)}


def queue_labels(run: StoredRun, queue: ReviewQueue) -> list[Label]:
    """Return the current labels of a queue's criterion."""
    return [label for label in run.labels() if label.criterion == queue.criterion]


def _draw_row(row: JudgedRow, criterion: str) -> DrawRow:
    opinions = [passed for _, _, _, passed in row_opinions(row, (criterion,))]
    verdict = ("pass" if opinions[0] else "fail") if opinions else (row.verdict or "not judged")
    return DrawRow(row.slot, row.answer_key, row.answer_seq or 0, verdict, row.tags)


def _golden(run: StoredRun, criterion: str, rows: list[DrawRow]) -> list[GoldenRow]:
    """Return the answers about which two annotators or more agree. Raises ConfigError if there is none."""
    labels = [label for label in run.labels() if label.criterion == criterion and not label.golden]
    said: defaultdict[AnswerName, list[object]] = defaultdict(list)
    for label in labels:
        if not label.is_skip:
            said[label.slot, label.answer_seq].append(label.verdict or label.score)
    passed = load_people_verdicts(run, labels)[criterion].passed if labels else {}
    found = [
        GoldenRow(row, verdict)
        for row in rows
        if len(said[row.name]) > 1 and len(set(map(str, said[row.name]))) == 1
        if (verdict := passed.get(row.name)) is not None
    ]
    if not found:
        raise ConfigError(
            f"there is no golden answer: no answer has labels of two annotators who agree on {criterion!r}; "
            "review some answers with an overlap first"
        )
    return found
