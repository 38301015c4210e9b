"""The page in a real browser: only our own script runs, and the page makes no requests."""

import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, hostile_detail, report_of, tools_of, with_matrix
from tests.reports.rows import FAILED, PASSED, UNANSWERED
from tests.support.browser import dom_after_scripts, needs_browser
from tests.support.hostile_texts import HOSTILE_TEXTS, RUNNING

from agentv.reports.html.page import html_page
from agentv.reports.run.views import RowDetail

OTHER = replace(PASSED, slot=replace(PASSED.slot, eval_id="refund-8"))
pytestmark = [needs_browser, pytest.mark.slow]

OWNED = 'data-owned="yes"'


def root_of(dom: str) -> str:
    """Return the first tag, which whatever runs puts its mark on."""
    found = re.search(r"<html[^>]*>", dom)
    assert found is not None
    return found[0]


def write(folder: Path, text: str) -> Path:
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")
    return path


def test_nothing_of_a_stranger_runs_and_our_script_does(tmp_path: Path) -> None:
    dom = dom_after_scripts(write(tmp_path, html_page(HOSTILE_REPORT, HOSTILE_TOOLS)), tmp_path)
    assert OWNED not in root_of(dom)
    assert f">{len(HOSTILE_TEXTS)} of {len(HOSTILE_TEXTS)}</output>" in dom


@pytest.mark.parametrize("text", RUNNING, ids=range(len(RUNNING)))
def test_the_same_texts_run_on_a_page_that_does_not_escape(tmp_path: Path, text: str) -> None:
    naive = f"<!doctype html><html><title>x</title><body><p>{text}</p></body></html>"
    assert OWNED in root_of(dom_after_scripts(write(tmp_path, naive), tmp_path))


def test_the_policy_alone_would_stop_them(tmp_path: Path) -> None:
    page = html_page(report_of([FAILED]), tools_of([RowDetail(FAILED)]))
    unescaped = page.replace("<main>", f"<main>{' '.join(RUNNING)}", 1)
    assert OWNED not in root_of(dom_after_scripts(write(tmp_path, unescaped), tmp_path))


def test_ten_million_letters_are_shown_and_run_nothing(tmp_path: Path) -> None:
    detail = hostile_detail("".join(HOSTILE_TEXTS) * 20_000)
    page = html_page(report_of([detail.result]), tools_of([detail]))
    dom = dom_after_scripts(write(tmp_path, page), tmp_path)
    assert OWNED not in root_of(dom)
    assert ">1 of 1</output>" in dom


def test_with_scripts_off_everything_is_there_but_the_controls(tmp_path: Path) -> None:
    details = [RowDetail(row) for row in (FAILED, OTHER, UNANSWERED)]
    page = html_page(report_of([each.result for each in details]), tools_of(details))
    # A browser with scripts off cannot tell its document either; to the page a policy without our script is the same.
    without = re.sub(r"script-src &#x27;.*?&#x27;", "script-src &#x27;none&#x27;", page, count=1)
    dom = dom_after_scripts(write(tmp_path, without), tmp_path)
    assert re.search(r'<form id="controls" hidden', dom)
    assert "FAIL: nothing passed." in dom
    assert dom.count('<details class="row ') == 3


def test_a_link_to_a_row_opens_it(tmp_path: Path) -> None:
    page = write(tmp_path, html_page(report_of([FAILED]), tools_of([RowDetail(FAILED)])))
    dom = dom_after_scripts(page, tmp_path, anchor="#row-1")
    assert re.search(r'<details class="row fail" id="row-1"[^>]* open', dom)


def after(page: str, doing: str, folder: Path) -> list[tuple[str, bool]]:
    """Return the rows as they stand when something was done on a page: state and whether it is hidden."""
    script = f"<script>const c = document.getElementById('controls').elements; {doing}</script></body>"
    page = re.sub(r"script-src &#x27;.*?&#x27;", "script-src &#x27;unsafe-inline&#x27;", page, count=1)
    dom = dom_after_scripts(write(folder, page.replace("</body>", script)), folder)
    rows = re.findall(r'<details class="row [^>]*>', dom)
    return [(re.findall(r'data-state="(\w+)"', row)[0], " hidden" in row) for row in rows]


@pytest.mark.parametrize(
    ("doing", "expected"),
    [
        ("", [("fail", False), ("error", False), ("pass", False)]),
        ("c.text.value = '30 DAYS'", [("fail", False), ("error", True), ("pass", True)]),
        ("c.text.value = 'order-9'", [("fail", True), ("error", False), ("pass", True)]),
        ("c.state[2].checked = false", [("fail", False), ("error", False), ("pass", True)]),
        ("c.order.value = 'took'", [("error", False), ("fail", False), ("pass", False)]),
        ("c.order.value = 'score'", [("fail", False), ("pass", False), ("error", False)]),
    ],
)
def test_rows_are_searched_filtered_and_ordered(tmp_path: Path, doing: str, expected: list[tuple[str, bool]]) -> None:
    details = [RowDetail(row) for row in (FAILED, UNANSWERED, OTHER)]
    page = html_page(report_of([each.result for each in details]), tools_of(details))
    events = "for (const name of ['input', 'change']) c.order.dispatchEvent(new Event(name, {bubbles: true}))"
    assert after(page, f"{doing}; {events}", tmp_path) == expected


def cases_after(page: str, doing: str, folder: Path) -> list[tuple[str, str, bool]]:
    """Return what is about a case above the rows after something was done: tag, case and whether it is hidden."""
    script = f"<script>const c = document.getElementById('controls').elements; {doing}</script></body>"
    page = re.sub(r"script-src &#x27;.*?&#x27;", "script-src &#x27;unsafe-inline&#x27;", page, count=1)
    dom = dom_after_scripts(write(folder, page.replace("</body>", script)), folder)
    shown = re.findall(r'<(dl|details) class="(?:item|case-answers)" data-case="\S+ ([^"]+)"( hidden)?', dom)
    return [(tag, case, bool(hidden)) for tag, case, hidden in shown]


@pytest.mark.parametrize(
    ("doing", "found"),
    [
        ("", {"refund-7", "order-9", "refund-8"}),
        ("c.text.value = 'order-9'", {"order-9"}),
        ("c.text.value = 'nowhere'", set()),
        ("c.state[0].checked = false", {"order-9", "refund-8"}),
        ("c.target.value = 'small'", {"refund-7"}),
    ],
)
def test_controls_act_on_the_cases_above_the_rows_as_well(tmp_path: Path, doing: str, found: set[str]) -> None:
    rows = (replace(FAILED, slot=replace(FAILED.slot, target="small")), UNANSWERED, OTHER)
    page = html_page(with_matrix(report_of(rows)), tools_of([RowDetail(row) for row in rows]))
    event = "c.order.dispatchEvent(new Event('input', {bubbles: true}))"
    shown = cases_after(page, f"{doing}; {event}", tmp_path)
    assert [(tag, case) for tag, case, _ in shown] == [
        ("dl", "refund-7"),
        ("dl", "order-9"),
        *(("details", case) for case in ("refund-7", "order-9", "refund-8")),
    ]
    assert {case for tag, case, is_hidden in shown if tag == "details" and not is_hidden} == found
    assert {case for tag, case, is_hidden in shown if tag == "dl" and not is_hidden} == found - {"refund-8"}


class Listener(HTTPServer):
    """A local server that records its requests."""

    requests: list[str]


class Remember(BaseHTTPRequestHandler):
    server: Listener

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def listener() -> Iterator[Listener]:
    server = Listener(("127.0.0.1", 0), Remember)
    server.requests = []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_no_request_leaves_the_page(tmp_path: Path, listener: Listener) -> None:
    address = f"http://127.0.0.1:{listener.server_port}"
    calling = (
        f'<img src="{address}/img"><link rel=stylesheet href="{address}/css"><script src="{address}/js"></script>'
        f'<style>body{{background:url({address}/background)}}</style><link rel=prefetch href="{address}/prefetch">'
    )
    detail = hostile_detail(calling)
    page = html_page(report_of([detail.result], note=calling), tools_of([detail], name=calling))
    dom_after_scripts(write(tmp_path, page), tmp_path)
    assert listener.requests == []
    dom_after_scripts(write(tmp_path, page.replace("<main>", f"<main>{calling}", 1)), tmp_path)
    assert listener.requests == [], "the policy alone stops them, too"
    dom_after_scripts(write(tmp_path, f"<!doctype html><html><body>{calling}</body></html>"), tmp_path)
    assert {"/img", "/css", "/js", "/background"} <= set(listener.requests), "the control page asks"
