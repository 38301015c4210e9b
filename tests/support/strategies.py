"""Strategies for property tests: every stored value of a run."""

from datetime import UTC, datetime
from typing import get_args

from hypothesis import strategies as st

from agentv.types.cases import Unmet
from agentv.types.evaluation import EvaluationResult, EvaluatorResult, EvaluatorStatus, JudgeCall, JudgeRole, Verdict
from agentv.types.failures import FAILURE_KINDS, Failure, Stage
from agentv.types.json_value import JsonObject, JsonValue
from agentv.types.messages import (
    ROLES,
    TRACE_EVENT_TYPES,
    DataPart,
    FilePart,
    Message,
    Part,
    TextPart,
    ToolCall,
    TraceEvent,
    TraceSummary,
)
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer, AnsweredTurn, AnswerRef, Origin, Partial, Rerun, ResultKey
from agentv.types.records.result import CaseResult, RowStatus, Spent, UsageBy
from agentv.types.records.run import CaseRecord, EventRecord, RunRecord
from agentv.types.usage import Usage

texts = st.text(max_size=8)
names = st.text(min_size=1, max_size=8)
counts = st.integers(0, 10**6)
numbers = st.floats(allow_nan=False, allow_infinity=False)
units = st.floats(0, 1)
costs = st.floats(0, 1e9)
milliseconds = st.floats(min_value=0, max_value=10**12).map(lambda value: round(value, 3))
moments = st.datetimes(min_value=datetime(1970, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the strategy adds it


def maybe(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


def tuples(values: st.SearchStrategy, max_size: int = 2) -> st.SearchStrategy:
    return st.lists(values, max_size=max_size).map(tuple)


def _json_values() -> st.SearchStrategy[JsonValue]:
    leaves = st.none() | st.booleans() | st.integers() | numbers | texts
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
        max_leaves=4,
    )


json_values = _json_values()
json_objects: st.SearchStrategy[JsonObject] = st.dictionaries(names, json_values, max_size=2)

usages = st.builds(Usage, counts, counts, counts, counts, counts, counts)
slots = st.builds(ResultKey, names, names, names, counts)
failures = st.builds(
    Failure,
    kind=st.sampled_from(FAILURE_KINDS),
    message=texts,
    stage=st.sampled_from(get_args(Stage)),
    retryable=st.booleans(),
    http_status=maybe(counts),
    retry_after_s=maybe(numbers),
    details=maybe(json_objects),
)
tool_calls = st.builds(
    ToolCall, names, json_values, json_values, maybe(texts), maybe(texts), maybe(st.floats(0, 1e9, allow_nan=False))
)
text_parts = st.builds(TextPart, texts)
data_parts = st.builds(
    DataPart,
    st.sampled_from(["image", "audio", "tool_call", "file"]),
    st.dictionaries(st.sampled_from(["value", "text", "url", "path"]), json_values, max_size=2),
)
file_parts = st.builds(
    FilePart,
    path=names,
    real_path=names,
    text=maybe(texts),
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
    size=counts,
    media_type=st.sampled_from(["image/png", "text/x-python"]),
    is_guideline=st.booleans(),
)


def messages(parts: st.SearchStrategy[Part]) -> st.SearchStrategy[Message]:
    return st.builds(
        Message,
        role=st.sampled_from(ROLES),
        content=maybe(texts | tuples(parts) | json_objects),
        name=maybe(texts),
        tool_calls=tuples(tool_calls),
        tool_call_id=maybe(texts),
        timestamp=maybe(texts),
        metadata=maybe(json_objects),
    )


returned_messages = messages(text_parts | data_parts)
case_messages = messages(text_parts | data_parts | file_parts)
trace_events = st.builds(
    TraceEvent,
    st.sampled_from(TRACE_EVENT_TYPES),
    maybe(texts),
    maybe(texts),
    maybe(texts),
    json_values,
    json_values,
    maybe(texts),
    maybe(json_objects),
)
trace_summaries = st.builds(TraceSummary, counts, tuples(texts), st.dictionaries(texts, counts, max_size=2), counts)
calls = st.builds(
    CallRecord,
    kind=names,
    started_at=moments,
    wait_ms=milliseconds,
    duration_ms=milliseconds,
    status=maybe(counts),
    request_id=maybe(texts),
    usage=maybe(usages),
    cost_usd=maybe(costs),
    estimated=st.booleans(),
    error=maybe(texts),
)
partials = st.builds(
    Partial,
    text=texts,
    reasoning=maybe(texts),
    output_messages=maybe(tuples(returned_messages)),
    trace=maybe(tuples(trace_events)),
    usage=maybe(usages),
    cost_usd=maybe(costs),
    estimated=st.booleans(),
)


answered_turns = st.builds(
    AnsweredTurn,
    text=texts,
    start=counts,
    has_messages=st.booleans(),
    trace=maybe(tuples(trace_events)),
    usage=maybe(usages),
    cost_usd=maybe(costs),
    duration_ms=maybe(milliseconds),
    cached=st.booleans(),
)


@st.composite
def answers(draw: st.DrawFn) -> Answer:
    return draw(
        st.builds(
            Answer,
            slot=slots,
            answer_key=texts,
            text=texts,
            started_at=moments,
            ended_at=moments,
            duration_ms=maybe(milliseconds),
            kind=st.sampled_from(["answer", "turn"]),
            generation=counts,
            rerun=maybe(st.sampled_from(get_args(Rerun))),
            attempt=counts,
            output_messages=maybe(tuples(returned_messages)),
            trace=maybe(tuples(trace_events)),
            finish_reason=maybe(texts),
            reasoning=maybe(texts),
            session=maybe(texts),
            usage=maybe(usages),
            cost_usd=maybe(costs),
            billed_usd=maybe(costs),
            first_token_ms=maybe(milliseconds),
            calls=tuples(calls),
            cached=maybe(json_objects),
            workspace=maybe(json_objects),
            exit_code=maybe(st.integers(-64, 255)),
            log_paths=tuples(texts),
            notes=tuples(texts),
            request=maybe(json_objects),
            error=maybe(failures),
            estimated=st.booleans(),
            partial=maybe(partials),
            repaired=st.booleans(),
            origin=maybe(st.builds(Origin, texts, counts)),
            given=maybe(json_objects),
            turns=tuples(answered_turns),
            seq=maybe(counts),
        )
    )


criterion_results = st.builds(
    EvaluationResult,
    criterion_name=texts,
    score=maybe(numbers | st.booleans() | texts),
    value=maybe(units),
    scale=texts,
    reasoning=maybe(texts),
    evaluator_type=texts,
    error=maybe(texts),
    metadata=maybe(json_objects),
)
judge_calls = st.builds(
    JudgeCall,
    texts,
    st.sampled_from(get_args(JudgeRole)),
    texts,
    maybe(numbers),
    maybe(usages),
    maybe(costs),
    maybe(milliseconds),
    st.booleans(),
)
verdicts = maybe(st.sampled_from(get_args(Verdict)))


no_members = st.just(())


def evaluator_results(members: st.SearchStrategy = no_members) -> st.SearchStrategy[EvaluatorResult]:
    return st.builds(
        EvaluatorResult,
        name=texts,
        type=texts,
        score=units,
        status=st.sampled_from(get_args(EvaluatorStatus)),
        weight=numbers,
        required=st.booleans() | numbers,
        unmet=st.sampled_from(get_args(Unmet)),
        verdict=verdicts,
        hits=tuples(texts),
        misses=tuples(texts),
        reasoning=maybe(texts),
        expected_aspect_count=counts,
        raw_aspects=maybe(tuples(texts)),
        error=maybe(failures),
        results=tuples(criterion_results, 1),
        evaluator_provider_request=maybe(json_objects),
        judge_calls=tuples(judge_calls, 1),
        duration_ms=maybe(milliseconds),
        usage=maybe(usages),
        cost_usd=maybe(costs),
        evaluator_results=members,
    )


spent = st.builds(Spent.of, maybe(usages), maybe(costs), estimated=st.booleans())


@st.composite
def case_results(draw: st.DrawFn) -> CaseResult:
    return draw(
        st.builds(
            CaseResult,
            run_id=texts,
            timestamp=moments,
            slot=slots,
            dataset=texts,
            status=st.sampled_from(get_args(RowStatus)),
            score=maybe(units),
            verdict=verdicts,
            answer_key=texts,
            score_keys=st.dictionaries(texts, texts, max_size=2),
            answer_ref=maybe(st.builds(AnswerRef, counts)),
            generation=counts,
            rerun=maybe(st.sampled_from(get_args(Rerun))),
            rescored=counts,
            attempt=counts,
            conversation_id=maybe(texts),
            session_id=maybe(texts),
            tags=tuples(texts),
            metadata=json_objects,
            hits=tuples(texts),
            misses=tuples(texts),
            reasoning=maybe(texts),
            expected_aspect_count=counts,
            raw_aspects=maybe(tuples(texts)),
            candidate_answer=texts,
            empty_answer=st.booleans(),
            answered_by=maybe(texts),
            evaluator_results=tuples(evaluator_results(tuples(evaluator_results(), 1)), 1),
            single_form=st.booleans(),
            trace_summary=maybe(trace_summaries),
            trace=maybe(tuples(trace_events, 1)),
            output_messages=maybe(tuples(returned_messages, 1)),
            agent_provider_request=maybe(json_objects),
            lm_provider_request=maybe(json_objects),
            usage_by=st.builds(UsageBy.of, spent, spent),
            cost_usd=maybe(costs),
            duration_ms=maybe(milliseconds),
            cached=st.booleans(),
            error=maybe(failures),
            partial=maybe(partials),
            file=texts,
            line=counts,
            part=counts,
            line_digest=texts,
            trace_id=texts,
            span_id=texts,
            seq=maybe(counts),
        )
    )


case_records = st.builds(
    CaseRecord,
    case_key=names,
    suite=names,
    eval_id=names,
    session_id=maybe(texts),
    file=texts,
    line=counts,
    question=texts,
    input_messages=tuples(case_messages),
    expected_outcome=texts,
    expected_messages=tuples(case_messages, 1),
    reference_answer=maybe(texts),
    criteria=tuples(json_objects),
    evaluators=json_values,
    files=tuples(json_objects),
    tags=tuples(texts),
    metadata=json_objects,
    turns=tuples(json_objects),
    turn_rules=json_objects,
    incomplete=maybe(texts),
)
run_records = st.builds(
    RunRecord,
    run_id=names,
    created_at=moments,
    agentv_version=texts,
    plan=json_objects,
    name=maybe(texts),
    tags=tuples(texts),
    git=maybe(json_objects),
    parents=tuples(texts),
)
events = st.builds(
    EventRecord,
    type=names,
    time=moments,
    fields=json_objects.map(
        lambda fields: {key: value for key, value in fields.items() if key not in ("schema", "seq", "time", "type")}
    ),
    seq=counts,
)
