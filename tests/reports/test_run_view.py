"""A stored run as a list of cases, each with the prompts and targets that did not pass."""

from msgspec.structs import replace
from tests.reports.rows import FAILED, HOSTILE, PASSED, UNANSWERED
from tests.support.stored import CONTAINS, JUDGE, RUN

from agentv.reports.run.cell_labels import CellLabels
from agentv.reports.run.row_text import RowLabels
from agentv.reports.run.run_view import ListedCase, RunView
from agentv.reports.text.width import display_width
from agentv.types.records.result import CaseResult
from agentv.types.results import CaseOutcome

QUESTION = "Until when can I return the scarf from order 7, and who pays for the parcel?"
ONE_TARGET = """\
run 20260131T120000-7f3a2b  nightly  finished  2026-01-31 12:00 UTC
4 results of agent-v2: 1 pass, 2 fail, 1 error

  state  case           score
✗ fail   refund-7       0.33   Until when can I… 7, and who pays for the parcel?
    contains: expected "30 days", got "We will look into it."
✗ fail   日本語\\x1b[2J  0.00
    contains: red \\x1b]0;title\\x07 ::error::gotcha \\u202eevil\\u202c 👩‍👩‍👧 家族 100…
! error  order-9
    target: HTTP 503 after 3 attempts (12.4 s)
✓ pass   refund-7       1.00   Until when can I… 7, and who pays for the parcel?\
"""
SEVERAL = """\
  state  case      passed  score
✗ fail   refund-7  5 of 9  0.33   Until when can …, and who pays for the parcel?
  ✗ fail   small · plain                0 of 3  0.33   contains: expected "30 d…
  ! error  small · polite-and-friendly  2 of 3         target: HTTP 503 after 3…
✓ pass   refund-7  6 of 6  1.00\
"""


def outcome(row: CaseResult, target: str, prompt: str | None, *, passed: int = 0, results: int = 1) -> CaseOutcome:
    slot = replace(row.slot, target=target, prompt=prompt)
    return CaseOutcome(replace(row, slot=slot, prompt=prompt), failed=results - passed, results=results)


def lines(view: RunView, cases: list[ListedCase], *, trials: bool = False) -> list[str]:
    names = [each.name for case in cases for each in case.outcomes]
    targets = list(dict.fromkeys(name.target for name in names))
    prompts = list(dict.fromkeys(name.prompt for name in names if name.prompt is not None))
    return list(view.cases(cases, RowLabels(), view.cell_labels(targets, prompts, has_trials=trials)))


def test_a_run_with_one_target_has_a_line_for_each_case_and_its_reason() -> None:
    view = RunView(width=80)
    head = view.head(RUN, state="finished", counts={"pass": 1, "fail": 2, "error": 1}, targets=("agent-v2",))
    cases = [
        ListedCase((CaseOutcome(row),), passed, 1, question)
        for row, passed, question in (
            (FAILED, 0, QUESTION),
            (HOSTILE, 0, ""),
            (UNANSWERED, 0, ""),
            (PASSED, 1, QUESTION),
        )
    ]
    assert "\n".join([head, *lines(view, cases)]) == ONE_TARGET


def test_prompts_and_targets_that_did_not_pass_have_a_line() -> None:
    bad = ListedCase(
        (
            outcome(FAILED, "small", "plain", results=3),
            outcome(UNANSWERED, "small", "polite-and-friendly", passed=2, results=3),
            outcome(PASSED, "large", "plain", passed=3, results=3),
        ),
        5,
        9,
        QUESTION,
    )
    good = ListedCase((outcome(PASSED, "large", "plain", passed=3, results=3),), 6, 6)
    assert "\n".join(lines(RunView(width=80), [bad, good], trials=True)) == SEVERAL
    full = lines(RunView(width=None, is_full=True), [bad, good], trials=True)
    assert "  ✓ pass   large · plain                3 of 3  1.00" in full


def test_names_are_cut_only_where_they_still_differ() -> None:
    long = "a-prompt-with-a-very-long-name-" * 2
    cut = CellLabels.of(["small"], [f"{long}a", f"{long}b"], 30)
    assert cut.width <= 30
    assert cut.text("small", f"{long}a") != cut.text("small", f"{long}b")
    alike = [f"{long}{end}{long}" for end in "ab"]
    whole = CellLabels.of(["small"], alike, 30)
    assert [whole.text("small", each) for each in alike] == alike


def test_a_line_fits_the_terminal_and_nothing_is_cut_without_one() -> None:
    names = [f"agent-with-a-long-name-{end}" for end in ("small", "large")]
    case = ListedCase(tuple(outcome(FAILED, name, "a-long-prompt-name") for name in names), 0, 2, QUESTION)
    for width in (60, 80, 120):
        assert max(map(display_width, lines(RunView(width=width), [case]))) <= width
    uncut = lines(RunView(width=None), [case])
    assert uncut[1].endswith(QUESTION)
    assert uncut[2].endswith('contains: expected "30 days", got "We will look into it."')


def test_the_names_of_evaluators_stand_where_their_reasons_do_not_fit() -> None:
    row = replace(FAILED, evaluator_results=(CONTAINS, replace(CONTAINS, name="amount"), JUDGE))
    case = ListedCase(tuple(outcome(row, name, "a-long-prompt-name") for name in ("small", "large")), 0, 2)
    assert lines(RunView(width=60), [case])[2].endswith("  contains, amount")


def test_the_name_of_a_case_is_never_cut() -> None:
    name = "named-after-a-question-" * 5
    case = ListedCase((CaseOutcome(replace(FAILED, slot=replace(FAILED.slot, eval_id=name))),), 0, 1, QUESTION)
    assert lines(RunView(width=80), [case])[1] == f"✗ fail   {name}  0.33"
