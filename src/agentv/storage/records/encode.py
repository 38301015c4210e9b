"""Convert stored values to records: for their lines (docs/reference/run-folder.md) and for exports.

Three things differ between a value and its line: times are in UTC, messages are dicts, and a failure omits fields
whose values follow from the record that contains it. Exports are described in docs/reference/results-and-verdicts.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from agentv.storage.records.json_line import BlobReference, decode, encode, time_text, written_fields
from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure, Stage
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import FilePart, Message
from agentv.types.messages_json import message_to_json, messages_to_json, part_to_json
from agentv.types.moments import to_utc
from agentv.types.records.answer import Answer, Partial
from agentv.types.records.label import Label
from agentv.types.records.result import EXPORT_KEYS, ORIGIN, RAW_REQUEST, REQUEST, CaseResult
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.stored import EVENT_SCHEMA, rounded_ms

N = TypeVar("N", Answer, CaseResult)
_SINGLE_FORM_FIELDS = ("hits", "misses", "reasoning", "expected_aspect_count", "raw_aspects")


def numbered(value: N, *, seq: int, run_id: str) -> N:
    """Return an answer or a result with `seq`, its number in a store, and `run_id`.

    A value without a number is not shared yet and is changed in place, which is faster than a copy of all fields
    (bench/echo_cases.py). A value that another store has numbered is copied.
    """
    if value.seq is not None:
        return replace(value, seq=seq, run_id=run_id)
    force_setattr(value, "seq", seq)
    if value.run_id != run_id:
        force_setattr(value, "run_id", run_id)
    return value


def encodable_answer(answer: Answer) -> Answer:
    """Return an answer ready to be encoded."""
    changes: dict[str, Any] = {}
    if not _has_utc_times(answer):
        changes = {
            "started_at": to_utc(answer.started_at),
            "ended_at": to_utc(answer.ended_at),
            "calls": tuple(replace(call, started_at=to_utc(call.started_at)) for call in answer.calls),
        }
    if answer.output_messages is not None:
        changes["output_messages"] = messages_to_json(answer.output_messages)
    if answer.error is not None:
        changes["error"] = failure_to_record(answer.error)
    if answer.partial is not None:
        changes["partial"] = _encodable_partial(answer.partial, with_trace=True)
    return replace(answer, **changes) if changes else answer


def encodable_result(result: CaseResult, *, with_trace: bool = True) -> CaseResult:
    """Return a result ready to be encoded.

    Without `with_trace`, `trace` and `output_messages` are omitted, also from `partial`: the result's answer
    (`answer_ref`) has them.
    """
    changes: dict[str, Any] = {}
    if result.timestamp.tzinfo is not UTC:
        changes["timestamp"] = to_utc(result.timestamp)
    if not with_trace:
        if result.trace is not None:
            changes["trace"] = None
        if result.output_messages is not None:
            changes["output_messages"] = None
    elif result.output_messages is not None:
        changes["output_messages"] = messages_to_json(result.output_messages)
    if result.error is not None:
        changes["error"] = failure_to_record(result.error)
    if result.partial is not None:
        changes["partial"] = _encodable_partial(result.partial, with_trace=with_trace)
    for each in result.evaluator_results:
        if each.error is not None or each.evaluator_results:
            changes["evaluator_results"] = tuple(map(encodable_evaluator_result, result.evaluator_results))
            break
    return replace(result, **changes) if changes else result


def _encodable_partial(partial: Partial, *, with_trace: bool) -> Partial:
    if not with_trace:
        return replace(partial, output_messages=None, trace=None)
    messages: Any = partial.output_messages
    return partial if messages is None else replace(partial, output_messages=messages_to_json(messages))


def encodable_evaluator_result(result: EvaluatorResult) -> EvaluatorResult:
    """Return an evaluator's result ready to be encoded."""
    changes: dict[str, Any] = {}
    if result.error is not None:
        changes["error"] = failure_to_record(result.error, at="evaluator")
    if result.evaluator_results:
        changes["evaluator_results"] = tuple(map(encodable_evaluator_result, result.evaluator_results))
    return replace(result, **changes) if changes else result


def encodable_case(case: CaseRecord) -> CaseRecord:
    """Return a planned case ready to be encoded."""
    if _are_texts(case.input_messages) and _are_texts(case.expected_messages):
        return case
    return replace(
        case,
        input_messages=case_messages_to_record(case.input_messages),
        expected_messages=case_messages_to_record(case.expected_messages),
    )


def _are_texts(messages: Iterable[Message]) -> bool:
    """Return True for messages of role and text only, which need no conversion: msgspec writes them as dicts."""
    for message in messages:
        if type(message.content) is not str or message.name is not None or message.tool_calls:
            return False
    return True


def case_messages_to_record(messages: Iterable[Message]) -> list[JsonValue]:
    """Return a case's messages as records; attached files have path, hash, size and text."""
    return list(map(_message_to_record, messages))


def _message_to_record(message: Message) -> dict[str, JsonValue]:
    record = message_to_json(message)
    if isinstance(message.content, tuple):
        record["content"] = [
            _file_to_record(part) if isinstance(part, FilePart) else part_to_json(part) for part in message.content
        ]
    return record


def _file_to_record(part: FilePart) -> dict[str, JsonValue]:
    """Return the record of an attached file. Text is included; binary content is a reference to a blob."""
    record: dict[str, JsonValue] = {"type": "file", "path": part.path, "real_path": part.real_path}
    if part.is_guideline:
        record["is_guideline"] = True
    if part.text is None:
        record["binary"] = BlobReference.to(part.sha256, size=part.size, media_type=part.media_type)
    else:
        record |= {"sha256": part.sha256, "bytes": part.size, "media_type": part.media_type, "text": part.text}
    return record


def case_line_key(suite: str, eval_id: str, case_key: str) -> str:
    """Return the key of a line of cases.jsonl: suite, id, and the key of the case's content."""
    return f"{suite}\0{eval_id}\0{case_key}"


def encodable_run(run: RunRecord) -> RunRecord:
    """Return the record of run.json ready to be encoded."""
    return replace(run, created_at=to_utc(run.created_at))


def encodable_label(label: Label) -> Label:
    """Return a label ready to be encoded."""
    return replace(label, time=to_utc(label.time))


def encodable_event(event: EventRecord) -> dict[str, JsonValue]:
    """Return the record of an event; its own fields follow the four common ones and cannot replace them."""
    head: dict[str, JsonValue] = {
        "schema": EVENT_SCHEMA,
        "seq": event.seq,
        "time": time_text(event.time),
        "type": event.type,
    }
    return head | {key: value for key, value in event.fields.items() if key not in head}


def to_record(value: Struct) -> dict[str, Any]:
    """Return a value as the dict of its line. Objects of plug-ins in it are not converted to JSON values."""
    match value:
        case Answer():
            line: Struct = encodable_answer(value)
        case CaseResult():
            line = encodable_result(value)
        case EvaluatorResult():
            line = encodable_evaluator_result(value)
        case CaseRecord():
            line = encodable_case(value)
        case RunRecord():
            line = encodable_run(value)
        case Label():
            line = encodable_label(value)
        case _:
            line = value
    return _record(line)


def _record(value: Struct) -> dict[str, Any]:
    """Return the written fields of a Struct. Durations are rounded, because those in the oldest lines are not."""
    return {
        name: rounded_ms(item) if name.endswith("_ms") and isinstance(item, float) else _plain(item)
        for name, item in written_fields(value).items()
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return _record(value)
    if isinstance(value, datetime):
        return time_text(value)
    if isinstance(value, tuple) and any(isinstance(each, Struct) for each in value):
        return [_plain(each) for each in value]
    return value


def failure_to_record(failure: Failure, *, at: Stage | None = None) -> dict[str, JsonValue]:
    """Return the record of a failure. With `at`, a `stage` equal to `at` and a False `retryable` are omitted."""
    record: dict[str, JsonValue] = {}
    if failure.stage != at:
        record["stage"] = failure.stage
    record["kind"] = failure.kind
    record["message"] = failure.message
    if failure.retryable or at is None:
        record["retryable"] = failure.retryable
    optional: Mapping[str, JsonValue] = {
        "http_status": failure.http_status,
        "retry_after_s": failure.retry_after_s,
        "details": failure.details,
    }
    return record | {key: value for key, value in optional.items() if value is not None}


def _has_utc_times(answer: Answer) -> bool:
    """Return True if all times of an answer are in UTC, so that msgspec writes them with a Z."""
    for call in answer.calls:
        if call.started_at.tzinfo is not UTC:
            return False
    return answer.started_at.tzinfo is UTC and answer.ended_at.tzinfo is UTC


def export_record(result: CaseResult, *, include_trace: bool = False) -> JsonObject:
    """Return a result as exports write it.

    `trace` and `output_messages`, also those of `partial`, are included only with `include_trace`. A result in the
    single form has its evaluator's fields at the top level instead of `evaluator_results` (seed REQ-EVAL-008). A
    request to a judge has both names of the seeds, `evaluator_provider_request` and `evaluator_raw_request`. `origin`
    is where the row was read from. Values from plug-ins that are not JSON are converted as in the run folder.
    """
    return decode(export_line(result, include_trace=include_trace))


def export_line(result: CaseResult, *, include_trace: bool = False) -> bytes:
    """Return `export_record` as a line of JSON without its end."""
    record = to_record(result)
    evaluators = record.pop("evaluator_results", ())
    if not include_trace:
        record.pop("trace", None)
        record.pop("output_messages", None)
        if result.partial is not None:
            record["partial"] = to_record(replace(result.partial, trace=None, output_messages=None))
    if result.single_form:
        record |= _flat_fields(evaluators)
    else:
        record["evaluator_results"] = list(map(_exported_evaluator, evaluators))
    origin = result.origin
    if origin is not None:
        record[ORIGIN] = origin.to_json()
    return encode({key: record[key] for key in EXPORT_KEYS if key in record})


def _exported_evaluator(record: JsonObject) -> JsonObject:
    """Return an evaluator's record with both names of its request, also in its members."""
    exported: dict[str, JsonValue] = {}
    for key, value in record.items():
        exported[key] = value
        if key == REQUEST:
            exported[RAW_REQUEST] = value
    members = record.get("evaluator_results")
    if isinstance(members, Sequence):
        exported["evaluator_results"] = [_exported_evaluator(cast(JsonObject, each)) for each in members]
    return exported


def _flat_fields(evaluators: Sequence[JsonObject]) -> dict[str, JsonValue]:
    if not evaluators:
        return {}
    record = evaluators[0]
    flat = {key: record[key] for key in _SINGLE_FORM_FIELDS if key in record}
    if REQUEST in record:
        flat |= dict.fromkeys((REQUEST, RAW_REQUEST), record[REQUEST])
    if "error" in record:
        flat["evaluator_error"] = record["error"]
    return flat
