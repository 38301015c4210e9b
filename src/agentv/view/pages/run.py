"""A run: its verdict, the cases that did not pass, tables with intervals, and the histogram of scores."""

from collections.abc import Iterator, Sequence

from agentv.reports.document.html import HtmlRenderer
from agentv.reports.run.document import run_document
from agentv.reports.run.report_json import report_to_json
from agentv.reports.text.markup import Html, element
from agentv.storage.run.reviews import queue_names
from agentv.storage.run.stored import StoredRun
from agentv.view.address import path_to
from agentv.view.judges import judge_links
from agentv.view.pages.page import Link, Page, Request

RUNS = Link("Runs", "/")
_MAX_TRENDS = 50
_NOT_PASSED = "state=borderline&state=fail&state=error"


def run_links(stored: StoredRun, before: str | None) -> tuple[Link, ...]:
    """Return the pages of a run."""
    run = stored.run_id
    links = [Link("Verdict", path_to("r", run)), Link("Rows", path_to("r", run, "rows"))]
    links.append(Link("Grid", path_to("r", run, "grid")))
    if before is not None:
        links.append(Link("Compare", path_to("compare", f"{before}..{run}")))
    if queues := queue_names(stored.folder):
        links.append(Link("Review", path_to("q", f"{queues[-1]}@{run}")))
    return tuple(links)


def run_trail(stored: StoredRun) -> tuple[Link, ...]:
    """Return the pages above the parts of a run."""
    return RUNS, Link(stored.run.name or stored.run_id, path_to("r", stored.run_id))


def _link_list(title: str, links: Sequence[Link]) -> Html | None:
    """Return links under a title; None without any."""
    if not links:
        return None
    items = (element("li", element("a", each.text, href=each.address, dir="auto")) for each in links)
    return element("nav", element("h2", title), element("ul", *items, class_="choices"), aria_label=title)


def _review(stored: StoredRun) -> Iterator[Html]:
    """Yield the run's review queues and its failure categories, and how to start a review."""
    run, names = stored.run_id, queue_names(stored.folder)
    links = [element("li", element("a", name, href=path_to("q", f"{name}@{run}"), dir="auto")) for name in names]
    yield element("h2", "Review by people")
    if links:
        yield element("ul", *links, class_="choices")
        yield element("p", element("a", "Failure categories", href=path_to("categories", run)))
    command = element("code", f"agentv review {run}")
    yield element("p", "Label answers, and see the pass rate that people would find: ", command)


def run_page(request: Request) -> Page:
    """Return the report of a run as its results are now."""
    stored = request.library.open(request.names["run"])
    report = request.library.report(stored)
    before = request.library.run_before(stored)
    rows = path_to("r", stored.run_id, "rows")

    def row_address(seq: int) -> str:
        return path_to("r", stored.run_id, "row", str(seq))

    document = run_document(report, stored.run, is_short=False)
    trends = [Link(suite, path_to("trend", suite)) for suite in stored.suites[:_MAX_TRENDS]]
    judges = judge_links(request.library, stored, [(each.name, each.type) for each in report.evaluators])
    parts = [
        *HtmlRenderer(row_address=row_address, more_address=f"{rows}?{_NOT_PASSED}").document(document),
        element("p", element("a", "All rows", href=rows)),
        _link_list("Trend from run to run", trends),
        _link_list("Judges compared with people", judges),
        *_review(stored),
    ]
    return Page(
        title=stored.run.name or stored.run_id,
        parts=parts,
        data=report_to_json(report),
        trail=(RUNS,),
        links=run_links(stored, before),
        address=path_to("r", stored.run_id),
        is_live=stored.state() == "running",
    )
