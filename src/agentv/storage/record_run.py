"""Runs, their events and their planned cases ↔ records: run.json, events.jsonl and cases.jsonl."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from agentv.storage.entry import ALWAYS, Entry
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
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.results import CaseRecord, RunRecord


class EventRecord(Struct, frozen=True):
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


class CaseEntry(Entry):
    """A line of cases.jsonl."""

    schema: str
    case_key: str
    suite: str
    eval_id: str
    file: str
    line: int
    question: str
    input_messages: Sequence[JsonValue]
    expected_outcome: str
    expected_messages: Sequence[JsonValue]
    reference_answer: str | None = None
    criteria: Sequence[JsonObject] = ALWAYS
    evaluators: JsonValue = None
    files: Sequence[JsonObject] = ALWAYS
    tags: Sequence[str] = ALWAYS
    metadata: JsonObject = ALWAYS


def case_to_entry(case: CaseRecord) -> CaseEntry:
    """Return a planned case as cases.jsonl has it."""
    return CaseEntry(
        CASE_SCHEMA,
        case.case_key,
        case.suite,
        case.eval_id,
        case.file,
        case.line,
        case.question,
        case_messages_to_record(case.input_messages),
        case.expected_outcome,
        case_messages_to_record(case.expected_messages),
        case.reference_answer,
        case.criteria,
        case.evaluators,
        case.files,
        case.tags,
        case.metadata,
    )


def case_to_record(case: CaseRecord) -> dict[str, JsonValue]:
    """Return the same as a dict."""
    return case_to_entry(case).to_record()


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
