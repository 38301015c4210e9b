"""Review queues of a stored run: drawn once with their probabilities, and opened again by name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec import Struct

from agentv.engine.stored.label_rates import criteria_by_case, load_people_verdicts, row_opinions
from agentv.scoring.judges.draws import DrawRow, GoldenRow, draw_queue, rows_to_draw
from agentv.scoring.judges.labels import judged_criterion
from agentv.storage.run.judgements import JudgedRow, read_judged_rows
from agentv.storage.run.reviews import load_queue, load_queues, queue_names, save_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError, nearest
from agentv.types.protocols import Clock
from agentv.types.records.label import OVERALL, Label
from agentv.types.records.review import ReviewQueue, Stratify

DEFAULT_SAMPLE = 100
"""The number of answers of a queue, unless another one is asked for."""
UNJUDGED = "not judged"
"""The stratum of answers without a verdict of a judge."""
_DEFAULT_SEED = 1
_DEFAULT_GOLDEN_EVERY = 10
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class ReviewPlan(Struct, frozen=True, kw_only=True):
    """The queue that is asked for. What is None has a default, or is as in the stored queue of this name."""

    name: str | None = None
    criterion: str | None = None
    n: int | None = None
    stratify: Stratify | None = None
    allocation: Mapping[str, int] | None = None
    """The number of answers of some strata."""
    reviewers: tuple[str, ...] = ()
    overlap: float | None = None
    golden_every: int | None = None
    seed: int | None = None
    blind: bool | None = None

    @property
    def queue_name(self) -> str:
        """The name of the queue, by default that of its criterion."""
        return self.name or _NOT_IN_NAMES.sub("-", self.criterion or OVERALL).strip("-.") or OVERALL


def open_queue(
    stored: StoredRun, plan: ReviewPlan, *, clock: Clock, reviewer: str, golden: Sequence[Label] = ()
) -> ReviewQueue:
    """Return the stored queue of a plan, or draw and store it.

    `reviewer` labels a new queue for which the plan names nobody; `golden` are labels of answers whose verdicts are
    known. Raises ConfigError if the plan differs from the stored queue, or cannot be drawn.
    """
    if plan.queue_name in queue_names(stored.folder):
        queue = load_queue(stored.folder, plan.queue_name)
        _check_same_plan(plan, queue)
        return queue
    queue = _draw(stored, plan, reviewers=plan.reviewers or (reviewer,), golden=golden, clock=clock)
    save_queue(stored.folder, queue)
    return queue


def _draw(
    stored: StoredRun, plan: ReviewPlan, *, reviewers: tuple[str, ...], golden: Sequence[Label], clock: Clock
) -> ReviewQueue:
    criterion = plan.criterion or OVERALL
    rows = list(read_judged_rows(stored))
    _check_criterion(stored, rows, criterion)
    answers = [_draw_row(row, criterion) for row in rows if row.answer_seq is not None]
    if not answers:
        raise ConfigError(f"run {stored.run_id} has no answer to review")
    earlier = [each for each in load_queues(stored.folder) if each.criterion == criterion]
    stratify = plan.stratify or (earlier[-1].stratify if earlier else "verdict")
    left = rows_to_draw(answers, earlier, stratify=stratify)
    n = DEFAULT_SAMPLE if plan.n is None else plan.n
    seed, overlap = _DEFAULT_SEED if plan.seed is None else plan.seed, plan.overlap or 0.0
    every = (plan.golden_every or _DEFAULT_GOLDEN_EVERY) if golden else None
    n = min(n, len(left)) if plan.n is None else n

    def drawn(known: Sequence[GoldenRow]) -> ReviewQueue:
        found = draw_queue(
            left,
            n=n,
            seed=seed,
            stratify=stratify,
            allocation=plan.allocation,
            reviewers=reviewers,
            overlap=overlap,
            golden=known,
            golden_every=every,
        )
        return ReviewQueue(
            name=plan.queue_name,
            run_id=stored.run_id,
            created_at=clock(),
            criterion=criterion,
            seed=seed,
            n=n,
            stratify=stratify,
            allocation=plan.allocation or {},
            overlap=overlap,
            reviewers=reviewers,
            golden_every=every,
            blind=plan.blind is not False,
            after=tuple(each.name for each in earlier),
            strata=found.strata,
            items=found.items,
        )

    queue = drawn(())
    known = _golden_rows(stored, golden, answers, queue) if golden else []
    return drawn(known) if known else queue


def _golden_rows(
    stored: StoredRun, labels: Sequence[Label], answers: Sequence[DrawRow], queue: ReviewQueue
) -> list[GoldenRow]:
    """Return the answers whose verdicts are known, without those that were drawn: nobody labels an answer twice."""
    verdicts = load_people_verdicts(stored, [each for each in labels if each.criterion == queue.criterion])
    passed = verdicts[queue.criterion].passed if queue.criterion in verdicts else {}
    drawn = {(item.slot, item.answer_ref.seq) for item in queue.items}
    found = [
        GoldenRow(row, known)
        for row in answers
        if row.name not in drawn and (known := passed.get(row.name)) is not None
    ]
    if not found:
        raise ConfigError(
            f"no golden answer is left: none has a label of {queue.criterion!r} with a clear verdict, or all are drawn"
        )
    return found


def _draw_row(row: JudgedRow, criterion: str) -> DrawRow:
    passed = next((each[-1] for each in row_opinions(row, (criterion,))), None)
    verdict = UNJUDGED if passed is None else "pass" if passed else "fail"
    return DrawRow(row.slot, row.answer_key, -1 if row.answer_seq is None else row.answer_seq, verdict, row.tags)


def _check_criterion(stored: StoredRun, rows: Sequence[JudgedRow], criterion: str) -> None:
    """Raise ConfigError for a criterion that neither a case nor an evaluator of the run has."""
    if criterion == OVERALL:
        return
    results = [each.result for row in rows for each in row.judgements]
    judged = chain(
        (each.name for each in results),
        map(judged_criterion, results),
        (found.criterion_name for each in results for found in each.results),
    )
    defined = (
        each.name for found in criteria_by_case(stored, {row.slot.eval_id for row in rows}).values() for each in found
    )
    known = dict.fromkeys([OVERALL, *sorted({*judged, *defined})])
    if criterion not in known:
        near = nearest(criterion, known)
        hint = f"did you mean {near!r}?" if near else f"there are: {', '.join(map(repr, known))}"
        raise ConfigError(f"run {stored.run_id} has no criterion {criterion!r}; {hint}")


def _check_same_plan(plan: ReviewPlan, queue: ReviewQueue) -> None:
    """Raise ConfigError that names each part of the plan that differs from the stored queue."""
    strangers = [name for name in plan.reviewers if name not in queue.reviewers]
    differences = [f"{option} {stored}, not {asked}" for option, asked, stored in _differences(plan, queue)]
    if strangers:
        differences.append(f"for {_listed(queue.reviewers)}, not for {_listed(strangers)}")
    if differences:
        raise ConfigError(
            f"queue {queue.name!r} of run {queue.run_id} was drawn {'; '.join(differences)}. A queue is never changed, "
            "because its labels carry the probabilities with which it was drawn: omit these options to go on with it, "
            "or draw another one with --queue NAME"
        )


def _differences(plan: ReviewPlan, queue: ReviewQueue) -> Iterator[tuple[str, object, object]]:
    pairs: tuple[tuple[str, object, object], ...] = (
        ("with --criterion", plan.criterion, queue.criterion),
        ("with --sample", plan.n, queue.n),
        ("with --stratify", plan.stratify, queue.stratify),
        ("with --seed", plan.seed, queue.seed),
        ("with --overlap", plan.overlap, queue.overlap),
        ("with --golden-every", plan.golden_every, queue.golden_every),
        ("with blind", plan.blind, queue.blind),
        ("with --stratum", plan.allocation and dict(plan.allocation), dict(queue.allocation)),
    )
    return ((option, asked, stored) for option, asked, stored in pairs if asked is not None and asked != stored)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names)
