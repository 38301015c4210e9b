"""A run as one self-contained HTML file, which makes no requests and is readable without scripts."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import resources

from agentv.reports.document.html import page
from agentv.reports.html.parts import row_element, scrolled_table
from agentv.reports.run.chosen_rows import WORST_FIRST, ChosenRows, choose_rows
from agentv.reports.run.end_table import group_table_rows
from agentv.reports.run.figures import (
    BASELINE_HEADS,
    Figure,
    baseline_cells,
    corrected_notes,
    corrected_rows,
    estimated_note,
    evaluator_figures,
    shown_k,
    target_figures,
)
from agentv.reports.run.formats import Format, ReportTools
from agentv.reports.run.gate_cases import case_facts, case_texts, gate_heading, named_before, rest_text
from agentv.reports.run.matrix import (
    BEST_MARK,
    NO_PROMPT,
    best_text,
    grid_of,
    has_prompts,
    judged_text,
    mean_cell,
    rate_cell,
)
from agentv.reports.run.row_text import PLAIN_LABELS, RowLabels, row_score
from agentv.reports.run.side_by_side import CaseAnswers, cases_of, reason_of
from agentv.reports.run.views import RowDetail
from agentv.reports.text.amounts import count_text, took_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Html, element, join
from agentv.reports.text.signs import STATES_OF_GATES, UNICODE
from agentv.scoring.counting.matrix import PlanOrder
from agentv.scoring.results.aggregation import row_state
from agentv.types.events import RunEnded, RunEvent
from agentv.types.json_value import JsonObject
from agentv.types.records.run import RunRecord
from agentv.types.results import CaseName, GateCase, GateResult, GateState, RunReport
from agentv.types.summaries import BaselineSummary, CellSummary, MatrixSummary, TargetSummary

_GATE_TONES: Mapping[GateState, str] = {
    "passed": "good",
    "failed": "bad",
    "undecided": "unsure",
    "not_evaluated": "unsure",
}
_BAR_WIDTH = 36
_BAR_GAP = 4
_CHART_HEIGHT = 96


def verdict_band(report: RunReport, record: RunRecord | None) -> Html:
    """Return the header with the verdict, its gates and facts about the run."""
    tone = {0: "good", 1: "bad"}.get(report.exit_code, "unsure")
    gates = [
        element("li", f"{UNICODE.marks[STATES_OF_GATES[gate.state]]} {gate.sentence}", class_=_GATE_TONES[gate.state])
        for gate in report.verdict.gates
    ]
    return element(
        "header",
        element("p", _run_name(report, record), class_="eyebrow"),
        element("h1", report.verdict.sentence, dir="auto"),
        element("p", f"Exit code {report.exit_code}", class_="exit"),
        element("ul", *gates, class_="gates") if len(gates) > 1 else None,
        element("dl", *_facts(report, record), class_="facts"),
        class_=f"verdict {tone}",
    )


def _run_name(report: RunReport, record: RunRecord | None) -> str:
    name = f"{record.name} · " if record is not None and record.name else ""
    return f"agentv · {name}run {report.run_id}"


def _facts(report: RunReport, record: RunRecord | None) -> list[Html]:
    rows = sum(report.counts.values())
    planned = f" of {report.planned:,} planned" if report.planned is not None and report.planned != rows else ""
    facts = {"results": f"{rows:,}{planned}", "took": took_text(report.duration_s), "state": report.state}
    if record is not None:
        facts["started"] = f"{record.created_at:%Y-%m-%d %H:%M} UTC"
        facts["commit"] = _commit(record.git)
        facts["agentv"] = record.agentv_version
        facts["tags"] = ", ".join(record.tags)
    return [element("div", element("dt", name), element("dd", value)) for name, value in facts.items() if value]


def _commit(git: JsonObject | None) -> str:
    commit = str((git or {}).get("commit") or "")[:12]
    return f"{commit} with changes" if commit and (git or {}).get("dirty") else commit


def gate_section(gate: GateResult, report: RunReport) -> Html:
    """Return the cases that made a gate fail, each with its question, answers and reasons."""
    labels = RowLabels(with_suite=len({case.result.slot.suite for case in gate.cases}) > 1)
    rest, named = rest_text(gate, report), named_before(gate, report)
    return element(
        "section",
        element("h2", gate_heading(gate)),
        *(_gate_case(case, labels, named) for case in gate.cases),
        element("p", rest, class_="notice") if rest else None,
        class_="gate-cases",
    )


def _gate_case(case: GateCase, labels: RowLabels, named: Collection[CaseName]) -> Html:
    state = row_state(case.result)
    texts = [
        element("div", element("dt", name), element("dd", shortened(text, max_chars=_MAX_ANSWER_CHARS), dir="auto"))
        for name, text in case_texts(case, named)
    ]
    head = element(
        "h3",
        element("span", f"{row_score(case.result)} {state}".strip(), class_=f"badge {state}"),
        f" {labels.case(case.result)} on {case.result.slot.target} ",
        element("small", case_facts(case)),
        dir="auto",
    )
    return element("section", head, element("dl", *texts), class_="gate-case")


def target_table(targets: Sequence[TargetSummary]) -> Html:
    """Return the table of targets, one row each: pass rate, mean, states, cost and latency."""
    k = shown_k(targets)
    figures_by_name = [{figure.name: figure for figure in target_figures(each, k)} for each in targets]
    names = dict.fromkeys(
        name for figures in figures_by_name for name, figure in figures.items() if figure.value != "-"
    )
    rows = [
        [each.target, *(_figure(figures.get(name)) for name in names)]
        for each, figures in zip(targets, figures_by_name, strict=True)
    ]
    note = estimated_note(targets)
    table = scrolled_table(["target", *names], rows)
    return element("section", element("h2", "Targets"), table, element("p", note) if note else None)


def matrix_section(matrix: MatrixSummary | None) -> Html | None:
    """Return the matrix of prompts and targets with the best cell below; None for a run with one of each."""
    if matrix is None:
        return None
    best = element("p", best_text(matrix)) if matrix.best is not None else None
    if not has_prompts(matrix):
        return element("section", element("h2", "Best target"), best) if best is not None else None
    grid = grid_of(matrix)
    rows = [[name, *(_cell(matrix, each) for each in cells)] for name, cells in zip(grid.rows, grid.cells, strict=True)]
    return element(
        "section", element("h2", "Prompts and targets"), scrolled_table([grid.corner, *grid.columns], rows), best
    )


def _cell(matrix: MatrixSummary, cell: CellSummary | None) -> Html | None:
    """Return the rate of a cell with a bar, its mean, and the number of judged results."""
    if cell is None:
        return None
    (rate, rate_bounds), (mean, mean_bounds) = rate_cell(cell), mean_cell(cell)
    is_best = matrix.is_best(cell)
    return join(
        (
            element("b" if is_best else "span", f"{rate} {BEST_MARK}" if is_best else rate),
            _share_bar(cell.pass_rate),
            element("small", rate_bounds),
            element("span", f"mean {mean}"),
            element("small", mean_bounds),
            element("small", judged_text(cell)),
        )
    )


def _figure(figure: Figure | None) -> Html | None:
    """Return a number with its interval below, and a bar for a rate."""
    if figure is None:
        return None
    interval = element("small", figure.interval) if figure.interval else None
    return join((element("span", figure.value), _share_bar(figure.share), interval))


def _share_bar(share: float | None) -> Html | None:
    """Return a thin bar filled up to a share.

    It is drawn without style attributes, which the page's Content-Security-Policy forbids.
    """
    if share is None:
        return None
    filled = element("rect", width=f"{100 * share:.2f}", height="4", class_="filled")
    empty = element("rect", width="100", height="4", class_="empty")
    return element(
        "svg", empty, filled, viewBox="0 0 100 4", preserveAspectRatio="none", class_="share", aria_hidden="true"
    )


def baseline_section(summary: BaselineSummary | None) -> Html | None:
    """Return the comparison with the baseline; None without a baseline."""
    if summary is None:
        return None
    cells = baseline_cells(summary)
    finding = element("p", element("b", summary.finding), f", compared with {summary.baseline}")
    return element(
        "section", element("h2", "Baseline"), finding, scrolled_table(BASELINE_HEADS, [cells]) if cells else None
    )


def evaluator_table(report: RunReport) -> Html | None:
    """Return the table of evaluators, one row each; None without evaluators."""
    if not report.evaluators:
        return None
    figures_of = [list(evaluator_figures(each, report.baseline)) for each in report.evaluators]
    rows = [
        [each.name, each.type, *map(_figure, figures)]
        for each, figures in zip(report.evaluators, figures_of, strict=True)
    ]
    heads = ("evaluator", "type", *(figure.name for figure in figures_of[0]))
    return element("section", element("h2", "Evaluators"), scrolled_table(heads, rows))


def group_section(report: RunReport) -> Html | None:
    """Return the tables of groups; None without groups."""
    tables = [scrolled_table(head, rows) for head, *rows in group_table_rows(report.shown_groups)]
    return element("section", element("h2", "Groups"), *tables) if tables else None


def corrected_section(report: RunReport) -> Html | None:
    """Return the judges' pass rates corrected for their measured errors; None without rates."""
    rows = corrected_rows(report.corrected)
    if not rows:
        return None
    notes = [element("p", note) for note in corrected_notes(report.corrected)]
    table = scrolled_table(rows[0], rows[1:])
    return element("section", element("h2", "Corrected for judge errors"), table, *notes)


def histogram(bins: Sequence[int]) -> Html | None:
    """Return the histogram of the scores as SVG; None without scores."""
    highest = max(bins, default=0)
    if not highest:
        return None
    step = _BAR_WIDTH + _BAR_GAP
    bars = [_bar(index, count, len(bins), highest) for index, count in enumerate(bins)]
    marks = [
        element("text", f"{index / len(bins):g}", x=str(index * step), y=str(_CHART_HEIGHT + 34), class_="tick")
        for index in range(len(bins) + 1)
    ]
    description = f"Scores of {count_text(sum(bins), 'scored result')} in ten bins: {', '.join(map(str, bins))}"
    chart = element(
        "svg",
        element("title", description),
        *bars,
        *marks,
        viewBox=f"-12 0 {len(bins) * step + 24} {_CHART_HEIGHT + 40}",
        role="img",
        class_="histogram",
    )
    return element("section", element("h2", "Scores"), chart)


def _bar(index: int, count: int, bins: int, highest: int) -> Html:
    """Return a bar with its count above, in the colour of the verdict for its scores."""
    height = max(_CHART_HEIGHT * count / highest, 1.5 if count else 0)
    left, top = index * (_BAR_WIDTH + _BAR_GAP), _CHART_HEIGHT + 18 - height
    middle = (index + 0.5) / bins
    band = "pass" if middle > 0.8 else "borderline" if middle > 0.6 else "fail"  # noqa: PLR2004 - the bands of verdicts
    return join(
        (
            element(
                "rect", x=str(left), y=f"{top:.1f}", width=str(_BAR_WIDTH), height=f"{height:.1f}", rx="2", class_=band
            ),
            element("text", f"{count:,}", x=str(left + _BAR_WIDTH / 2), y=f"{top - 5:.1f}", class_="count")
            if count
            else None,
        )
    )


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
    rows = element("div", *_rows(report, tools, chosen), id="rows", class_=_column_class(report))
    parts = (
        verdict_band(report, record),
        *(gate_section(gate, report) for gate in report.verdict.gates_with_cases),
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
        element("section", element("h2", "Results"), _left_out_note(report, chosen), _controls(report, chosen), rows),
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


def _rows(report: RunReport, tools: ReportTools, chosen: ChosenRows) -> Iterator[Html]:
    """Yield the results with their details; once the page is large, only one line each."""
    with_suite = len({row.slot.suite for row in chosen.rows}) > 1
    make_element = partial(
        row_element, run_id=report.run_id, with_suite=with_suite, with_target=len(report.targets) > 1
    )
    size = 0
    for start in range(0, len(chosen.rows), _CHUNK_SIZE):
        rows = chosen.rows[start : start + _CHUNK_SIZE]
        is_full = size > MAX_DETAILED_CHARS
        details = map(RowDetail, rows) if is_full else tools.details(report, rows)
        for number, detail in enumerate(details, start + 1):
            row = make_element(detail, number=number, is_brief=size > MAX_DETAILED_CHARS)
            size += len(row.markup)
            yield row


def _list(title: str, items: Sequence[str]) -> Html | None:
    if not items:
        return None
    return element("section", element("h2", title), element("ul", *(element("li", item) for item in items)))


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
        element("div", shortened(text, max_chars=_MAX_ANSWER_CHARS), class_="text", dir="auto") if text else None,
        element("p", shortened(reason, max_chars=_MAX_REASON_CHARS), class_="reason", dir="auto") if reason else None,
    )
