"""Rows and reports as people meet them, hostile ones among them."""

from msgspec.structs import replace
from tests.reports.outcomes import listed
from tests.support.stored import CONTAINS, JUDGE, RUN, make_result

from agentv.types.events import RunStarted
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey
from agentv.types.results import RunReport, RunVerdict
from agentv.types.summaries import EvaluatorSummary, GroupSummary, Interval, TargetSummary, TrialSummary
from agentv.types.usage import Usage

HOSTILE_TEXT = "\x1b[31mred\x1b[0m \x1b]0;title\x07\n::error::gotcha\r\n\u202eevil\u202c 👩‍👩‍👧 家族 100%, a:b"
FAILED = make_result()
HOSTILE = make_result(
    slot=ResultKey("evals/refunds.yaml", "日本語\x1b[2J", "agent-v2", trial=2),
    score=0.0,
    evaluator_results=(replace(CONTAINS, misses=(HOSTILE_TEXT,)),),
    candidate_answer=HOSTILE_TEXT,
)
UNANSWERED = make_result(
    slot=ResultKey("evals/refunds.yaml", "order-9", "agent-v2"),
    status="error",
    score=None,
    verdict=None,
    evaluator_results=(),
    candidate_answer="",
    error=Failure("server_error", "HTTP 503 after 3 attempts", http_status=503),
    duration_ms=12_400.0,
    line=40,
)
PASSED = make_result(status="pass", score=1.0, verdict="pass", evaluator_results=(JUDGE,), misses=())

STARTED = RunStarted(
    run_id=RUN.run_id,
    planned=1440,
    suites=("refunds",),
    targets=("agent-v1", "agent-v2"),
    workers=16,
    folder=None,
    cases=240,
    trials=3,
)

_USAGE = Usage(input=120_000, output=30_000, total=150_000, requests=240)
REPORT = RunReport(
    run_id=RUN.run_id,
    state="finished",
    planned=1440,
    targets=(
        TargetSummary(
            "agent-v1", {"pass": 402, "borderline": 31, "fail": 124, "error": 4}, 0.8124, 402 / 557,
            0.84, None, _USAGE, _USAGE, 1.2, 4.5,
            pass_rate_interval=Interval(0.6831, 0.7577, "clustered-wilson"),
            mean_interval=Interval(0.7812, 0.8391, "scaled-wilson"),
            latency_median_interval=Interval(1.1, 1.3, "order-statistics"),
            trials=(
                TrialSummary(1, 240, 0.722, 0.722),
                TrialSummary(
                    3,
                    180,
                    0.901,
                    0.503,
                    Interval(0.849, 0.937, "scaled-wilson"),
                    Interval(0.43, 0.576, "scaled-wilson"),
                ),
            ),
        ),
        TargetSummary(
            "agent-v2-with-a-long-name", {"pass": 2, "fail": 1}, 2 / 3, 2 / 3, 0.0, 0.0, Usage(), Usage(), 0.0034, 75.0
        ),
    ),
    evaluators=(
        EvaluatorSummary(
            "contains", "contains", 560, 0.81, 0,
            mean_interval=Interval(0.775, 0.841, "scaled-wilson"),
            pass_rate=0.75,
            pass_rate_interval=Interval(0.712, 0.784, "wilson"),
        ),
        EvaluatorSummary("tone", "llm_judge", 553, 0.9, 7),
    ),
    histogram=(1, 0, 0, 5, 9, 20, 31, 100, 0, 402),
    verdict=RunVerdict(1, "FAIL: 404 of 560 judged results passed (72.14 %). 4 results with errors."),
    failing=(FAILED, HOSTILE, UNANSWERED),
    failing_total=160,
    cases=listed((FAILED, HOSTILE, UNANSWERED), question="How long?", expected="30 days")["cases"],
    cases_total=140,
    cases_distinct=140,
    flaky=("refund-3 (agent-v1)",),
    notes=("the price of 'small' is not known",),
    duration_s=161.0,
    folder="/project/.agentv/runs/20260131T120000-7f3a2b",
    groups=(GroupSummary("tag", "refund", {"pass": 3, "fail": 1, "error": 1}, 0.75, 0.75),),
)  # fmt: skip
