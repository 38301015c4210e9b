"""Looking into a stored run: the rows, and everything about one of them."""

from msgspec.structs import replace
from tests.reports.rows import FAILED, HOSTILE, HOSTILE_TEXT, PASSED, UNANSWERED
from tests.support.stored import ANSWER, CASE, CONTAINS, JUDGE, NOON, RUN

from agentv.reports.run.views import CaseView, RunView
from agentv.reports.text.printable import printable
from agentv.reports.text.signs import ASCII, in_colour
from agentv.reports.text.width import display_width
from agentv.types.evaluation import EvaluationResult
from agentv.types.failures import Failure
from agentv.types.messages import TraceEvent
from agentv.types.provider import CallRecord

FAILED_VIEW = """\
✗ refund-7 · agent-v2: fail, score 0.33  (evals/refunds.yaml:12)

question
│ May I return order 7?

expected outcome
│ Refund granted within policy

reference answer
│ You have 30 days.

answer
│ We will look into it.

contains (contains)  0.00  fail
│ - expected "30 days", got "We will look into it."

tone (llm_judge)  1.00  pass  weight 0.5
│ + polite
│ polite = 5: very
│ short: error: no reply
│ Friendly throughout.
  member (contains)  0.00  fail  weight 2  required
  │ - expected "30 days", got "We will look into it."

second (llm_judge)  error  weight 0.5
│ error (judge_error): no JSON in the reply
│ Friendly throughout.

transcript
│ lookup_order({"id":7}) -> {"status":"paid"}
│ assistant: We will look into it.

took 1.5 s
target: 150 tokens, cost $0.0021
judges: 100 tokens, cost $0.0004
"""
HOSTILE_VIEW = """\
x 日本語\\x1b[2J · agent-v2 trial 3: fail, score 0.00
  (evals/refunds.yaml:12)

question
| red \\x1b]0;title\\x07
| ::error::gotcha
| \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b

expected outcome
| Refund granted within policy

answer
| red \\x1b]0;title\\x07
| ::error::gotcha
| \\u202eevil\\u202c 👩‍👩‍👧 家族 100%, a:b

contains (contains)  0.00  fail
| - red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧
| 家族 100%, a:b

took 1.5 s
target: 150 tokens, cost $0.0021
judges: 100 tokens, cost $0.0004
"""
UNANSWERED_VIEW = """\
! order-9 · agent-v2: error  (evals/refunds.yaml:40)

question
│ May I return order 7?

expected outcome
│ Refund granted within policy

reference answer
│ You have 30 days.

error (server_error at target, HTTP 503)
│ HTTP 503 after 3 attempts

took 12.4 s
target: 150 tokens, cost $0.0021
judges: 100 tokens, cost $0.0004
attempts: rate_limited, server_error, server_error
log: a.log
"""
ROWS = """\
run 20260131T120000-7f3a2b  nightly  finished  2026-01-31 12:00 UTC
4 results: 1 pass, 2 fail, 1 error

✗ refund-7                 agent-v2         0.33  contains: expected "30 days",…
✗ 日本語\\x1b[2J trial 3    agent-v2         0.00  contains: red \\x1b]0;title\\x0…
! order-9                  agent-v2               error target: HTTP 503 after …
✓ refund-7                 agent-v2         1.00\
"""


def test_a_failed_case() -> None:
    judge = replace(
        JUDGE,
        results=(
            EvaluationResult("polite", 5, 1.0, "likert5", "very"),
            EvaluationResult("short", None, error="no reply"),
        ),
        evaluator_results=(replace(CONTAINS, name="member", required=True, weight=2.0),),
    )
    broken = replace(
        JUDGE, name="second", status="error", error=Failure("judge_error", "no JSON in the reply"), hits=()
    )
    row = replace(FAILED, evaluator_results=(CONTAINS, judge, broken))
    assert CaseView(row, CASE, ANSWER).render() == FAILED_VIEW


def test_a_hostile_case_without_unicode() -> None:
    case = replace(CASE, question=HOSTILE_TEXT, reference_answer=None)
    assert CaseView(HOSTILE, case, None, width=60, signs=ASCII).render() == HOSTILE_VIEW


def test_a_case_without_an_answer_shows_the_tries_and_the_error() -> None:
    tries = tuple(CallRecord(kind=kind, started_at=NOON) for kind in ("rate_limited", "server_error", "server_error"))
    answer = replace(ANSWER, text="", output_messages=None, calls=tries, error=UNANSWERED.error, log_paths=("a.log",))
    assert CaseView(UNANSWERED, CASE, answer).render() == UNANSWERED_VIEW


def test_a_hostile_case_reaches_neither_terminal_nor_command_lines() -> None:
    case = replace(CASE, question=HOSTILE_TEXT, expected_outcome=HOSTILE_TEXT, reference_answer=HOSTILE_TEXT)
    answer = replace(
        ANSWER, output_messages=None, trace=(TraceEvent("tool_result", name="\x1b[2J", text=HOSTILE_TEXT),)
    )
    text = CaseView(HOSTILE, case, answer).render()
    assert printable(text) == text
    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert all(display_width(line) <= 80 for line in text.splitlines())
    assert printable(CaseView(HOSTILE, case, answer, paint=in_colour).render()) == text


def test_the_rows_of_a_run() -> None:
    view = RunView(width=80)
    head = view.head(RUN, state="finished", counts={"pass": 1, "fail": 2, "error": 1})
    assert "\n".join([head, *view.rows([FAILED, HOSTILE, UNANSWERED, PASSED])]) == ROWS


def test_names_of_rows_are_never_cut() -> None:
    long = "a-prompt-with-a-very-long-name-" * 2
    rows = [replace(FAILED, slot=replace(FAILED.slot, prompt=f"{long}{end}"), prompt=f"{long}{end}") for end in "ab"]
    first, second = RunView(width=60).rows(rows)
    assert (f"agent-v2 · {long}a" in first, f"agent-v2 · {long}b" in second) == (True, True)


def test_rows_are_not_cut_without_a_width() -> None:
    (line,) = RunView(width=None).rows([FAILED])
    assert line.endswith('contains: expected "30 days", got "We will look into it."')
