"""The answers to one case next to each other, as text."""

import pytest
from tests.reports.rows import HOSTILE_TEXT
from tests.support.stored import CONTAINS, make_case, make_result

from agentv.reports.run.side_by_side import CaseAnswers, SideBySide
from agentv.reports.run.views import RowDetail
from agentv.reports.text.width import display_width
from agentv.scoring.counting.matrix import PlanOrder
from agentv.types.failures import Failure
from agentv.types.records.answer import ResultKey


def detail(prompt: str | None, target: str, text: str, *, is_right: bool = False, trial: int = 0) -> RowDetail:
    result = make_result(
        slot=ResultKey("s.yaml", "q1", target, trial, prompt),
        prompt=prompt,
        candidate_answer=text,
        score=float(is_right),
        status="pass" if is_right else "fail",
        verdict="pass" if is_right else "fail",
        reasoning="names the capital" if is_right else "another city",
        evaluator_results=() if is_right else (CONTAINS,),
    )
    return RowDetail(result, make_case(prompt=prompt, question=f"{prompt}: What is the capital?"))


FOUR = [
    detail("plain", "small", "It is Lyon.\nI think."),
    detail("plain", "large", "It is Paris.", is_right=True),
    detail("hinted", "small", "Paris.", is_right=True),
    detail("hinted", "large", "Paris, of course.", is_right=True),
]
ORDER = PlanOrder(("small", "large"), ("plain", "hinted"))
AT_80 = """\
case q1  (evals/refunds.yaml:12)
expected outcome
│ Refund granted within policy
reference answer
│ You have 30 days.

prompt plain
│ plain: What is the capital?

✗ small  0.00                            ✓ large  1.00
answer                                   answer
│ It is Lyon.                            │ It is Paris.
│ I think.                               reason
reason                                   │ names the capital
│ contains: expected "30 days", got "We
│ will look into it."

prompt hinted
│ hinted: What is the capital?

✓ small  1.00                            ✓ large  1.00
answer                                   answer
│ Paris.                                 │ Paris, of course.
reason                                   reason
│ names the capital                      │ names the capital
"""


def test_the_targets_stand_side_by_side_for_each_prompt() -> None:
    assert SideBySide(80).render(CaseAnswers.of(FOUR, ORDER)) == AT_80


def test_answers_stand_in_the_order_of_the_plan() -> None:
    assert SideBySide(80).render(CaseAnswers.of(FOUR[::-1], ORDER)) == AT_80


def test_prompts_stand_side_by_side_if_there_is_one_target() -> None:
    text = SideBySide(80).render(CaseAnswers.of([FOUR[0], FOUR[2]], ORDER))
    assert "✗ plain  0.00                            ✓ hinted  1.00" in text
    assert "│ plain: What is the capital?            │ hinted: What is the capital?" in text


@pytest.mark.parametrize("width", [40, 80, 100, 200])
@pytest.mark.parametrize("targets", [1, 2, 3, 7])
def test_no_line_is_wider_than_the_screen(width: int, targets: int) -> None:
    details = [
        detail(prompt, f"target-{number}-{'x' * 60}", f"{HOSTILE_TEXT} {'word ' * 3000}", trial=trial)
        for prompt in ("plain", "y" * 90)
        for number in range(targets)
        for trial in range(2)
    ]
    text = SideBySide(width).render(CaseAnswers.of(details, ORDER))
    assert max(map(display_width, text.splitlines())) <= width
    assert "\x1b" not in text
    assert "more lines)" in text


def test_an_answer_that_failed_shows_its_error() -> None:
    failed = make_result(
        slot=ResultKey("s.yaml", "q1", "small"),
        candidate_answer="",
        status="error",
        score=None,
        verdict=None,
        evaluator_results=(),
        error=Failure("server_error", "HTTP 503"),
    )
    text = SideBySide(80).render(CaseAnswers.of([RowDetail(failed), FOUR[1]], ORDER))
    assert "! small  error" in text
    assert "│ error target: HTTP 503" in text
