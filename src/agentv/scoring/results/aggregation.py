"""Aggregation of evaluators' results to a case: weighted mean, verdicts, strict status, joined texts."""

import math
from collections.abc import Iterable, Sequence
from operator import mul
from typing import TypeGuard

from msgspec import Struct
from msgspec.structs import replace

from agentv.types.cases import EvaluatorConfig
from agentv.types.evaluation import EvaluationResult, EvaluationScore, EvaluatorResult, Verdict, verdict_of
from agentv.types.json_value import JsonValue
from agentv.types.records.result import CaseResult, RowStatus
from agentv.types.results import RowState
from agentv.types.stored import TOLERANCE
from agentv.types.usage import Usage, total_usage

_FULL_SCORE = 1.0 - TOLERANCE

TURN = "turn"
"""The type of the result of one turn of a conversation, whose members are the results of the turn's evaluators."""


class CaseFields(Struct, frozen=True, gc=False):
    """The fields of a row that combine all of its evaluators (docs/reference/results-and-verdicts.md)."""

    hits: tuple[str, ...]
    misses: tuple[str, ...]
    reasoning: str | None
    expected_aspect_count: int
    raw_aspects: tuple[str, ...] | None


def reaches(score: float, bound: float) -> bool:
    """Return True if a score is at least `bound`, within 1e-9."""
    return score >= bound - TOLERANCE


def weighted_mean(pairs: Iterable[tuple[float, float]]) -> float:
    """Return sum(weight * value) / sum(weight), limited to the range of the values with a weight above 0.

    Weights are finite and at least 0. 0.0 without a weight above 0.
    """
    weighted = [pair for pair in pairs if pair[0] > 0]
    if not weighted:
        return 0.0
    if len(weighted) == 1:  # a criterion with one result, a case with one evaluator
        return weighted[0][1]
    weights = [weight for weight, _ in weighted]
    values = [value for _, value in weighted]
    # Scaled by a power of two, which is exact, so that weights near the largest float do not overflow.
    _, exponent = math.frexp(max(weights))
    shares = [math.ldexp(weight, -exponent) for weight in weights]
    mean: float = math.fsum(map(mul, shares, values)) / math.fsum(shares)
    return min(max(mean, min(values)), max(values))


def evaluators_score(results: Sequence[EvaluatorResult]) -> float:
    """Return a case's score: the weighted mean of its evaluators' scores; one with an error counts as 0.0.

    Skipped evaluators are left out. An evaluator with `unmet: zero` whose `required` is not met makes the score 0.0.
    """
    if len(results) == 1 and results[0].unmet == "fail":
        only = results[0]
        return only.counted_score if only.weight > 0 and only.status != "skipped" else 0.0
    if zeroing_evaluators(results):
        return 0.0
    return weighted_mean([(result.weight, result.counted_score) for result in results if result.status != "skipped"])


def is_met(value: float | None) -> bool:
    """Return True if the value (0..1) of a criterion or rubric item counts as met: its verdict is not `fail`."""
    return value is not None and verdict_of(value) != "fail"


def required_items_met(results: Iterable[EvaluationResult]) -> bool:
    """Return True if every rubric item marked `required` was answered and met."""
    for item in results:
        if item.metadata is None or not item.metadata.get("required"):
            continue
        min_value = item.metadata.get("min_value")
        if not (
            item.value is not None and reaches(item.value, min_value) if _is_number(min_value) else is_met(item.value)
        ):
            return False
    return True


def _is_number(value: JsonValue) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def result_verdict(result: EvaluatorResult) -> Verdict:
    """Return one evaluator's verdict: its own if it set one, else that of its score."""
    return result.verdict or verdict_of(result.counted_score)


def is_requirement_met(result: EvaluatorResult) -> bool:
    """Return True if the requirements of an evaluator and of its members are met.

    `required: true` requires the verdict `pass`, a number requires that score; required rubric items must be met. The
    requirements of a turn's evaluators count for that turn only.
    """
    if result.status == "skipped" or result.type == TURN:
        return True
    if result.required is not False and not _is_satisfied(result):
        return False
    members = result.evaluator_results
    return required_items_met(result.results) and (not members or all(map(is_requirement_met, members)))


def _is_satisfied(result: EvaluatorResult) -> bool:
    """Return True if an evaluator's own `required` is met or not set."""
    required = result.required
    if required is False:
        return True
    return result_verdict(result) == "pass" if required is True else reaches(result.counted_score, required)


def unchecked_requirement(results: Iterable[EvaluatorResult]) -> EvaluatorResult | None:
    """Return the first evaluator, or member of one, that is required but was skipped; None if there is none."""
    for result in results:
        if result.status == "skipped" and result.required is not False:
            return result
        if result.evaluator_results and (member := unchecked_requirement(result.evaluator_results)):
            return member
    return None


def zeroing_evaluators(results: Sequence[EvaluatorResult]) -> list[EvaluatorResult]:
    """Return the evaluators that make the case's score 0."""
    return [each for each in results if each.unmet == "zero" and each.status != "skipped" and not _is_satisfied(each)]


def case_verdict(score: float, results: Sequence[EvaluatorResult], pass_score: float | None = None) -> Verdict:
    """Return a case's verdict: `fail` if any requirement is not met, else that of the case's score.

    With `pass_score` there is no `borderline`: a score of at least that number is `pass`, any other `fail`.
    """
    if not all(map(is_requirement_met, results)):
        return "fail"
    if pass_score is not None:
        return "pass" if reaches(score, pass_score) else "fail"
    return verdict_of(score)


def row_status(score: float) -> RowStatus:
    """Return the strict status of a judged row: `pass` only if its score is 1.0, within 1e-9."""
    return "pass" if score >= _FULL_SCORE else "fail"


def row_state(result: CaseResult) -> RowState:
    """Return the state of a row: its verdict, or `error` or `skipped` if it has none."""
    if result.status in ("error", "skipped"):
        return result.status
    return result.verdict or "fail"


def first_failed(results: Sequence[EvaluatorResult]) -> EvaluatorResult | None:
    """Return the first evaluator, or member of one, whose error excludes the row from every mean.

    The error of an evaluator with weight 0 that is not required excludes nothing.
    """
    for result in results:
        if result.weight <= 0 and result.required is False:
            continue
        if result.error is not None:
            return result
        if result.evaluator_results and (failed := first_failed(result.evaluator_results)):
            return failed
    return None


def case_fields(results: Sequence[EvaluatorResult], *, noun: str = "case") -> CaseFields:
    """Join the evaluators' hits, misses and reasons in order; with several, each reason begins with its name.

    `noun` is the word for the judged object in the line about an unmet requirement.
    """
    if len(results) == 1:
        only = results[0]
        aspects_of_only = max(1, only.expected_aspect_count)
        return CaseFields(
            hits=only.hits,
            misses=only.misses if only.unmet == "fail" else (*only.misses, *_why_zero(results, noun)),
            reasoning=only.reasoning or None,
            expected_aspect_count=aspects_of_only,
            raw_aspects=only.raw_aspects,
        )
    reasons = [(result.name, result.reasoning) for result in results if result.reasoning]
    aspects = [result.raw_aspects for result in results if result.raw_aspects is not None]
    return CaseFields(
        hits=tuple([hit for result in results for hit in result.hits]),
        misses=(*[miss for result in results for miss in result.misses], *_why_zero(results, noun)),
        reasoning=" | ".join(f"{name}: {text}" for name, text in reasons) or None,
        expected_aspect_count=sum([max(1, result.expected_aspect_count) for result in results]),
        raw_aspects=tuple(aspect for group in aspects for aspect in group) if aspects else None,
    )


def _why_zero(results: Sequence[EvaluatorResult], noun: str) -> tuple[str, ...]:
    """Return a line for each evaluator that makes the case's score 0."""
    return tuple(
        [
            f"the {noun} scores 0: {each.name!r} is required and scored {each.score:.2f}"
            for each in zeroing_evaluators(results)
        ]
    )


def to_result(score: EvaluationScore, config: EvaluatorConfig, *, duration_ms: float | None = None) -> EvaluatorResult:
    """Return an evaluator's score as the result stored in a row. Its verdict is None when nothing was judged."""
    is_judged = score.error is None and score.status != "skipped"
    result = EvaluatorResult(
        name=config.name,
        type=config.type,
        score=score.score,
        status=score.status,
        weight=config.weight,
        required=config.required,
        unmet=config.unmet,
        verdict=score.verdict or verdict_of(score.score) if is_judged else None,
        hits=score.hits,
        misses=score.misses,
        reasoning=score.reasoning,
        expected_aspect_count=score.expected_aspect_count,
        raw_aspects=score.raw_aspects,
        results=score.results,
        duration_ms=duration_ms,
    )
    # Rules have none of the other fields, and passing them all in one call takes longer (bench/echo_cases.py).
    has_more = score.evaluator_raw_request is not None or score.judge_calls or score.members or score.clamped
    if score.error is None and not has_more:
        return result
    usage, cost_usd = _spent(score)
    return replace(
        result,
        error=score.error,
        evaluator_provider_request=score.evaluator_raw_request,
        judge_calls=score.judge_calls,
        usage=usage,
        cost_usd=cost_usd,
        evaluator_results=score.members,
        clamped=score.clamped,
    )


def _spent(score: EvaluationScore) -> tuple[Usage | None, float | None]:
    """Return the tokens and the cost of the judges.

    The cost is None if a judge used tokens at an unknown price, or if nothing was used.
    """
    calls = [(call.usage, call.cost_usd) for call in score.judge_calls]
    parts = calls + [(member.usage, member.cost_usd) for member in score.members]
    usage = total_usage(usage for usage, _ in parts)
    if any(usage is not None and cost is None for usage, cost in parts):
        return usage, None
    costs = [cost for _, cost in parts if cost is not None]
    return usage, sum(costs) if costs else None
