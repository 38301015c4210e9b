"""What evaluators said ↔ records: the entries of `evaluator_results`, with judge calls and criteria."""

from typing import cast

from agentv.storage.record_fields import (
    failure_to_record,
    milliseconds,
    optional_failure,
    optional_number,
    optional_object,
    optional_text,
    optional_texts,
    optional_usage,
    read_integer,
    read_number,
    read_objects,
    read_text,
    read_texts,
    usage_to_record,
)
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, JudgeCall, JudgeRole, Verdict
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import CaseResult

_REQUEST_NAMES = ("evaluator_provider_request", "evaluator_raw_request", "grader_raw_request")
"""What a judge was asked has had three names; the first is written, all are read."""


def evaluator_to_record(result: EvaluatorResult) -> dict[str, JsonValue]:
    """Return one evaluator's result as a record; what is not known is absent."""
    record: dict[str, JsonValue] = {
        "name": result.name,
        "type": result.type,
        "status": result.status,
        "score": result.score,
        "weight": result.weight,
        "required": result.required,
    }
    if result.verdict is not None:
        record["verdict"] = result.verdict
    add_aspects(record, result)
    if result.error is not None:
        record["error"] = failure_to_record(result.error, at="evaluator")
    if result.results:
        record["results"] = [_criterion_to_record(each) for each in result.results]
    if result.evaluator_provider_request is not None:
        record["evaluator_provider_request"] = result.evaluator_provider_request
    if result.judge_calls:
        record["judge_calls"] = [_judge_call_to_record(call) for call in result.judge_calls]
    if result.duration_ms is not None:
        record["duration_ms"] = milliseconds(result.duration_ms)
    if result.usage is not None:
        record["usage"] = usage_to_record(result.usage)
    if result.cost_usd is not None:
        record["cost_usd"] = result.cost_usd
    if result.evaluator_results:
        record["evaluator_results"] = [evaluator_to_record(member) for member in result.evaluator_results]
    return record


def add_aspects(record: dict[str, JsonValue], result: EvaluatorResult | CaseResult) -> None:
    """Add what an evaluator, or all evaluators of a row together, found in the answer."""
    record["hits"] = result.hits
    record["misses"] = result.misses
    if result.reasoning is not None:
        record["reasoning"] = result.reasoning
    record["expected_aspect_count"] = result.expected_aspect_count
    if result.raw_aspects is not None:
        record["raw_aspects"] = result.raw_aspects


def record_to_evaluator(record: JsonObject) -> EvaluatorResult:
    """Read one evaluator's result; unknown keys are ignored."""
    required = record.get("required", False)
    return EvaluatorResult(
        name=read_text(record, "name"),
        type=read_text(record, "type", "llm_judge"),
        score=read_number(record, "score"),
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


def _criterion_to_record(result: EvaluationResult) -> dict[str, JsonValue]:
    record: dict[str, JsonValue] = {"criterion_name": result.criterion_name}
    if result.score is not None:
        record["score"] = result.score
    if result.value is not None:
        record["value"] = result.value
    record["scale"] = result.scale
    if result.reasoning is not None:
        record["reasoning"] = result.reasoning
    record["evaluator_type"] = result.evaluator_type
    if result.error is not None:
        record["error"] = result.error
    if result.metadata is not None:
        record["metadata"] = result.metadata
    return record


def _record_to_criterion(record: JsonObject) -> EvaluationResult:
    score = record.get("score")
    return EvaluationResult(
        criterion_name=read_text(record, "criterion_name"),
        score=score if isinstance(score, bool | int | float | str) else None,
        value=optional_number(record, "value"),
        scale=read_text(record, "scale", "binary"),
        reasoning=optional_text(record, "reasoning"),
        evaluator_type=read_text(record, "evaluator_type", ""),
        error=optional_text(record, "error"),
        metadata=optional_object(record, "metadata"),
    )


def _judge_call_to_record(call: JudgeCall) -> dict[str, JsonValue]:
    record: dict[str, JsonValue] = {
        "judge": call.judge,
        "role": call.role,
        "reply": call.reply,
        "score": call.score,
        "usage": None if call.usage is None else usage_to_record(call.usage),
        "cost_usd": call.cost_usd,
        "duration_ms": milliseconds(call.duration_ms),
        "cached": call.cached,
    }
    return {key: value for key, value in record.items() if value is not None}


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
