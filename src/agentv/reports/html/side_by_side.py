"""The answers to each case next to each other, by prompt and target, for runs with several of them."""

from agentv.reports.run.case_view import RowDetail
from agentv.reports.run.chosen_rows import ChosenRows, shortened
from agentv.reports.run.matrix import NO_PROMPT
from agentv.reports.run.row_text import PLAIN_LABELS, row_score
from agentv.reports.run.side_by_side import CaseAnswers, cases_of, reason_of
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element, join
from agentv.reports.text.signs import UNICODE
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.results.aggregation import row_state
from agentv.types.summaries import MatrixSummary

_LONGEST_ANSWER = 4_000
_LONGEST_REASON = 400
MOST_CASES = 200


def side_by_side_section(chosen: ChosenRows, matrix: MatrixSummary, run_id: str) -> Html:
    """Return a section with an expandable grid of answers for each case, at most 200 of them, in the given order."""
    cases = cases_of(chosen.rows)
    order = PlanOrder(matrix.targets, tuple(prompt for prompt in matrix.prompts if prompt is not None))
    shown = list(cases.values())[:MOST_CASES]
    left_out = len(cases) - len(shown)
    missing = [
        *([f"{count_text(left_out, 'more case')}"] if left_out else []),
        *(["some answers of the cases below"] if chosen.left_out else []),
    ]
    note = element(
        "p",
        f"Not here: {', '.join(missing)}. ",
        element("code", f"agentv show --side-by-side {run_id} CASE"),
        " shows all answers to one.",
        class_="notice",
    )
    return element(
        "section",
        element("h2", "Side by side"),
        note if missing else None,
        *(_case(CaseAnswers.of([RowDetail(row) for row in rows_of_case], order)) for rows_of_case in shown),
        id="side-by-side",
    )


def _case(answers: CaseAnswers) -> Html:
    marks = [
        element(
            "span", UNICODE.marks[row_state(each.result)], class_=f"badge {row_state(each.result)}", title=_name(each)
        )
        for _, details in answers.rows()
        for each in details
    ]
    summary = element("summary", element("b", answers.eval_id, dir="auto"), " ", *marks)
    has_one_target = len(answers.targets) == 1
    parts = [
        join(
            (
                None if has_one_target or len(answers.prompts) == 1 else element("h3", prompt or NO_PROMPT, dir="auto"),
                element("div", *(_answer(each) for each in details), class_="pair"),
            )
        )
        for prompt, details in answers.rows()
    ]
    return element("details", summary, element("div", *parts, class_="inside"), class_="case-answers")


def _name(detail: RowDetail) -> str:
    result = detail.result
    prompt = "" if result.prompt is None else f"{result.prompt} on "
    return f"{prompt}{result.slot.target}{PLAIN_LABELS.trial(result)}"


def _answer(detail: RowDetail) -> Html:
    result, state = detail.result, row_state(detail.result)
    text = result.candidate_answer or ("(empty)" if result.empty_answer else "")
    reason = reason_of(result)
    return element(
        "section",
        element(
            "h3", element("span", f"{row_score(result)} {state}".strip(), class_=f"badge {state}"), f" {_name(detail)}"
        ),
        element("div", shortened(text, most=_LONGEST_ANSWER), class_="text", dir="auto") if text else None,
        element("p", shortened(reason, most=_LONGEST_REASON), class_="reason", dir="auto") if reason else None,
    )
