"""The page: what stands on it with scripts off, that texts are texts, what it leaves out, how large it is."""

import re
from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.reports.hostile_run import HOSTILE_REPORT, HOSTILE_TOOLS, hostile_detail, report_of, tools_of, with_matrix
from tests.reports.rows import FAILED, PASSED, UNANSWERED
from tests.support.hostile_texts import HOSTILE_TEXTS
from tests.support.stored import make_answer, make_case, make_result

from agentv.reports.html.page import MAX_ROWS, html_page
from agentv.reports.run.views import RowDetail
from agentv.types.records.result import CaseResult

OTHER = replace(PASSED, slot=replace(PASSED.slot, eval_id="refund-8"))
EXPECTED_TAGS = {
    "html", "head", "meta", "link", "title", "style", "body", "main", "header", "section", "div", "p", "h1", "h2", "h3",
    "ul", "ol", "li", "dl", "dt", "dd", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "text", "details",
    "summary", "span", "small", "b", "code", "form", "input", "label", "select", "option", "output", "script",
    "figure", "figcaption", "line", "g",
}  # fmt: skip


class Page(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def numbered(row: CaseResult, number: int) -> CaseResult:
    return replace(row, slot=replace(row.slot, eval_id=f"case-{number}"))


def page_of(*details: RowDetail) -> Page:
    return Page(html_page(report_of([each.result for each in details]), tools_of(details)))


def test_the_page_holds_the_verdict_the_numbers_and_everything_of_a_row() -> None:
    detail = RowDetail(FAILED, make_case(), make_answer())
    text = page_of(detail, RowDetail(UNANSWERED), RowDetail(PASSED)).text
    for said in (
        "FAIL: nothing passed.", "Exit code 1", "50 % of 2", "May I return order 7?", "Refund granted within policy",
        "You have 30 days.", "We will look into it.", "lookup_order", '"status": "paid"', "Friendly throughout.",
        'expected "30 days", got', "HTTP 503 after 3 attempts", "evals/refunds.yaml:12",
    ):  # fmt: skip
        assert said in text


def test_rows_that_did_not_pass_stand_first() -> None:
    page = page_of(RowDetail(OTHER), RowDetail(UNANSWERED), RowDetail(FAILED))
    assert [each["data-state"] for tag, each in page.elements if "data-state" in each] == ["fail", "error", "pass"]


def test_what_is_about_a_case_has_the_key_of_its_rows() -> None:
    """The script shows and hides the listed cases and the answers side by side together with the rows."""
    targets = [replace(FAILED, slot=replace(FAILED.slot, target=target)) for target in ("small", "agent-v2")]
    rows = [*targets, OTHER]
    page = Page(html_page(with_matrix(report_of(rows)), tools_of([RowDetail(row) for row in rows])))
    keys = [(tag, each["data-case"]) for tag, each in page.elements if each.get("data-case") is not None]
    failed, passed = (f"evals/refunds.yaml {eval_id}" for eval_id in ("refund-7", "refund-8"))
    assert keys == [
        ("dl", failed),
        *(("details", key) for key in (failed, passed)),
        *(("details", key) for key in (failed, failed, passed)),
    ]


def test_the_controls_stand_above_everything_that_they_filter() -> None:
    text = html_page(report_of([FAILED, PASSED]), tools_of([RowDetail(FAILED), RowDetail(PASSED)]))
    assert text.index('<form id="controls"') < text.index("data-case=")


def trial(row: CaseResult, number: int) -> RowDetail:
    return RowDetail(replace(row, slot=replace(row.slot, trial=number)))


def test_the_trials_of_a_case_are_one_row_with_the_first_failed_one_open() -> None:
    page = page_of(trial(PASSED, 0), trial(FAILED, 2), trial(FAILED, 1), RowDetail(OTHER))
    rows = [each["data-state"] for tag, each in page.elements if "data-state" in each]
    trials = [
        ("open" in each, each["class"]) for _, each in page.elements if (each.get("class") or "").startswith("trial")
    ]
    assert rows == ["fail", "pass"]
    assert trials == [(False, "trial pass"), (True, "trial fail"), (False, "trial fail")]
    assert "1 of 3" in page.text


def test_many_long_trials_do_not_make_an_endless_case() -> None:
    row = make_result(candidate_answer="x" * 30_000)
    details = [trial(row, number) for number in range(200)]
    page = html_page(report_of([each.result for each in details]), tools_of(details))
    assert len(page) < 3_000_000
    assert "Details omitted" in page


def test_hostile_texts_are_texts() -> None:
    page = Page(html_page(HOSTILE_REPORT, HOSTILE_TOOLS))
    assert {tag for tag, _ in page.elements} <= EXPECTED_TAGS
    assert [tag for tag, _ in page.elements].count("script") == 1
    names = {name for _, attributes in page.elements for name in attributes}
    assert not [name for name in names if name.startswith("on") or name in ("style", "srcdoc", "action")]
    assert {(tag, attributes.get("href")) for tag, attributes in page.elements if "href" in attributes} == {
        ("link", "data:,")
    }
    assert not {"\x1b", "\x00", "\u202e", "\x9b", "\u200b"} & set(page.text)
    assert "javascript:document" in page.text


@given(st.text(st.characters(codec=None), min_size=1, max_size=20))
def test_every_text_is_escaped(text: str) -> None:
    detail = hostile_detail(f"<b {text}")
    elements = page_of(detail).elements
    assert {tag for tag, _ in elements} <= EXPECTED_TAGS
    html_page(report_of([detail.result]), tools_of([detail])).encode()


def test_the_policy_allows_nothing_but_our_style_and_script() -> None:
    page = page_of(RowDetail(FAILED))
    policy = next(each["content"] for _, each in page.elements if each.get("http-equiv") == "Content-Security-Policy")
    assert re.fullmatch(
        r"default-src 'none'; style-src 'sha256-\S{44}'; script-src 'sha256-\S{44}'; "
        r"base-uri 'none'; form-action 'none'",
        policy or "",
    )


def test_the_page_is_small_beside_its_data() -> None:
    assert len(html_page(report_of([]), tools_of([])).encode()) < 30_000
    details = [RowDetail(make_result(), make_case(), make_answer()) for _ in range(100)]
    report = report_of([each.result for each in details])
    assert len(html_page(report, tools_of(details)).encode()) < 400_000


def test_above_its_limit_the_page_shows_failures_and_counts_the_rest() -> None:
    passed = [numbered(PASSED, number) for number in range(MAX_ROWS + 500)]
    failed = [numbered(FAILED, -number) for number in range(1, 8)]
    page = page_of(*(RowDetail(row) for row in (*passed, *failed)))
    states = [each["data-state"] for _, each in page.elements if "data-state" in each]
    assert (len(states), states.count("fail")) == (MAX_ROWS, 7)
    assert "Not on this page: 507 results: 507 pass." in page.text


def test_a_long_text_is_cut_and_says_so() -> None:
    text = "".join(HOSTILE_TEXTS) * 20_000
    assert len(text) > 10_000_000
    page = html_page(report_of([(detail := hostile_detail(text)).result]), tools_of([detail]))
    assert len(page) < 2_000_000
    assert "characters omitted" in page


def test_many_long_texts_do_not_make_an_endless_page() -> None:
    row = make_result(candidate_answer="x" * 30_000)
    details = [RowDetail(numbered(row, number)) for number in range(MAX_ROWS)]
    page = html_page(report_of([each.result for each in details]), tools_of(details))
    assert len(page) < 40_000_000


def test_answers_of_one_line_are_told_apart_by_their_place() -> None:
    result = replace(FAILED, file="spans.json", line=1, part=3)
    assert "spans.json:1#3" in page_of(RowDetail(result)).text


def test_an_answer_stands_alone_without_an_expected_one() -> None:
    assert "<div></div>" not in html_page(report_of([PASSED]), tools_of([RowDetail(PASSED)]))
