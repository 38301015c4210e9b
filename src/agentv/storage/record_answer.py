"""Answers ↔ records: the lines of answers.jsonl (formats.md, section 4)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Literal, cast

from agentv.storage.entry import ALWAYS, Entry
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
)
from agentv.storage.schema import ANSWER_SCHEMA, check_schema
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages_json import messages_from_json, messages_to_json, trace_from_json, trace_to_json
from agentv.types.provider import CallRecord
from agentv.types.results import Answer, Slot
from agentv.types.usage import Usage


def read_slot(record: JsonObject) -> Slot:
    """Return the slot of a row; an exported row has its fields at the top."""
    fields = optional_object(record, "slot") or record
    return Slot(
        suite=read_text(fields, "suite", ""),
        eval_id=read_text(fields, "eval_id"),
        target=read_text(fields, "target", ""),
        trial=read_integer(fields, "trial"),
    )


class CallEntry(Entry):
    """One try of a call."""

    kind: str
    status: int | None = None
    started_at: datetime = ALWAYS
    wait_ms: float | None = ALWAYS
    duration_ms: float | None = ALWAYS
    request_id: str | None = None
    usage: Usage | None = None
    error: str | None = None


class AnswerEntry(Entry):
    """A line of answers.jsonl."""

    schema: str
    run_id: str
    seq: int | None = None
    slot: Slot = ALWAYS
    generation: int = ALWAYS
    answer_key: str = ALWAYS
    kind: str = ALWAYS
    text: str = ALWAYS
    output_messages: Sequence[JsonValue] | None = None
    trace: Sequence[JsonValue] | None = None
    finish_reason: str | None = None
    session: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    billed_usd: float | None = None
    started_at: datetime = ALWAYS
    ended_at: datetime = ALWAYS
    first_token_ms: float | None = None
    duration_ms: float | None = ALWAYS
    attempt: int = ALWAYS
    calls: Sequence[CallEntry] = ()
    cached: JsonObject | None = None
    workspace: JsonObject | None = None
    exit_code: int | None = None
    log_paths: Sequence[str] = ()
    request: JsonObject | None = None
    error: JsonObject | None = None
    repaired: bool = False


def answer_to_entry(answer: Answer, *, run_id: str) -> AnswerEntry:
    """Return an answer as the line of answers.jsonl has it; what is not known is absent."""
    return AnswerEntry(
        ANSWER_SCHEMA,
        run_id,
        answer.seq,
        answer.slot,
        answer.generation,
        answer.answer_key,
        answer.kind,
        answer.text,
        None if answer.output_messages is None else messages_to_json(answer.output_messages),
        None if answer.trace is None else trace_to_json(answer.trace),
        answer.finish_reason,
        answer.session,
        answer.usage,
        answer.cost_usd,
        answer.billed_usd,
        answer.started_at.astimezone(UTC),
        answer.ended_at.astimezone(UTC),
        milliseconds(answer.first_token_ms),
        milliseconds(answer.duration_ms),
        answer.attempt,
        list(map(call_to_entry, answer.calls)) if answer.calls else (),
        answer.cached,
        answer.workspace,
        answer.exit_code,
        answer.log_paths or (),
        answer.request,
        None if answer.error is None else failure_to_record(answer.error),
        answer.repaired,
    )


def answer_to_record(answer: Answer, *, run_id: str) -> dict[str, JsonValue]:
    """Return the same as a dict."""
    return answer_to_entry(answer, run_id=run_id).to_record()


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


def call_to_entry(call: CallRecord) -> CallEntry:
    """Return one try of a call as a line has it."""
    return CallEntry(
        call.kind,
        call.status,
        call.started_at.astimezone(UTC),
        milliseconds(call.wait_ms),
        milliseconds(call.duration_ms),
        call.request_id,
        call.usage,
        call.error,
    )


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
