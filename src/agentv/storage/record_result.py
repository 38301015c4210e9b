"""Judged rows ↔ records: the lines of results.jsonl (formats.md, section 4)."""

from collections.abc import Mapping
from typing import cast

from agentv.storage.record_answer import read_slot
from agentv.storage.record_evaluator import add_aspects, evaluator_to_record, read_evaluators
from agentv.storage.record_fields import (
    failure_to_record,
    milliseconds,
    optional_failure,
    optional_integer,
    optional_number,
    optional_object,
    optional_text,
    optional_texts,
    optional_usage,
    read_integer,
    read_object,
    read_text,
    read_texts,
    read_time,
    time_text,
    usage_to_record,
)
from agentv.storage.schema import RESULT_SCHEMA, check_schema
from agentv.types.evaluation import Verdict
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import (
    messages_from_json,
    messages_to_json,
    trace_from_json,
    trace_summary_from_json,
    trace_summary_to_json,
    trace_to_json,
)
from agentv.types.results import CaseResult, RowStatus
from agentv.types.usage import Usage


def result_to_record(result: CaseResult, *, with_trace: bool = True) -> dict[str, JsonValue]:
    """Return a row as results.jsonl has it; what is not known is absent, `score` and `verdict` are null by decision.

    Without `with_trace` the row has no `trace` and `output_messages`: its answer, at `answer_ref`, has them.
    """
    record = _place_to_record(result)
    _add_judgement(record, result)
    if result.trace_summary is not None:
        record["trace_summary"] = trace_summary_to_json(result.trace_summary)
    if with_trace and result.trace is not None:
        record["trace"] = trace_to_json(result.trace)
    if with_trace and result.output_messages is not None:
        record["output_messages"] = messages_to_json(result.output_messages)
    _add_circumstances(record, result)
    return record


def _place_to_record(result: CaseResult) -> dict[str, JsonValue]:
    """Return what tells a row from others."""
    slot = result.slot
    record: dict[str, JsonValue] = {"schema": RESULT_SCHEMA, "run_id": result.run_id}
    if result.seq is not None:
        record["seq"] = result.seq
    record["slot"] = slot.to_json()
    if result.answer_key:
        record["answer_key"] = result.answer_key
    if result.score_keys:
        record["score_key"] = result.score_keys
    if result.answer_seq is not None:
        record["answer_ref"] = {"seq": result.answer_seq}
    record["timestamp"] = time_text(result.timestamp)
    record["eval_id"] = slot.eval_id
    record["suite"] = slot.suite
    record["dataset"] = result.dataset
    if result.conversation_id is not None:
        record["conversation_id"] = result.conversation_id
    if result.tags:
        record["tags"] = result.tags
    if result.metadata:
        record["metadata"] = result.metadata
    record["target"] = slot.target
    record["trial"] = slot.trial
    record["attempt"] = result.attempt
    record["generation"] = result.generation
    return record


def _add_judgement(record: dict[str, JsonValue], result: CaseResult) -> None:
    """Add the answer, and what was said of it."""
    record["status"] = result.status
    record["score"] = result.score
    record["verdict"] = result.verdict
    add_aspects(record, result)
    record["candidate_answer"] = result.candidate_answer
    record["evaluator_results"] = [evaluator_to_record(each) for each in result.evaluator_results]


def _add_circumstances(record: dict[str, JsonValue], result: CaseResult) -> None:
    """Add what was asked, what it took, and where the case stands."""
    if result.agent_provider_request is not None:
        record["agent_provider_request"] = result.agent_provider_request
    if result.lm_provider_request is not None:
        record["lm_provider_request"] = result.lm_provider_request
    if usage_by := _usage_by(result):
        record["usage_by"] = usage_by
    if result.cost_usd is not None:
        record["cost_usd"] = result.cost_usd
    if result.duration_ms is not None:
        record["duration_ms"] = milliseconds(result.duration_ms)
    record["cached"] = result.cached
    if result.error is not None:
        record["error"] = failure_to_record(result.error)
    if result.single_form:
        record["single_form"] = True
    if result.file:
        record["file"] = result.file
    if result.line:
        record["line"] = result.line


def _usage_by(result: CaseResult) -> dict[str, JsonValue]:
    """Return what target and judge used and cost, as far as it is known."""
    known: dict[str, JsonValue] = {}
    if target := _usage_side(result.target_usage, result.target_cost_usd):
        known["target"] = target
    if judge := _usage_side(result.judge_usage, result.judge_cost_usd):
        known["judge"] = judge
    return known


def _usage_side(usage: Usage | None, cost_usd: float | None) -> dict[str, JsonValue]:
    record = {} if usage is None else usage_to_record(usage)
    if cost_usd is not None:
        record["cost_usd"] = cost_usd
    return record


def record_to_result(record: JsonObject) -> CaseResult:
    """Read a row, stored or exported; unknown keys are ignored.

    Raises StorageError for a newer schema, ValueError for a broken row.
    """
    check_schema(record, RESULT_SCHEMA)
    usage_by = read_object(record, "usage_by")
    target_side, judge_side = read_object(usage_by, "target"), read_object(usage_by, "judge")
    evaluators, single_form = read_evaluators(record)
    return CaseResult(
        run_id=read_text(record, "run_id", ""),
        timestamp=read_time(record, "timestamp"),
        slot=read_slot(record),
        dataset=read_text(record, "dataset", ""),
        status=cast(RowStatus, read_text(record, "status")),
        score=optional_number(record, "score"),
        verdict=cast(Verdict | None, optional_text(record, "verdict")),
        answer_key=read_text(record, "answer_key", ""),
        score_keys={key: str(value) for key, value in read_object(record, "score_key").items()},
        answer_seq=optional_integer(read_object(record, "answer_ref"), "seq"),
        generation=read_integer(record, "generation"),
        attempt=read_integer(record, "attempt"),
        conversation_id=optional_text(record, "conversation_id"),
        tags=read_texts(record, "tags"),
        metadata=read_object(record, "metadata"),
        hits=read_texts(record, "hits"),
        misses=read_texts(record, "misses"),
        reasoning=optional_text(record, "reasoning"),
        expected_aspect_count=read_integer(record, "expected_aspect_count"),
        raw_aspects=optional_texts(record, "raw_aspects"),
        candidate_answer=read_text(record, "candidate_answer", ""),
        evaluator_results=evaluators,
        single_form=single_form,
        trace_summary=trace_summary_from_json(record.get("trace_summary")),
        trace=trace_from_json(record.get("trace")),
        output_messages=messages_from_json(record.get("output_messages")),
        agent_provider_request=optional_object(record, "agent_provider_request"),
        lm_provider_request=optional_object(record, "lm_provider_request"),
        target_usage=optional_usage(usage_by, "target"),
        judge_usage=optional_usage(usage_by, "judge"),
        target_cost_usd=optional_number(target_side, "cost_usd"),
        judge_cost_usd=optional_number(judge_side, "cost_usd"),
        cost_usd=optional_number(record, "cost_usd"),
        duration_ms=optional_number(record, "duration_ms"),
        cached=record.get("cached") is True or isinstance(record.get("cached"), Mapping),
        error=optional_failure(record),
        file=read_text(record, "file", ""),
        line=read_integer(record, "line"),
        seq=optional_integer(record, "seq"),
    )
