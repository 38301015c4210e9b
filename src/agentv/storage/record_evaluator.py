"""What evaluators said ↔ records: the entries of `evaluator_results`, with judge calls and criteria."""

from collections.abc import Sequence
from typing import cast

from agentv.storage.entry import ALWAYS, Entry
from agentv.storage.record_fields import (
    failure_to_record,
    milliseconds,
    optional_failure,
    optional_number,
    optional_object,
    optional_score,
    optional_text,
    optional_texts,
    optional_usage,
    read_integer,
    read_number,
    read_objects,
    read_text,
    read_texts,
)
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, JudgeCall, JudgeRole, Verdict
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.usage import Usage

_REQUEST_NAMES = ("evaluator_provider_request", "evaluator_raw_request", "grader_raw_request")
"""What a judge was asked has had three names; the first is written, all are read."""


class CriterionEntry(Entry):
    """What was found of one criterion: an entry of `results`."""

    criterion_name: str
    score: float | str | None = None
    value: float | None = None
    scale: str = ALWAYS
    reasoning: str | None = None
    evaluator_type: str = ALWAYS
    error: str | None = None
    metadata: JsonObject | None = None


class JudgeCallEntry(Entry):
    """One call of a judge: an entry of `judge_calls`."""

    judge: str
    role: str
    reply: str
    score: float | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    cached: bool = ALWAYS


class EvaluatorEntry(Entry):
    """What one evaluator said: an entry of `evaluator_results`."""

    name: str
    type: str
    status: str
    score: float
    weight: float
    required: bool | float
    verdict: str | None = None
    hits: Sequence[str] = ALWAYS
    misses: Sequence[str] = ALWAYS
    reasoning: str | None = None
    expected_aspect_count: int = ALWAYS
    raw_aspects: Sequence[str] | None = None
    error: JsonObject | None = None
    results: Sequence[CriterionEntry] = ()
    evaluator_provider_request: JsonObject | None = None
    judge_calls: Sequence[JudgeCallEntry] = ()
    duration_ms: float | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    evaluator_results: "Sequence[EvaluatorEntry]" = ()


def evaluator_to_entry(result: EvaluatorResult) -> EvaluatorEntry:
    """Return one evaluator's result as a row has it; what is not known is absent."""
    return EvaluatorEntry(
        result.name,
        result.type,
        result.status,
        result.score,
        result.weight,
        result.required,
        result.verdict,
        result.hits,
        result.misses,
        result.reasoning,
        result.expected_aspect_count,
        result.raw_aspects,
        None if result.error is None else failure_to_record(result.error, at="evaluator"),
        list(map(_criterion_to_entry, result.results)) if result.results else (),
        result.evaluator_provider_request,
        list(map(_judge_call_to_entry, result.judge_calls)) if result.judge_calls else (),
        milliseconds(result.duration_ms),
        result.usage,
        result.cost_usd,
        list(map(evaluator_to_entry, result.evaluator_results)) if result.evaluator_results else (),
    )


def evaluator_to_record(result: EvaluatorResult) -> dict[str, JsonValue]:
    """Return the same as a dict."""
    return evaluator_to_entry(result).to_record()


def record_to_evaluator(record: JsonObject) -> EvaluatorResult:
    """Read one evaluator's result; unknown keys are ignored."""
    required = record.get("required", False)
    return EvaluatorResult(
        name=read_text(record, "name"),
        type=read_text(record, "type", "llm_judge"),
        score=optional_score(record) or 0.0,
        status=cast(EvaluatorStatus, read_text(record, "status", "scored")),
        weight=read_number(record, "weight", 1.0),
        required=required if isinstance(required, bool | float | int) else False,
        verdict=cast(Verdict | None, optional_text(record, "verdict")),
        hits=read_texts(record, "hits"),
        misses=read_texts(record, "misses"),
        reasoning=optional_text(record, "reasoning"),
        expected_aspect_count=read_integer(record, "expected_aspect_count", 1),
        raw_aspects=optional_texts(record, "raw_aspects"),
        error=optional_failure(record, at="evaluator"),
        results=tuple(_record_to_criterion(each) for each in read_objects(record, "results")),
        evaluator_provider_request=_read_request(record),
        judge_calls=tuple(_record_to_judge_call(call) for call in read_objects(record, "judge_calls")),
        duration_ms=optional_number(record, "duration_ms"),
        usage=optional_usage(record),
        cost_usd=optional_number(record, "cost_usd"),
        evaluator_results=tuple(record_to_evaluator(each) for each in read_objects(record, "evaluator_results")),
    )


def read_evaluators(record: JsonObject) -> tuple[tuple[EvaluatorResult, ...], bool]:
    """Return a row's evaluator results, and whether the case used the single form.

    An exported row of the single form has its only evaluator's fields at the top; its name is not known there.
    """
    if "evaluator_results" in record:
        listed = tuple(record_to_evaluator(each) for each in read_objects(record, "evaluator_results"))
        return listed, record.get("single_form") is True
    if record.get("score") is None:
        return (), True
    top = {**record, "name": "evaluator", "type": "llm_judge", "error": record.get("evaluator_error")}
    for of_the_row in ("status", "duration_ms", "cost_usd", "verdict"):
        top.pop(of_the_row, None)
    if top["error"] is not None:
        top["status"] = "error"
    return (record_to_evaluator(top),), True


def _read_request(record: JsonObject) -> JsonObject | None:
    found = (optional_object(record, name) for name in _REQUEST_NAMES)
    return next((request for request in found if request is not None), None)


def _criterion_to_entry(result: EvaluationResult) -> CriterionEntry:
    return CriterionEntry(
        result.criterion_name,
        result.score,
        result.value,
        result.scale,
        result.reasoning,
        result.evaluator_type,
        result.error,
        result.metadata,
    )


def _record_to_criterion(record: JsonObject) -> EvaluationResult:
    score = record.get("score")
    return EvaluationResult(
        criterion_name=read_text(record, "criterion_name"),
        score=score if isinstance(score, bool | int | float | str) else None,
        value=optional_score(record, "value"),
        scale=read_text(record, "scale", "binary"),
        reasoning=optional_text(record, "reasoning"),
        evaluator_type=read_text(record, "evaluator_type", ""),
        error=optional_text(record, "error"),
        metadata=optional_object(record, "metadata"),
    )


def _judge_call_to_entry(call: JudgeCall) -> JudgeCallEntry:
    return JudgeCallEntry(
        call.judge,
        call.role,
        call.reply,
        call.score,
        call.usage,
        call.cost_usd,
        milliseconds(call.duration_ms),
        call.cached,
    )


def _record_to_judge_call(record: JsonObject) -> JudgeCall:
    return JudgeCall(
        judge=read_text(record, "judge"),
        role=cast(JudgeRole, read_text(record, "role")),
        reply=read_text(record, "reply", ""),
        score=optional_number(record, "score"),
        usage=optional_usage(record),
        cost_usd=optional_number(record, "cost_usd"),
        duration_ms=optional_number(record, "duration_ms"),
        cached=record.get("cached") is True,
    )
