"""Types ↔ dicts: the only place that knows the wire shape of what is stored (formats.md, section 4)."""

from agentv.storage.record_answer import answer_to_entry, answer_to_record, record_to_answer
from agentv.storage.record_export import EXPORT_KEYS, export_record
from agentv.storage.record_result import record_to_result, result_to_entry, result_to_record
from agentv.storage.record_run import (
    EventRecord,
    case_name,
    case_name_of_record,
    case_to_entry,
    case_to_record,
    event_to_record,
    record_to_case,
    record_to_event,
    record_to_run,
    run_to_record,
)

__all__ = [
    "EXPORT_KEYS",
    "EventRecord",
    "answer_to_entry",
    "answer_to_record",
    "case_name",
    "case_name_of_record",
    "case_to_entry",
    "case_to_record",
    "event_to_record",
    "export_record",
    "record_to_answer",
    "record_to_case",
    "record_to_event",
    "record_to_result",
    "record_to_run",
    "result_to_entry",
    "result_to_record",
    "run_to_record",
]
