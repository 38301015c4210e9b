"""Review queues of a stored run: drawn once with their probabilities, and opened again by name."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain

from msgspec import Struct
from msgspec.structs import replace

from agentv.engine.labels.label_rates import HUMAN, criteria_by_case, load_people_verdicts, row_opinions
from agentv.scoring.judges.draws import AnswerName, DrawRow, GoldenRow, draw_queue, rows_to_draw
from agentv.scoring.judges.labels import judged_criterion
from agentv.storage.run.judgements import JudgedRow, read_judged_rows
from agentv.storage.run.reviews import load_queue, load_queues, queue_names, save_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError, nearest
from agentv.types.records.label import OVERALL, Label
from agentv.types.records.review import ReviewQueue, Stratify

DEFAULT_SAMPLE = 100
"""The number of answers of a queue, unless another one is asked for."""
UNJUDGED = "not judged"
"""The stratum of answers without a verdict of a judge."""
DEFAULT_GOLDEN_EVERY = 10
"""A golden item follows this number of others, unless another one is asked for."""
_MIN_AGREEING = 2
_MAX_NAME_CHARS = 60
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")


class ReviewPlan(Struct, frozen=True, kw_only=True):
    """The queue that is asked for. What is None has a default, or is as in the stored queue of this name."""

    name: str | None = None
    criterion: str | None = None
    """By default that of the run's only evaluator, else `OVERALL`."""
    n: int | None = None
    stratify: Stratify | None = None
    allocation: Mapping[str, int] | None = None
    """The number of answers of some strata."""
    reviewers: tuple[str, ...] = ()
    overlap: float | None = None
    golden_every: int | None = None
    seed: int | None = None
    blind: bool | None = None


def open_queue(
    stored: StoredRun,
    plan: ReviewPlan,
    *,
    now: datetime,
    reviewer: str = "reviewer",
    golden: Sequence[Label] | None = None,
) -> ReviewQueue:
    """Return the stored queue of a plan, or draw one from the answers that no earlier queue of its criterion has.

    `reviewer` labels a new queue for which the plan names nobody. `golden` are labels of answers whose verdicts are
    known; None: of answers about which annotators of the run agree, if the plan has golden items. Raises ConfigError
    if the plan differs from the stored queue of its name, or does not fit the run.
    """
    if plan.name is not None and plan.name in queue_names(stored.folder):
        return _reopened(stored, plan, plan.name)
    rows = list(read_judged_rows(stored))
    criterion = plan.criterion or default_criterion(rows)
    name = plan.name or _NOT_IN_NAMES.sub("-", criterion).strip("-.")[:_MAX_NAME_CHARS] or OVERALL
    if name in queue_names(stored.folder):
        return _reopened(stored, plan, name)
    _check_criterion(stored, rows, criterion)
    if golden is None and plan.golden_every is not None:
        golden = _agreed([label for label in stored.labels() if label.criterion == criterion and not label.golden])
    named = replace(plan, name=name, criterion=criterion, reviewers=plan.reviewers or (reviewer,))
    queue = _draw(stored, named, [row for row in rows if row.answer_seq is not None], golden, now)
    save_queue(stored.folder, queue)
    return queue


def default_criterion(rows: Sequence[JudgedRow]) -> str:
    """Return the name of the only evaluator of a run, else `OVERALL`, the verdict on the answer as a whole."""
    names = {each.result.name for row in rows for each in row.judgements if each.result.type != HUMAN}
    return names.pop() if len(names) == 1 else OVERALL


def _reopened(stored: StoredRun, plan: ReviewPlan, name: str) -> ReviewQueue:
    queue = load_queue(stored.folder, name)
    check_same_plan(plan, queue)
    return queue


def _draw(
    stored: StoredRun, plan: ReviewPlan, rows: Sequence[JudgedRow], golden: Sequence[Label] | None, now: datetime
) -> ReviewQueue:
    criterion, seed, overlap = plan.criterion or OVERALL, plan.seed or 0, plan.overlap or 0.0
    answers = [_draw_row(row, criterion) for row in rows]
    if not answers:
        raise ConfigError(f"run {stored.run_id} has no answer to review")
    earlier = [each for each in load_queues(stored.folder) if each.criterion == criterion]
    stratify = plan.stratify or (earlier[-1].stratify if earlier else "verdict")
    left = rows_to_draw(answers, earlier, stratify=stratify)
    n = min(DEFAULT_SAMPLE, len(left)) if plan.n is None else plan.n
    every = None if golden is None else plan.golden_every or DEFAULT_GOLDEN_EVERY

    def drawn(known: Sequence[GoldenRow]) -> ReviewQueue:
        found = draw_queue(
            left,
            n=n,
            seed=seed,
            stratify=stratify,
            allocation=plan.allocation,
            reviewers=plan.reviewers,
            overlap=overlap,
            golden=known,
            golden_every=every,
        )
        return ReviewQueue(
            name=plan.name or OVERALL,
            run_id=stored.run_id,
            created_at=now,
            criterion=criterion,
            seed=seed,
            n=n,
            stratify=stratify,
            allocation=plan.allocation or {},
            overlap=overlap,
            reviewers=plan.reviewers,
            golden_every=every,
            blind=plan.blind is not False,
            after=tuple(each.name for each in earlier),
            strata=found.strata,
            items=found.items,
        )

    queue = drawn(())
    return queue if golden is None else drawn(_golden_rows(stored, golden, answers, queue))


def _agreed(labels: Sequence[Label]) -> list[Label]:
    """Return the labels of answers about which two annotators or more agree."""
    said: defaultdict[AnswerName, list[str]] = defaultdict(list)
    for label in labels:
        if not label.is_skip:
            said[label.slot, label.answer_seq].append(label.verdict or str(label.score))
    agreed = {name for name, each in said.items() if len(each) >= _MIN_AGREEING and len(set(each)) == 1}
    return [label for label in labels if (label.slot, label.answer_seq) in agreed]


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
            f"there is no golden answer: none that was left has labels of {queue.criterion!r} with a clear verdict; "
            "give labels with --golden FILE, or review some answers with an overlap first: those on which reviewers "
            "agree are golden later"
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


def check_same_plan(plan: ReviewPlan, queue: ReviewQueue) -> None:
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
