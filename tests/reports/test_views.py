"""Looking into a stored run: the rows, and everything about one of them."""

from msgspec.structs import replace
from tests.reports.rows import FAILED, HOSTILE, HOSTILE_TEXT, UNANSWERED
from tests.support.stored import ANSWER, CASE, CONTAINS, JUDGE, NOON

from agentv.reports.run.views import CaseView, fold_trials
from agentv.reports.text.printable import printable
from agentv.reports.text.signs import ASCII, in_colour
from agentv.reports.text.width import display_width
from agentv.types.evaluation import EvaluationResult
from agentv.types.failures import Failure
from agentv.types.messages import TraceEvent
from agentv.types.provider import CallRecord
from agentv.types.records.answer import AnswerRef
from agentv.types.records.label import Label

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


def test_trials_with_the_same_answer_are_shown_once() -> None:
    trials = [replace(FAILED, slot=replace(FAILED.slot, trial=number)) for number in range(4)]
    trials[1] = replace(trials[1], candidate_answer="You have 14 days.")
    trials[3] = replace(trials[3], duration_ms=2_500.0)
    first, second = (view.render() for view in fold_trials(CaseView(each) for each in trials))
    assert first.splitlines()[:2] == [
        "✗ refund-7 · agent-v2: fail, score 0.33  (evals/refunds.yaml:12)",
        "  trials 1, 3 and 4 gave this answer",
    ]
    assert (first.count("We will look into it.\n"), "\ntrial 4: took 2.5 s, target:" in first) == (1, True)
    assert second.startswith("✗ refund-7 · agent-v2 trial 2: fail")
    assert "trials" not in second


def test_trials_with_other_scores_steps_or_labels_are_not_folded() -> None:
    other = replace(FAILED, slot=replace(FAILED.slot, trial=1))
    judged = replace(other, evaluator_results=(replace(CONTAINS, name="other"),))
    answer = replace(ANSWER, output_messages=None)
    label = Label(
        slot=other.slot,
        answer_key="v1:aa",
        answer_ref=AnswerRef(1),
        criterion="polite",
        score=1.0,
        annotator="me",
        time=NOON,
    )
    for first, second in (
        (CaseView(FAILED), CaseView(judged)),
        (CaseView(FAILED, answer=ANSWER), CaseView(other, answer=answer)),
        (CaseView(FAILED), CaseView(other, labels=(label,))),
        (CaseView(FAILED), CaseView(replace(other, slot=replace(other.slot, target="b")))),
    ):
        assert len(list(fold_trials((first, second)))) == 2
