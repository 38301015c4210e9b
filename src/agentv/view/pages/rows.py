"""The results of a run as a table: searched, filtered, sorted and paged by the index."""

from collections.abc import Iterator, Mapping, Sequence

from agentv.engine.stored.report_tools import expected_of, read_details
from agentv.reports.run.row_text import cell_text, row_reason, row_score
from agentv.reports.run.views import RowDetail
from agentv.reports.text.amounts import count_text, money_text, seconds_text
from agentv.reports.text.long_texts import shortened
from agentv.reports.text.markup import Child, Html, element
from agentv.scoring.results.aggregation import row_state
from agentv.storage.index.row_query import RowPage, RowQuery
from agentv.storage.run.stored import StoredRun
from agentv.types.json_value import JsonObject
from agentv.types.records.result import CaseResult
from agentv.view.address import PAGE_ROWS, Query, path_to, row_query
from agentv.view.elements import facet_list, filter_chips, search_field, state_badge, table
from agentv.view.pages.page import Page, Request
from agentv.view.pages.run import run_links, run_trail

_MAX_LINE_CHARS = 160
_COLUMNS: Sequence[tuple[str, str]] = (
    ("state", "state"),
    ("case", "id"),
    ("question", ""),
    ("answer", ""),
    ("score", "score"),
    ("why", ""),
    ("cost", "cost"),
    ("time", "duration"),
)
"""The columns, with the key that sorts by them."""
_DESCENDING_FIRST = ("cost", "duration")


def rows_page(request: Request) -> Page:
    """Return one page of a run's results."""
    stored = request.library.open(request.names["run"])
    query = row_query(request.query)
    page = request.library.page(stored, query)
    results = list(stored.results_at((entry.line, entry.offset, entry.size) for entry in page.rows))
    details = read_details(stored, results)
    path = path_to("r", stored.run_id, "rows")
    first = (query.page - 1) * PAGE_ROWS
    sentence = request.library.report(stored).verdict.sentence
    facets = {
        "state": page.facets.states,
        "target": page.facets.targets,
        "prompt": page.facets.prompts,
        "tag": page.facets.tags,
        "suite": page.facets.suites,
    }
    parts = [
        element("h1", "Rows"),
        element("p", sentence, class_="sentence", dir="auto"),
        search_field(path, request.query, label="Search cases"),
        filter_chips(path, request.query),
        facet_list(path, request.query, facets),
        element("p", _count_text(page, first), id="count", role="status"),
        table(list(_heads(path, request.query, query)), [_row(stored, each) for each in details], label="Rows"),
        _pages(path, request.query, query, page),
    ]
    return Page(
        title=f"Rows of {stored.run.name or stored.run_id}",
        parts=parts,
        data=_to_json(page, details, facets),
        trail=run_trail(stored),
        links=run_links(stored, request.library.run_before(stored)),
        is_live=stored.state() == "running",
    )


def _count_text(page: RowPage, first: int) -> str:
    if not page.rows:
        return "No result matches."
    return f"{first + 1:,}–{first + len(page.rows):,} of {count_text(page.total, 'result')}"  # noqa: RUF001 - a range


def _heads(path: str, address: Query, query: RowQuery) -> Iterator[Child]:
    for name, key in _COLUMNS:
        if not key:
            yield name
            continue
        is_sorted = query.sort == key
        is_descending = not query.is_descending if is_sorted else key in _DESCENDING_FIRST
        target = address.without("page", "after").with_value("sort", f"-{key}" if is_descending else key)
        arrow = (" ↓" if query.is_descending else " ↑") if is_sorted else ""
        yield element("a", f"{name}{arrow}", href=target.address(path))


def _row(stored: StoredRun, detail: RowDetail) -> Html:
    result, state = detail.result, row_state(detail.result)
    address = path_to("r", stored.run_id, "row", str(result.seq))
    trial = f" trial {result.slot.trial + 1}" if result.slot.trial else ""
    cell = cell_text(result.slot.target, result.prompt)
    question = "" if detail.case is None else detail.case.last_question
    took = None if result.duration_ms is None else result.duration_ms / 1000
    return element(
        "tr",
        element("td", state_badge(state)),
        element("th", element("a", result.eval_id, href=address), element("small", f"{cell}{trial}"), scope="row"),
        _line(question),
        _line(result.candidate_answer),
        element("td", row_score(result)),
        _line("" if state == "pass" else row_reason(result)),
        element("td", money_text(result.cost_usd)),
        element("td", seconds_text(took)),
    )


def _line(text: str) -> Html:
    return element("td", shortened(" ".join(text[:1000].split()), max_chars=_MAX_LINE_CHARS), class_="wide", dir="auto")


def _pages(path: str, address: Query, query: RowQuery, page: RowPage) -> Html | None:
    last = max(1, -(-page.total // PAGE_ROWS))
    links = []
    if query.page > 1:
        before = address.with_value("page", str(query.page - 1)).address(path)
        links.append(element("a", "previous", href=before, rel="prev"))
    if query.page < last:
        after = address.with_value("page", str(query.page + 1)).address(path)
        links.append(element("a", "next", href=after, rel="next"))
    return element("nav", *links, class_="pages", aria_label="Pages of the list") if links else None


def _to_json(page: RowPage, details: Sequence[RowDetail], facets: Mapping[str, Mapping[str, int]]) -> JsonObject:
    return {
        "total": page.total,
        "facets": {key: dict(counts) for key, counts in facets.items()},
        "rows": [_row_json(each) for each in details],
    }


def _row_json(detail: RowDetail) -> JsonObject:
    result: CaseResult = detail.result
    return {
        **result.slot.to_json(),
        "seq": result.seq,
        "state": row_state(result),
        "score": result.score,
        "question": None if detail.case is None else detail.case.last_question,
        "expected": None if detail.case is None else expected_of(detail.case),
        "answer": result.candidate_answer,
        "reason": None if row_state(result) == "pass" else row_reason(result),
        "cost_usd": result.cost_usd,
        "duration_ms": result.duration_ms,
    }
