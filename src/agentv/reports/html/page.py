"""A run as one self-contained HTML file, which makes no requests and is readable without scripts."""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from importlib import resources
from itertools import groupby, islice

from agentv.reports.document.html import HtmlRenderer, page
from agentv.reports.html.parts import case_element
from agentv.reports.run.chosen_rows import WORST_FIRST, ChosenRows, choose_rows
from agentv.reports.run.document import run_document
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.matrix import (
    NO_PROMPT,
)
from agentv.reports.run.row_text import PLAIN_LABELS, case_key, cell_text, row_score
from agentv.reports.run.side_by_side import CaseAnswers, cases_of, reason_of
from agentv.reports.run.views import RowDetail
from agentv.reports.text.amounts import count_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Html, element, join
from agentv.reports.text.signs import UNICODE
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.gates.failing_cases import case_name, shown_first
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.records.result import CaseResult
from agentv.types.records.run import RunRecord
from agentv.types.results import CaseName, RunReport
from agentv.types.summaries import MatrixSummary

MAX_ROWS = 2_000
MAX_DETAILED_CHARS = 20_000_000
"""The maximum size of all results with details; further results are shown without them."""
_CHUNK_SIZE = 100
_MAX_ANSWER_CHARS = 4_000
_MAX_REASON_CHARS = 400
MAX_CASES = 200


def make_html(tools: ReportTools) -> Format:
    """Return the format that writes an HTML page at the end of the run."""

    def text_of(event: RunEvent) -> str:
        return html_page(event.report, tools) if isinstance(event, RunEnded) else ""

    return Format(text_of, empty=None)


def html_page(report: RunReport, tools: ReportTools) -> str:
    """Return the page, with at most 2,000 results, those that did not pass first, and a note on the omitted ones."""
    record = tools.record(report)
    chosen = choose_rows(tools.rows(report), max_rows=MAX_ROWS)
    cases = element("div", *_rows(report, tools, chosen), id="rows", class_=_column_class(report))
    heading = element("h2", "Results by case")
    band, *blocks = HtmlRenderer().document(run_document(report, record, is_short=False))
    parts = (
        band,
        _controls(report, chosen),
        *blocks,
        None if report.matrix is None else side_by_side_section(chosen, report.matrix, report.run_id),
        element("section", heading, _left_out_note(report, chosen), cases),
    )
    return page(_title(report, record), parts, script=_script())


@cache
def _script() -> str:
    return resources.files("agentv.reports.html").joinpath("report.js").read_text("utf-8")


def _title(report: RunReport, record: RunRecord | None) -> str:
    name = record.name if record is not None and record.name else report.run_id
    return f"{report.verdict.sentence.partition(':')[0]} · {name} · agentv"


def _column_class(report: RunReport) -> str:
    return "several-targets" if len(report.targets) > 1 else "one-target"


def _cases(chosen: ChosenRows) -> Sequence[Sequence[CaseResult]]:
    """Return the results of each case with its prompt and target, in the order of their worst results."""
    cases: dict[CaseName, list[CaseResult]] = {}
    for row in chosen.rows:
        cases.setdefault(case_name(row), []).append(row)
    return list(cases.values())


def _rows(report: RunReport, tools: ReportTools, chosen: ChosenRows) -> Iterator[Html]:
    """Yield the cases with the details of their results; once the page is large, only one line each."""
    with_suite = len({row.slot.suite for row in chosen.rows}) > 1
    make_element = partial(
        case_element,
        run_id=report.run_id,
        with_suite=with_suite,
        with_target=len(report.targets) > 1,
        is_complete=not chosen.left_out,
    )
    cases, size = _cases(chosen), 0
    for start in range(0, len(cases), _CHUNK_SIZE):
        chunk = cases[start : start + _CHUNK_SIZE]
        rows = [row for case in chunk for row in case]
        is_full = size > MAX_DETAILED_CHARS
        details = iter(map(RowDetail, rows) if is_full else tools.details(report, rows))
        for number, case in enumerate(chunk, start + 1):
            trials = list(islice(details, len(case)))
            shown = make_element(trials, number=number, is_brief=size > MAX_DETAILED_CHARS)
            size += len(shown.markup)
            yield shown


def _left_out_note(report: RunReport, chosen: ChosenRows) -> Html | None:
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
    """Return the controls that search and filter the page and sort its results, hidden until the script runs."""
    shown = Counter(row_state(min(case, key=shown_first)) for case in _cases(chosen))
    states = [
        element(
            "label",
            element("input", type="checkbox", name="state", value=state, checked=True),
            f" {state} {shown[state]:,}",
        )
        for state in WORST_FIRST
        if shown[state]
    ]
    prompts = [each for each in (report.matrix.prompts if report.matrix else ()) if each is not None]
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
        _choice("target", [each.target for each in report.targets]),
        _choice("prompt", prompts),
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


def _choice(name: str, values: Sequence[str]) -> Html | None:
    """Return a control that shows only the results with one of several values; None for a single value."""
    if len(values) <= 1:
        return None
    options = (element("option", each, value=each) for each in values)
    return element("select", element("option", f"all {name}s", value=""), *options, name=name, aria_label=name)


def side_by_side_section(chosen: ChosenRows, matrix: MatrixSummary, run_id: str) -> Html:
    """Return a section with an expandable grid of answers for each case, at most 200 of them, in the given order."""
    cases = cases_of(chosen.rows)
    order = PlanOrder(matrix.targets, tuple(prompt for prompt in matrix.prompts if prompt is not None))
    shown = list(cases.values())[:MAX_CASES]
    left_out = len(cases) - len(shown)
    missing = [
        *([f"{count_text(left_out, 'more case')}"] if left_out else []),
        *(["some answers of the cases below"] if chosen.left_out else []),
    ]
    note = element(
        "p",
        f"Not here: {', '.join(missing)}. ",
        element("code", f"agentv show --side-by-side {run_id} CASE"),
        " shows all answers to a case.",
        class_="notice",
    )
    return element(
        "section",
        element("h2", "Side by side"),
        note if missing else None,
        *(_case_answers(CaseAnswers.of([RowDetail(row) for row in rows_of_case], order)) for rows_of_case in shown),
        id="side-by-side",
    )


def _case_answers(answers: CaseAnswers) -> Html:
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
                element("div", *_cells(details), class_="pair"),
            )
        )
        for prompt, details in answers.rows()
    ]
    key = case_key(answers.suite, answers.eval_id)
    return element("details", summary, element("div", *parts, class_="inside"), class_="case-answers", data_case=key)


def _cells(details: Sequence[RowDetail]) -> Iterator[Html]:
    """Yield a column for each prompt and target, with its trials below each other."""
    for _, trials in groupby(details, key=lambda each: (each.result.prompt, each.result.slot.target)):
        yield element("div", *map(_answer, trials))


def _name(detail: RowDetail) -> str:
    result = detail.result
    return f"{cell_text(result.slot.target, result.prompt)}{PLAIN_LABELS.trial(result)}"


def _answer(detail: RowDetail) -> Html:
    result, state = detail.result, row_state(detail.result)
    text = result.candidate_answer or ("(empty)" if result.empty_answer else "")
    reason = reason_of(result)
    return element(
        "section",
        element(
            "h3", element("span", f"{row_score(result)} {state}".strip(), class_=f"badge {state}"), f" {_name(detail)}"
        ),
        element("div", shortened(text, max_chars=_MAX_ANSWER_CHARS), class_="text", dir="auto") if text else None,
        element("p", shortened(reason, max_chars=_MAX_REASON_CHARS), class_="reason", dir="auto") if reason else None,
    )
