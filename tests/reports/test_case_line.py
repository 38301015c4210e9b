"""The line of a case in the progress of a run: whole names, a cut reason, and one line wherever the name fits."""

from collections.abc import Sequence
from itertools import product

import pytest
from msgspec.structs import replace
from tests.reports.rows import FAILED, PASSED, STARTED, UNANSWERED

from agentv.reports.progress.case_line import CaseLines
from agentv.reports.progress.finished_cases import FinishedCase, FinishedCases
from agentv.reports.text.width import display_width
from agentv.types.events import RunStarted
from agentv.types.records.result import CaseResult

TARGETS = ("support-agent-small", "support-agent-large")
PROMPTS = ("plain", "polite-and-with-empathy")
RUN = replace(STARTED, cases=40, planned=480, trials=3, targets=TARGETS, prompts=PROMPTS)


def results(case: str, failed: Sequence[tuple[str, str]]) -> list[CaseResult]:
    """Return the results of a case: two of three trials fail with the prompts and targets of `failed`."""
    found = []
    for trial, target, prompt in product(range(3), TARGETS, PROMPTS):
        row = FAILED if (prompt, target) in failed and trial else PASSED
        slot = replace(row.slot, eval_id=case, target=target, prompt=prompt, trial=trial)
        found.append(replace(row, slot=slot, prompt=prompt))
    return found


def finished(run: RunStarted, rows: Sequence[CaseResult]) -> list[FinishedCase]:
    cases = FinishedCases.of_run(run)
    return [case for row in rows if (case := cases.add(row)) is not None] + list(cases.unfinished())


@pytest.mark.parametrize("width", [60, 80, 120, 300])
def test_a_case_with_prompts_and_targets_is_one_line(width: int) -> None:
    (case,) = finished(RUN, results("exchange-of-sizes-24", [("plain", TARGETS[0]), ("plain", TARGETS[1])]))
    (line,) = CaseLines(RUN).lines("✗", case, width)
    assert line.startswith("✗ exchange-of-sizes-24  8 of 12")
    assert "  contains: ex" in line
    assert display_width(line) <= width


def test_prompts_and_targets_that_did_not_pass_are_named_where_there_is_room() -> None:
    (case,) = finished(RUN, results("refund-7", [("plain", TARGETS[0])]))
    (line,) = CaseLines(RUN).lines("✗", case, 300)
    assert line.startswith("✗ refund-7  10 of 12 passed (support-agent-small: plain)  contains: expected")
    (case,) = finished(RUN, results("refund-7", list(product(PROMPTS, TARGETS))))
    assert "  4 of 12 passed (4 prompts and targets)  " in CaseLines(RUN).lines("✗", case, 300)[0]


def test_a_case_that_passed_has_no_line_and_an_unfinished_one_comes_at_the_end() -> None:
    failed = results("refund-8", [("plain", TARGETS[0])])[:-1]
    assert [case.result.slot.eval_id for case in finished(RUN, [*failed, *results("refund-7", [])])] == ["refund-8"]


def test_cases_that_differ_in_prompts_have_a_line_for_each() -> None:
    run = replace(RUN, planned=360, prompts=())
    cases = finished(run, results("exchange-of-sizes-24", [("plain", TARGETS[0]), (PROMPTS[1], TARGETS[1])]))
    first, second = (CaseLines(run).lines("✗", case, 120)[0] for case in cases)
    assert "exchange-of-sizes-24 · support-agent-small · plain 1 of 3 passed  contains" in first
    assert "exchange-of-sizes-24 · support-agent-large · polite-and-with-empathy 1 of 3 passed  contains" in second


def test_names_of_targets_and_prompts_are_cut_before_the_reason_is_lost() -> None:
    row = replace(UNANSWERED, slot=replace(UNANSWERED.slot, target=TARGETS[0], prompt=PROMPTS[1]), prompt=PROMPTS[1])
    (line,) = CaseLines(replace(RUN, cases=None)).lines("!", FinishedCase(row, results=3), 79)
    assert line == "! order-9 · supp…gent-small · polite-and-wit… 0 of 3 passed  error target: HTT…"


def test_the_name_of_a_case_is_never_cut() -> None:
    name = "named-after-a-question-" * 4
    (case,) = finished(RUN, results(name, [("plain", TARGETS[0])]))
    lines = CaseLines(RUN).lines("✗", case, 60)
    assert "".join(line.strip() for line in lines).replace(" ", "").startswith(f"✗{name}10of12")
    assert max(map(display_width, lines)) <= 60
