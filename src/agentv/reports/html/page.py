"""A run as one self-contained HTML file, which makes no requests and is readable without scripts."""

from collections.abc import Iterator, Sequence
from functools import partial

from agentv.reports.html.parts import asset, page_head
from agentv.reports.html.row import row_element
from agentv.reports.html.summary import (
    baseline_section,
    corrected_section,
    evaluator_table,
    group_section,
    histogram,
    matrix_section,
    target_table,
    verdict_band,
)
from agentv.reports.run.chosen_rows import WORST_FIRST, ChosenRows, choose_rows, shortened
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.matrix import NO_PROMPT
from agentv.reports.run.row_text import PLAIN_LABELS, row_score
from agentv.reports.run.side_by_side import CaseAnswers, cases_of, reason_of
from agentv.reports.run.views import RowDetail
from agentv.reports.text.amounts import count_text
from agentv.reports.text.markup import Html, element, join, verbatim
from agentv.reports.text.signs import UNICODE
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.run import RunRecord
from agentv.types.results import RunReport
from agentv.types.summaries import MatrixSummary

MOST_ROWS = 2_000
MOST_CHARACTERS = 20_000_000
"""The maximum size of all results with details; further results are shown without them."""
_ROWS_AT_ONCE = 100
_LONGEST_ANSWER = 4_000
_LONGEST_REASON = 400
MOST_CASES = 200


def make_html(tools: ReportTools) -> Format:
    """Return the format that writes an HTML page at the end of the run."""

    def whole(event: RunEvent) -> str:
        return html_page(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(whole, empty=None)


def html_page(report: RunReport, tools: ReportTools) -> str:
    """Return the page, with at most 2,000 results, those that did not pass first, and a note on the omitted ones."""
    record = tools.record(report)
    chosen = choose_rows(tools.rows(report), most=MOST_ROWS)
    rows = element("div", *_rows(report, tools, chosen), id="rows", class_=_columns(report))
    body = element(
        "body",
        element(
            "main",
            verdict_band(report, record),
            target_table(report.targets) if report.targets else None,
            matrix_section(report.matrix),
            corrected_section(report),
            baseline_section(report.baseline),
            histogram(report.histogram),
            evaluator_table(report),
            group_section(report),
            _list("Flaky cases", report.flaky),
            _list("Notes", report.notes),
            None if report.matrix is None else side_by_side_section(chosen, report.matrix, report.run_id),
            element("section", element("h2", "Results"), _left_out(report, chosen), _controls(report, chosen), rows),
        ),
        verbatim("script", asset("report.js")),
    )
    head = page_head(_title(report, record), style=asset("report.css"), script=asset("report.js"))
    return f"<!doctype html>\n{element('html', head, body, lang='en').markup}\n"


def _title(report: RunReport, record: RunRecord | None) -> str:
    name = record.name if record is not None and record.name else report.run_id
    return f"{report.verdict.sentence.partition(':')[0]} · {name} · agentv"


def _columns(report: RunReport) -> str:
    return "several-targets" if len(report.targets) > 1 else "one-target"


def _rows(report: RunReport, tools: ReportTools, chosen: ChosenRows) -> Iterator[Html]:
    """Yield the results with their details; once the page is large, only one line each."""
    with_suite = len({row.slot.suite for row in chosen.rows}) > 1
    line_of = partial(row_element, run_id=report.run_id, with_suite=with_suite, with_target=len(report.targets) > 1)
    made = 0
    for start in range(0, len(chosen.rows), _ROWS_AT_ONCE):
        rows = chosen.rows[start : start + _ROWS_AT_ONCE]
        is_full = made > MOST_CHARACTERS
        for number, detail in enumerate(map(RowDetail, rows) if is_full else tools.details(report, rows), start + 1):
            row = line_of(detail, number=number, is_brief=made > MOST_CHARACTERS)
            made += len(row.markup)
            yield row


def _list(title: str, items: Sequence[str]) -> Html | None:
    return (
        element("section", element("h2", title), element("ul", *(element("li", item) for item in items)))
        if items
        else None
    )


def _left_out(report: RunReport, chosen: ChosenRows) -> Html | None:
    text = chosen.left_out_text()
    if not text:
        return None
    return element(
        "p",
        f"Not on this page: {text}. ",
        element("code", f"agentv show {report.run_id}"),
        " lists them.",
        class_="notice",
    )


def _controls(report: RunReport, chosen: ChosenRows) -> Html:
    """Return the search, filter and sort controls, which stay hidden until the script runs."""
    shown = {state: chosen.totals[state] - chosen.left_out.get(state, 0) for state in WORST_FIRST}
    states = [
        element(
            "label", element("input", type="checkbox", name="state", value=state, checked=True), f" {state} {count:,}"
        )
        for state, count in shown.items()
        if count
    ]
    targets = [element("option", each.target, value=each.target) for each in report.targets]
    orders = {
        "": "failed first",
        "case": "case",
        "score": "lowest score first",
        "took": "slowest first",
        "cost": "most expensive first",
    }
    return element(
        "form",
        element("input", type="search", name="text", placeholder="search", aria_label="search", autocomplete="off"),
        element("span", *states, class_="states"),
        element("select", element("option", "all targets", value=""), *targets, name="target", aria_label="target")
        if len(targets) > 1
        else None,
        element(
            "select",
            *(element("option", text, value=key) for key, text in orders.items()),
            name="order",
            aria_label="order",
        ),
        element("output", name="shown"),
        id="controls",
        hidden=True,
    )


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
