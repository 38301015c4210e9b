"""Runs, their events and their planned cases ↔ records: run.json, events.jsonl and cases.jsonl."""

from collections.abc import Mapping
from datetime import datetime

from agentv.storage.record_fields import (
    optional_object,
    optional_text,
    read_integer,
    read_object,
    read_objects,
    read_text,
    read_texts,
    read_time,
    time_text,
)
from agentv.storage.record_messages import case_messages_from_record, case_messages_to_record
from agentv.storage.schema import CASE_SCHEMA, EVENT_SCHEMA, RUN_SCHEMA, check_schema
from agentv.types.dataclass import dataclass
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import CaseRecord, RunRecord


@dataclass(frozen=True, slots=True)
class EventRecord:
    """Something that happened to a run. Types that are not known are kept as they are; readers skip them."""

    type: str
    time: datetime
    fields: JsonObject
    seq: int


def run_to_record(run: RunRecord) -> dict[str, JsonValue]:
    """Return what run.json says."""
    record: dict[str, JsonValue] = {
        "schema": RUN_SCHEMA,
        "run_id": run.run_id,
        "name": run.name,
        "tags": run.tags or None,
        "created_at": time_text(run.created_at),
        "agentv_version": run.agentv_version,
        "plan": run.plan,
        "git": run.git,
        "parents": run.parents or None,
    }
    return {key: value for key, value in record.items() if value is not None}


def record_to_run(record: JsonObject) -> RunRecord:
    """Read run.json; unknown keys are ignored. Raises StorageError for a newer schema, ValueError when broken."""
    check_schema(record, RUN_SCHEMA)
    return RunRecord(
        run_id=read_text(record, "run_id"),
        created_at=read_time(record, "created_at"),
        agentv_version=read_text(record, "agentv_version", ""),
        plan=read_object(record, "plan"),
        name=optional_text(record, "name"),
        tags=read_texts(record, "tags"),
        git=optional_object(record, "git"),
        parents=read_texts(record, "parents"),
    )


def event_to_record(event: EventRecord) -> dict[str, JsonValue]:
    """Return a line of events.jsonl: the event's own fields stand beside `type` and cannot replace the first four."""
    head: dict[str, JsonValue] = {
        "schema": EVENT_SCHEMA,
        "seq": event.seq,
        "time": time_text(event.time),
        "type": event.type,
    }
    return head | {key: value for key, value in event.fields.items() if key not in head}


def record_to_event(record: JsonObject) -> EventRecord:
    """Read a line of events.jsonl."""
    check_schema(record, EVENT_SCHEMA)
    fields = {key: value for key, value in record.items() if key not in ("schema", "seq", "time", "type")}
    return EventRecord(read_text(record, "type"), read_time(record, "time"), fields, read_integer(record, "seq"))


def case_to_record(case: CaseRecord) -> dict[str, JsonValue]:
    """Return a planned case as cases.jsonl has it."""
    record: dict[str, JsonValue] = {
        "schema": CASE_SCHEMA,
        "case_key": case.case_key,
        "suite": case.suite,
        "eval_id": case.eval_id,
        "file": case.file,
        "line": case.line,
        "question": case.question,
        "input_messages": case_messages_to_record(case.input_messages),
        "expected_outcome": case.expected_outcome,
        "expected_messages": case_messages_to_record(case.expected_messages),
    }
    if case.reference_answer is not None:
        record["reference_answer"] = case.reference_answer
    record["criteria"] = case.criteria
    if case.evaluators is not None:
        record["evaluators"] = case.evaluators
    record["files"] = case.files
    record["tags"] = case.tags
    record["metadata"] = case.metadata
    return record


def case_name(suite: str, eval_id: str, case_key: str) -> str:
    """Return what tells one line of cases.jsonl from another: where the case stands, and its content's key."""
    return f"{suite}\0{eval_id}\0{case_key}"


def case_name_of_record(record: JsonObject) -> str:
    """Return the same from a line of cases.jsonl."""
    return case_name(*(str(record.get(key, "")) for key in ("suite", "eval_id", "case_key")))


def record_to_case(record: JsonObject) -> CaseRecord:
    """Read a planned case; unknown keys are ignored."""
    check_schema(record, CASE_SCHEMA)
    metadata = record.get("metadata")
    return CaseRecord(
        case_key=read_text(record, "case_key"),
        suite=read_text(record, "suite"),
        eval_id=read_text(record, "eval_id"),
        file=read_text(record, "file", ""),
        line=read_integer(record, "line"),
        question=read_text(record, "question", ""),
        input_messages=case_messages_from_record(record.get("input_messages")),
        expected_outcome=read_text(record, "expected_outcome", ""),
        expected_messages=case_messages_from_record(record.get("expected_messages")),
        reference_answer=optional_text(record, "reference_answer"),
        criteria=read_objects(record, "criteria"),
        evaluators=record.get("evaluators"),
        files=read_objects(record, "files"),
        tags=read_texts(record, "tags"),
        metadata=metadata if isinstance(metadata, Mapping) else {},
    )
