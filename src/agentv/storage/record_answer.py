"""Answers ↔ records: the lines of answers.jsonl (formats.md, section 4)."""

from typing import Literal, cast

from agentv.storage.record_fields import (
    failure_to_record,
    milliseconds,
    optional_failure,
    optional_integer,
    optional_number,
    optional_object,
    optional_text,
    optional_usage,
    read_integer,
    read_number,
    read_objects,
    read_text,
    read_texts,
    read_time,
    time_text,
    usage_to_record,
)
from agentv.storage.schema import ANSWER_SCHEMA, check_schema
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_from_json, messages_to_json, trace_from_json, trace_to_json
from agentv.types.provider import CallRecord
from agentv.types.results import Answer, Slot


def read_slot(record: JsonObject) -> Slot:
    """Return the slot of a row; an exported row has its fields at the top."""
    fields = optional_object(record, "slot") or record
    return Slot(
        suite=read_text(fields, "suite", ""),
        eval_id=read_text(fields, "eval_id"),
        target=read_text(fields, "target", ""),
        trial=read_integer(fields, "trial"),
    )


def answer_to_record(answer: Answer, *, run_id: str) -> dict[str, JsonValue]:
    """Return an answer as the line of answers.jsonl has it; what is not known is absent."""
    record: dict[str, JsonValue] = {"schema": ANSWER_SCHEMA, "run_id": run_id}
    if answer.seq is not None:
        record["seq"] = answer.seq
    record["slot"] = answer.slot.to_json()
    record["generation"] = answer.generation
    record["answer_key"] = answer.answer_key
    record["kind"] = answer.kind
    record["text"] = answer.text
    _add_told(record, answer)
    record["started_at"] = time_text(answer.started_at)
    record["ended_at"] = time_text(answer.ended_at)
    if answer.first_token_ms is not None:
        record["first_token_ms"] = milliseconds(answer.first_token_ms)
    record["duration_ms"] = milliseconds(answer.duration_ms)
    record["attempt"] = answer.attempt
    if answer.calls:
        record["calls"] = [call_to_record(call) for call in answer.calls]
    _add_circumstances(record, answer)
    return record


def _add_told(record: dict[str, JsonValue], answer: Answer) -> None:
    """Add what the target told besides its text."""
    if answer.output_messages is not None:
        record["output_messages"] = messages_to_json(answer.output_messages)
    if answer.trace is not None:
        record["trace"] = trace_to_json(answer.trace)
    if answer.finish_reason is not None:
        record["finish_reason"] = answer.finish_reason
    if answer.session is not None:
        record["session"] = answer.session
    if answer.usage is not None:
        record["usage"] = usage_to_record(answer.usage)
    if answer.cost_usd is not None:
        record["cost_usd"] = answer.cost_usd
    if answer.billed_usd is not None:
        record["billed_usd"] = answer.billed_usd


def _add_circumstances(record: dict[str, JsonValue], answer: Answer) -> None:
    """Add how it came about, or why it did not."""
    if answer.cached is not None:
        record["cached"] = answer.cached
    if answer.workspace is not None:
        record["workspace"] = answer.workspace
    if answer.exit_code is not None:
        record["exit_code"] = answer.exit_code
    if answer.log_paths:
        record["log_paths"] = answer.log_paths
    if answer.request is not None:
        record["request"] = answer.request
    if answer.error is not None:
        record["error"] = failure_to_record(answer.error)
    if answer.repaired:
        record["repaired"] = True


def record_to_answer(record: JsonObject) -> Answer:
    """Read an answer; unknown keys are ignored. Raises StorageError for a newer schema, ValueError for a broken row."""
    check_schema(record, ANSWER_SCHEMA)
    return Answer(
        slot=read_slot(record),
        answer_key=read_text(record, "answer_key", ""),
        text=read_text(record, "text", ""),
        started_at=read_time(record, "started_at"),
        ended_at=read_time(record, "ended_at"),
        duration_ms=read_number(record, "duration_ms"),
        kind=cast(Literal["answer", "turn"], read_text(record, "kind", "answer")),
        generation=read_integer(record, "generation"),
        attempt=read_integer(record, "attempt"),
        output_messages=messages_from_json(record.get("output_messages")),
        trace=trace_from_json(record.get("trace")),
        finish_reason=optional_text(record, "finish_reason"),
        session=optional_text(record, "session"),
        usage=optional_usage(record),
        cost_usd=optional_number(record, "cost_usd"),
        billed_usd=optional_number(record, "billed_usd"),
        first_token_ms=optional_number(record, "first_token_ms"),
        calls=tuple(record_to_call(call) for call in read_objects(record, "calls")),
        cached=optional_object(record, "cached"),
        workspace=optional_object(record, "workspace"),
        exit_code=optional_integer(record, "exit_code"),
        log_paths=read_texts(record, "log_paths"),
        request=optional_object(record, "request"),
        error=optional_failure(record),
        repaired=record.get("repaired") is True,
        seq=optional_integer(record, "seq"),
    )


def call_to_record(call: CallRecord) -> dict[str, JsonValue]:
    """Return one try of a call as a record."""
    record: dict[str, JsonValue] = {"kind": call.kind}
    if call.status is not None:
        record["status"] = call.status
    record["started_at"] = time_text(call.started_at)
    record["wait_ms"] = milliseconds(call.wait_ms)
    record["duration_ms"] = milliseconds(call.duration_ms)
    if call.request_id is not None:
        record["request_id"] = call.request_id
    if call.usage is not None:
        record["usage"] = usage_to_record(call.usage)
    if call.error is not None:
        record["error"] = call.error
    return record


def record_to_call(record: JsonObject) -> CallRecord:
    """Read one try of a call."""
    return CallRecord(
        kind=read_text(record, "kind"),
        started_at=read_time(record, "started_at"),
        wait_ms=read_number(record, "wait_ms"),
        duration_ms=read_number(record, "duration_ms"),
        status=optional_integer(record, "status"),
        request_id=optional_text(record, "request_id"),
        usage=optional_usage(record),
        error=optional_text(record, "error"),
    )


__all__ = ["answer_to_record", "read_slot", "record_to_answer"]
