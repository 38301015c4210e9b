"""Judged rows ↔ records: the lines of results.jsonl (formats.md, section 4)."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import cast

from agentv.storage.entry import ALWAYS, Entry
from agentv.storage.record_answer import read_slot
from agentv.storage.record_evaluator import EvaluatorEntry, evaluator_to_entry, read_evaluators
from agentv.storage.record_fields import (
    failure_to_record,
    milliseconds,
    optional_failure,
    optional_integer,
    optional_number,
    optional_object,
    optional_score,
    optional_text,
    optional_texts,
    optional_usage,
    read_integer,
    read_object,
    read_text,
    read_texts,
    read_time,
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
from agentv.types.results import CaseResult, RowStatus, Slot
from agentv.types.usage import Usage


class ResultEntry(Entry):
    """A line of results.jsonl."""

    schema: str
    run_id: str
    seq: int | None = None
    slot: Slot = ALWAYS
    answer_key: str = ""
    score_key: Mapping[str, str] | None = None
    answer_ref: JsonObject | None = None
    timestamp: datetime = ALWAYS
    eval_id: str = ALWAYS
    suite: str = ALWAYS
    dataset: str = ALWAYS
    conversation_id: str | None = None
    tags: Sequence[str] = ()
    metadata: JsonObject | None = None
    target: str = ALWAYS
    trial: int = ALWAYS
    attempt: int = ALWAYS
    generation: int = ALWAYS
    status: str = ALWAYS
    score: float | None = ALWAYS
    verdict: str | None = ALWAYS
    hits: Sequence[str] = ALWAYS
    misses: Sequence[str] = ALWAYS
    reasoning: str | None = None
    expected_aspect_count: int = ALWAYS
    raw_aspects: Sequence[str] | None = None
    candidate_answer: str = ALWAYS
    evaluator_results: Sequence[EvaluatorEntry] = ALWAYS
    trace_summary: JsonObject | None = None
    trace: Sequence[JsonValue] | None = None
    output_messages: Sequence[JsonValue] | None = None
    agent_provider_request: JsonObject | None = None
    lm_provider_request: JsonObject | None = None
    usage_by: JsonObject | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    cached: bool = ALWAYS
    error: JsonObject | None = None
    single_form: bool = False
    file: str = ""
    line: int = 0


def result_to_entry(result: CaseResult, *, with_trace: bool = True) -> ResultEntry:
    """Return a row as results.jsonl has it; what is not known is absent, `score` and `verdict` are null by decision.

    Without `with_trace` the row has no `trace` and `output_messages`: its answer, at `answer_ref`, has them.
    """
    slot = result.slot
    return ResultEntry(
        RESULT_SCHEMA,
        result.run_id,
        result.seq,
        slot,
        result.answer_key,
        result.score_keys or None,
        None if result.answer_seq is None else {"seq": result.answer_seq},
        result.timestamp.astimezone(UTC),
        slot.eval_id,
        slot.suite,
        result.dataset,
        result.conversation_id,
        result.tags or (),
        result.metadata or None,
        slot.target,
        slot.trial,
        result.attempt,
        result.generation,
        result.status,
        result.score,
        result.verdict,
        result.hits,
        result.misses,
        result.reasoning,
        result.expected_aspect_count,
        result.raw_aspects,
        result.candidate_answer,
        list(map(evaluator_to_entry, result.evaluator_results)),
        None if result.trace_summary is None else trace_summary_to_json(result.trace_summary),
        trace_to_json(result.trace) if with_trace else None,
        messages_to_json(result.output_messages) if with_trace else None,
        result.agent_provider_request,
        result.lm_provider_request,
        _usage_by(result) or None,
        result.cost_usd,
        milliseconds(result.duration_ms),
        result.cached,
        None if result.error is None else failure_to_record(result.error),
        result.single_form,
        result.file,
        result.line,
    )


def result_to_record(result: CaseResult, *, with_trace: bool = True) -> dict[str, JsonValue]:
    """Return the same as a dict."""
    return result_to_entry(result, with_trace=with_trace).to_record()


def _usage_by(result: CaseResult) -> dict[str, JsonValue]:
    """Return what target and judge used and cost, as far as it is known."""
    known: dict[str, JsonValue] = {}
    if result.target_usage is not None or result.target_cost_usd is not None:
        known["target"] = _usage_side(result.target_usage, result.target_cost_usd)
    if result.judge_usage is not None or result.judge_cost_usd is not None:
        known["judge"] = _usage_side(result.judge_usage, result.judge_cost_usd)
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
        score=optional_score(record),
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
