"""Review queues of pairs: the answers of two runs to the same cases, which people compare."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec.structs import replace

from agentv.engine.labels.reviews import DEFAULT_SAMPLE, ReviewPlan, check_same_plan
from agentv.scoring.counting.sampling import Sample
from agentv.scoring.judges.draws import AnswerName, DrawRow, draw_queue, rows_to_draw
from agentv.storage.run.judgements import JudgedRow, read_judged_rows
from agentv.storage.run.reviews import load_queue, load_queues, queue_names, save_queue
from agentv.storage.run.stored import StoredRun
from agentv.types.errors import ConfigError
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import ComparedAnswer
from agentv.types.records.review import QueueItem, ReviewQueue


def open_pairs(
    stored: StoredRun, other: StoredRun, plan: ReviewPlan, *, now: datetime, reviewer: str = "reviewer"
) -> ReviewQueue:
    """Return the stored queue of a plan, or draw one of pairs: answers of both runs to the same case and question.

    The answer that is shown first is chosen at random for each pair. Raises ConfigError if the plan differs from the
    stored queue of its name, or does not fit the runs.
    """
    name = plan.name or f"pairs-{other.run_id}"
    plan = replace(plan, name=name, criterion=f"better than {other.run_id}")
    if name in queue_names(stored.folder):
        queue = load_queue(stored.folder, name)
        check_same_plan(plan, queue)
        return queue
    if plan.golden_every is not None or plan.allocation or plan.stratify == "verdict":
        raise ConfigError("pairs are drawn without golden answers, --stratum and --stratify verdict")
    rows = [row for row in read_judged_rows(stored) if row.answer_seq is not None]
    pairs = _pairs(stored, rows, other)
    if not pairs:
        raise ConfigError(
            f"runs {stored.run_id} and {other.run_id} have no pair of answers: none is to the same case with the same "
            "question, prompt, trial and (with several targets) target"
        )
    queue = _draw(stored, other, plan, rows, pairs, reviewers=plan.reviewers or (reviewer,), now=now)
    save_queue(stored.folder, queue)
    return queue


def _draw(
    stored: StoredRun,
    other: StoredRun,
    plan: ReviewPlan,
    rows: Sequence[JudgedRow],
    pairs: Mapping[AnswerName, ComparedAnswer],
    *,
    reviewers: tuple[str, ...],
    now: datetime,
) -> ReviewQueue:
    earlier = [each for each in load_queues(stored.folder) if each.criterion == plan.criterion]
    stratify = plan.stratify or (earlier[-1].stratify if earlier else "none")
    answers = [DrawRow(row.slot, row.answer_key, row.answer_seq or 0, tags=row.tags) for row in rows]
    left = rows_to_draw([row for row in answers if row.name in pairs], earlier, stratify=stratify)
    n = min(DEFAULT_SAMPLE, len(left)) if plan.n is None else plan.n
    seed, overlap = plan.seed or 0, plan.overlap or 0.0
    found = draw_queue(left, n=n, seed=seed, stratify=stratify, reviewers=reviewers, overlap=overlap)
    return ReviewQueue(
        name=plan.name or "",
        run_id=stored.run_id,
        created_at=now,
        criterion=plan.criterion or "",
        seed=seed,
        n=n,
        stratify=stratify,
        overlap=overlap,
        reviewers=reviewers,
        blind=plan.blind is not False,
        compared_with=other.run_id,
        after=tuple(each.name for each in earlier),
        strata=found.strata,
        items=tuple(_pair(item, pairs, seed) for item in found.items),
    )


def _pair(item: QueueItem, pairs: Mapping[AnswerName, ComparedAnswer], seed: int) -> QueueItem:
    name = "\0".join(map(str, ("side", *item.slot.to_json().values(), item.answer_ref.seq)))
    is_swapped = bool(Sample(seed=seed).hash_of(name.encode("utf-8", "surrogatepass")) & 1)
    return replace(item, compared_with=pairs[item.slot, item.answer_ref.seq], is_swapped=is_swapped)


def _pairs(stored: StoredRun, rows: Sequence[JudgedRow], other: StoredRun) -> dict[AnswerName, ComparedAnswer]:
    """Return for each answer the one of the other run to the same case; targets matter only if a run has several."""
    others = [row for row in read_judged_rows(other) if row.answer_seq is not None]
    with_target = any(len({row.slot.target for row in each}) > 1 for each in (rows, others))
    same = _questions(stored).items() & _questions(other).items()
    known = {name for name, _ in same}

    def key(row: JudgedRow) -> tuple[object, ...]:
        slot = row.slot
        return slot.suite, slot.eval_id, slot.prompt, slot.trial, slot.target if with_target else None

    by_key = {key(row): row for row in others if (row.slot.suite, row.slot.eval_id, row.slot.prompt) in known}
    return {
        (row.slot, row.answer_seq or 0): ComparedAnswer(
            other.run_id, found.slot, found.answer_key, AnswerRef(found.answer_seq or 0)
        )
        for row in rows
        if (found := by_key.get(key(row))) is not None
    }


def _questions(stored: StoredRun) -> dict[tuple[str, str, str | None], int]:
    return {(case.suite, case.eval_id, case.prompt): hash(case.question) for case in stored.cases()}
