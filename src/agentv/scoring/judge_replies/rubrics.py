"""Rubric scoring: score, hits, misses and verdict from a judge's checks of rubric items."""

import math
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from agentv.scoring.judge_replies.replies import RubricReply
from agentv.scoring.results.aggregation import is_met, reaches, weighted_mean
from agentv.scoring.results.folding import Vote, combine, spread
from agentv.types.cases import ITEM_PREFIX, ItemScale, RubricItem
from agentv.types.evaluation import EvaluationResult, EvaluationScore
from agentv.types.json_value import JsonValue

MARKS: Mapping[ItemScale, tuple[float, float]] = {"likert5": (1.0, 5.0), "points10": (0.0, 10.0)}
"""The lowest and the highest mark on each scale of a graded item."""


def make_items(given: Sequence[RubricItem | str]) -> tuple[RubricItem, ...]:
    """Return rubric items. A text becomes an item with the id `rubric-N`, N being its position.

    Raises ValueError for an empty text, a duplicate id, or a weight that is not a finite number of at least 0.
    """
    items = tuple(
        RubricItem(f"{ITEM_PREFIX}-{number}", item) if isinstance(item, str) else item
        for number, item in enumerate(given, start=1)
    )
    seen: set[str] = set()
    for item in items:
        if not item.description.strip() or not item.id.strip():
            raise ValueError("every rubric item needs an id and a description")
        if item.id in seen:
            raise ValueError(f"two rubric items have the id {item.id!r}")
        if not (math.isfinite(item.weight) and item.weight >= 0):
            raise ValueError(f"the weight of rubric item {item.id!r} must be a finite number of at least 0")
        seen.add(item.id)
    return items


def with_marks_off_scale(reply: RubricReply, items: Iterable[RubricItem]) -> RubricReply:
    """Return `reply` with the message about its marks that are not on their item's scale, if there are any."""
    errors = [f"[{item.id}] {error}" for item in items if (error := _mark_error(item, reply)) is not None]
    return replace(reply, off_scale="; ".join(errors)) if errors else reply


def _mark_error(item: RubricItem, reply: RubricReply) -> str | None:
    """Return the error of a graded item whose mark is not on its scale, else None."""
    check = reply.checks.get(item.id)
    if item.scale is None or check is None or check.mark is None:
        return None
    lowest, highest = MARKS[item.scale]
    if lowest <= check.mark <= highest:
        return None
    return f"{check.mark:g} is outside {lowest:g} to {highest:g}"


class _JudgedItem(Struct, frozen=True):
    """An item over all replies: the combined value (0..1), each reply's value, and the line for hits or misses.

    `answered` is False if no reply has a usable answer. `error` is that of a mark that is not on the item's scale.
    """

    item: RubricItem
    values: tuple[float, ...]
    value: float
    line: str
    answered: bool
    error: str | None = None

    @property
    def met(self) -> bool:
        """True if the item counts as met."""
        return _is_met(self.item, self.value)


def rubric_score(
    items: Sequence[RubricItem], replies: Sequence[RubricReply], *, vote: Vote = "mean", kind: str = "rubric"
) -> EvaluationScore:
    """Return the weighted mean of the items' values. An item without a usable answer in a reply has the value 0 there.

    Several replies are combined by voting on each item. A required item that is not met makes the verdict `fail`.
    """
    judged_items = [_judge_item(item, replies, vote) for item in items]
    met = [each for each in judged_items if each.met]
    is_required_missed = any(each.item.required and each not in met for each in judged_items)
    return EvaluationScore(
        score=weighted_mean((each.item.weight, each.value) for each in judged_items),
        hits=tuple(each.line for each in met),
        misses=tuple(each.line for each in judged_items if each not in met),
        expected_aspect_count=max(1, len(items)),
        reasoning=next((reply.reasoning for reply in replies if reply.reasoning), None),
        must_fail=is_required_missed,
        status="unverified" if any(reply.unverified for reply in replies) else "scored",
        results=tuple(_to_result(each, kind) for each in judged_items),
    )


def _judge_item(item: RubricItem, replies: Sequence[RubricReply], vote: Vote) -> _JudgedItem:
    values = [_item_value(item, reply) for reply in replies]
    counted = tuple(value or 0.0 for value in values)
    value = combine(counted, vote)
    answered = any(each is not None for each in values)
    line = _line(item, replies, _is_met(item, value))
    error = next((error for reply in replies if (error := _mark_error(item, reply)) is not None), None)
    return _JudgedItem(item=item, values=counted, value=value, line=line, answered=answered, error=error)


def _is_met(item: RubricItem, value: float) -> bool:
    return is_met(value) if item.min_value is None else reaches(value, item.min_value)


def _item_value(item: RubricItem, reply: RubricReply) -> float | None:
    """Return an item's value (0..1) in one reply; None without a usable answer, or with two different ones."""
    check = reply.checks.get(item.id)
    if check is None or item.id in reply.contradicted:
        return None
    if item.scale is None:
        return None if check.satisfied is None else float(check.satisfied)
    lowest, highest = MARKS[item.scale]
    if check.mark is None or _mark_error(item, reply) is not None:
        return None
    return (check.mark - lowest) / (highest - lowest)


def _line(item: RubricItem, replies: Sequence[RubricReply], met: bool) -> str:  # noqa: FBT001 - which side to quote
    """Return `[id] description: reasoning`, with the reasoning of the first reply that agrees with the vote."""
    head = f"[{item.id}] {item.description}"
    for reply in replies:
        value = _item_value(item, reply)
        if value is not None and _is_met(item, value) is met:
            reasoning = reply.checks[item.id].reasoning
            return f"{head}: {reasoning}" if reasoning else head
    errors = [error for reply in replies if (error := _mark_error(item, reply)) is not None]
    if errors:
        return f"{head}: {errors[0]}"
    if any(item.id in reply.contradicted for reply in replies):
        return f"{head}: the judge answered it twice, differently"
    return f"{head}: the judge gave no usable answer"


def _to_result(judged: _JudgedItem, kind: str) -> EvaluationResult:
    item = judged.item
    metadata: dict[str, JsonValue] = {"weight": item.weight, "required": item.required}
    if len(judged.values) > 1:
        metadata["spread"] = spread(judged.values)
    if not judged.answered:
        metadata["unanswered"] = True
    if item.min_value is not None:
        metadata["min_value"] = item.min_value
    lowest, highest = MARKS[item.scale] if item.scale else (0.0, 1.0)
    score: float | bool | None = judged.value
    if judged.error is not None:
        score = None
    elif item.scale:
        score = lowest + (highest - lowest) * judged.value
    elif judged.value in {0.0, 1.0}:
        score = judged.value == 1.0
    return EvaluationResult(
        criterion_name=item.id,
        score=score,
        value=None if judged.error is not None else judged.value,
        scale=item.scale or "binary",
        reasoning=judged.line,
        evaluator_type=kind,
        error=judged.error,
        metadata=metadata,
    )
