"""One example of each stored record of a run; keywords change its fields."""

from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from agentv.types.evaluation import EvaluatorResult
from agentv.types.failures import Failure
from agentv.types.messages import Message, ToolCall, TraceSummary
from agentv.types.provider import CallRecord
from agentv.types.records.answer import Answer, AnswerRef, ResultKey
from agentv.types.records.result import CaseResult, Spent, UsageBy
from agentv.types.records.run import CaseRecord, RunRecord
from agentv.types.usage import Usage

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SLOT = ResultKey("evals/refunds.yaml", "refund-7", "agent-v2")

ANSWER = Answer(
    slot=SLOT,
    answer_key="v1:aa",
    text="We will look into it.",
    started_at=NOON,
    ended_at=NOON + timedelta(seconds=1.5),
    duration_ms=1500.0,
    output_messages=(
        Message("assistant", tool_calls=(ToolCall("lookup_order", {"id": 7}, {"status": "paid"}),)),
        Message("assistant", "We will look into it."),
    ),
    usage=Usage(input=120, output=30, total=150, requests=1),
    cost_usd=0.0021,
    calls=(CallRecord(kind="ok", started_at=NOON, duration_ms=1500.0, status=200),),
    request={"model": "small"},
)

CONTAINS = EvaluatorResult(
    name="contains",
    type="contains",
    score=0.0,
    verdict="fail",
    misses=('expected "30 days", got "We will look into it."',),
    duration_ms=0.2,
)
JUDGE = EvaluatorResult(
    name="tone",
    type="llm_judge",
    score=1.0,
    verdict="pass",
    weight=0.5,
    hits=("polite",),
    reasoning="Friendly throughout.",
    evaluator_provider_request={"userPrompt": "Is it polite?", "systemPrompt": "Answer in JSON."},
    usage=Usage(input=80, output=20, total=100, requests=1),
    cost_usd=0.0004,
)

RESULT = CaseResult(
    run_id="20260131T120000-7f3a2b",
    timestamp=NOON + timedelta(seconds=2),
    slot=SLOT,
    dataset="refunds",
    status="fail",
    score=1 / 3,
    verdict="fail",
    answer_key="v1:aa",
    score_keys={"contains": "v1:bb", "tone": "v1:cc"},
    tags=("refund",),
    metadata={"difficulty": "hard"},
    hits=("polite",),
    misses=CONTAINS.misses,
    reasoning="contains: missed | tone: Friendly throughout.",
    expected_aspect_count=2,
    candidate_answer=ANSWER.text,
    evaluator_results=(CONTAINS, JUDGE),
    trace_summary=TraceSummary(2, ("lookup_order",), {"lookup_order": 1}, 0),
    lm_provider_request={"model": "small"},
    usage_by=UsageBy.of(Spent.of(ANSWER.usage, 0.0021), Spent.of(JUDGE.usage, 0.0004)),
    cost_usd=0.0025,
    duration_ms=1500.0,
    file="evals/refunds.yaml",
    line=12,
)

CASE = CaseRecord(
    case_key="v1:dd",
    suite="evals/refunds.yaml",
    eval_id="refund-7",
    file="evals/refunds.yaml",
    line=12,
    question="May I return order 7?",
    input_messages=(Message("user", "May I return order 7?"),),
    expected_outcome="Refund granted within policy",
    expected_messages=(Message("assistant", "You have 30 days."),),
    reference_answer="You have 30 days.",
    criteria=(),
    evaluators=[{"name": "contains", "type": "contains", "value": "30 days"}],
    files=(),
    tags=("refund",),
    metadata={"difficulty": "hard"},
)

RUN = RunRecord(
    run_id="20260131T120000-7f3a2b",
    created_at=NOON,
    agentv_version="0.1.0",
    plan={"planned": 2, "seed": 0},
    name="nightly",
)


def make_answer(**changes: Any) -> Answer:
    return replace(ANSWER, **changes)


def make_result(**changes: Any) -> CaseResult:
    return replace(RESULT, **changes)


def make_case(**changes: Any) -> CaseRecord:
    return replace(CASE, **changes)


def make_run(**changes: Any) -> RunRecord:
    return replace(RUN, **changes)


def at_noon() -> datetime:
    """Return a fixed time, as a clock."""
    return NOON


JUDGE_FAILED = Failure("judge_error", 'no "JSON"', stage="evaluator")


def rerun_results() -> list[CaseResult]:
    """Return results of every kind that a slot may have several of."""
    a, b, c, d, e, f = (replace(make_result().slot, eval_id=name) for name in "abcdef")
    failed: dict[str, Any] = {"status": "error", "score": None, "verdict": None}
    broken = Failure("server_error", "HTTP 503", stage="target")
    return [
        make_result(slot=a, answer_ref=AnswerRef(0)),
        make_result(slot=b, answer_ref=AnswerRef(1), error=broken, **failed),
        make_result(slot=c, answer_ref=AnswerRef(2), error=JUDGE_FAILED, **failed),
        make_result(slot=d, answer_ref=AnswerRef(3)),
        make_result(slot=a, generation=1, answer_ref=AnswerRef(4), status="pass", verdict="pass"),
        make_result(slot=a, generation=2, answer_ref=AnswerRef(5), status="pass", verdict="pass", rerun="failed"),
        make_result(slot=b, generation=1, answer_ref=AnswerRef(6), status="pass", verdict="pass"),
        make_result(slot=b, generation=2, answer_ref=AnswerRef(7)),
        make_result(slot=c, generation=1, answer_ref=AnswerRef(8), status="pass", verdict="pass"),
        make_result(slot=c, generation=2, answer_ref=AnswerRef(2), status="pass", verdict="borderline"),
        make_result(slot=d, generation=1, answer_ref=AnswerRef(9), answer_key="edited", status="pass", verdict="pass"),
        make_result(slot=e, status="skipped", verdict=None, score=None, answer_ref=None, answer_key=""),
        make_result(slot=f, status="skipped", verdict=None, score=None, answer_ref=AnswerRef(10)),
        make_result(slot=f, generation=1, answer_ref=AnswerRef(11), status="pass", verdict="pass"),
    ]
