"""Answers are reviewed by keyboard alone, and the pages of a review are accessible in every look."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.browser import LOOKS, Tab, needs_driven_browser, violations
from tests.support.reviewed import NOON, ScriptedReviewer, serving_review, serving_session, store_run
from tests.support.viewer import Viewer

from agentv.engine.labels.pair_reviews import open_pairs
from agentv.engine.labels.reviews import ReviewPlan
from agentv.view.reviews import ReviewSession

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [needs_driven_browser, pytest.mark.slow]

OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
PLAN = ReviewPlan(name="q", n=6, reviewers=("ada", "bob"), overlap=1.0)
Served = tuple[Viewer, ReviewSession]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving_review(store_run(tmp_path / ".agentv"), PLAN) as served:
        yield served


@pytest.fixture
def tab(browser: "Browser", served: Served) -> Iterator[Tab]:
    tab = Tab(browser, served[0])
    yield tab
    tab.close()
    assert (tab.foreign, tab.errors) == ([], [])


def open_review(tab: Tab, viewer: Viewer) -> "Page":
    tab.page.goto(viewer.server.link("/q/q/next", reviewer="ada"))
    return tab.page


def shows(page: "Page", text: str) -> None:
    page.get_by_role("heading", level=1, name=text).wait_for()


def test_a_whole_review_is_done_by_letters(tab: Tab, served: Served) -> None:
    viewer, session = served
    page = open_review(tab, viewer)
    shows(page, "1 of 6")
    page.keyboard.press("p")
    page.keyboard.press("Enter")
    shows(page, "2 of 6")
    page.keyboard.press("f")
    page.keyboard.press("t")
    page.keyboard.type("tone")
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    page.keyboard.type("rude")
    page.keyboard.press("Enter")
    page.keyboard.type("twice")
    page.keyboard.press("Escape")
    page.keyboard.press("Enter")
    shows(page, "3 of 6")
    page.keyboard.press("s")
    shows(page, "4 of 6")
    page.keyboard.press("u")
    page.keyboard.press("e")
    page.get_by_text("Reference answer").wait_for()
    assert page.locator("input[value=unsure]").is_checked()
    page.keyboard.press("x")
    assert page.locator("details", has_text="Transcript").first.get_attribute("open") is None
    page.keyboard.press("Enter")
    shows(page, "5 of 6")
    page.keyboard.press("z")
    shows(page, "4 of 6 correct your label")
    page.keyboard.press("p")
    page.keyboard.press("Enter")
    for position in ("5 of 6", "6 of 6"):
        shows(page, position)
        page.keyboard.press("p")
        page.keyboard.press("Enter")
    shows(page, "All answers are reviewed")
    labels = [label for label in session.stored.labels() if label.annotator == "ada"]
    assert [label.verdict for label in labels] == ["pass", "fail", None, "pass", "pass", "pass"]
    assert (labels[1].category, labels[1].note) == ("tone", "rude\ntwice")
    assert labels[3].shown == ("expected",)


def test_a_review_is_done_without_letters(tab: Tab, served: Served) -> None:
    viewer, session = served
    page = open_review(tab, viewer)
    page.evaluate("localStorage.setItem('letters', 'off')")
    page.reload()
    page.keyboard.press("p")
    assert not page.locator("input[value=pass]").is_checked()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.name") == "verdict":
            break
    page.keyboard.press("Space")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "send":
            break
    page.keyboard.press("Enter")
    shows(page, "2 of 6")
    assert [label.verdict for label in session.stored.labels()] == ["pass"]


def test_the_pages_of_a_review_have_no_accessibility_finding(tab: Tab, served: Served) -> None:
    viewer, session = served
    page = open_review(tab, viewer)
    check(tab, ["/q/q/next", "/q/q/next?expected=1"])
    ada, bob = (ScriptedReviewer(viewer.client(name), "q") for name in session.queue.reviewers)
    ada.send(ada.next(), ("verdict", "pass"), ("note", "fine"), ("category", "none"))
    bob.send(bob.next(), ("verdict", "fail"), ("note", "not fine"))
    ada.review()
    bob.review()
    check(tab, ["/q/q/next", "/q/q/conflicts", "/categories/latest"])
    page.goto(viewer.server.link("/q/q"))
    check(tab, ["/q/q", "/categories/latest", "/r/latest"])


def test_pairs_have_no_accessibility_finding(browser: "Browser", tmp_path: Path) -> None:
    home = tmp_path / ".agentv"
    run, other = store_run(home), store_run(home, run_id="20260131T120000-b", answer_note=" B")
    queue = open_pairs(run, other, ReviewPlan(name="q", n=6, reviewers=("ada",)), now=NOON)
    with serving_session(ReviewSession(run, queue, other=other)) as viewer:
        tab = Tab(browser, viewer)
        page = open_review(tab, viewer)
        check(tab, ["/q/q/next"])
        page.keyboard.press("2")
        page.keyboard.press("Enter")
        shows(page, "2 of 6")
        tab.close()
    assert len(run.labels()) == 1


def check(tab: Tab, paths: list[str]) -> None:
    for path in paths:
        page = tab.open(path)
        tab.unfold()
        for look in LOOKS:
            tab.look(look)
            assert (path, look, violations(page)) == (path, look, [])
            assert (path, look, page.evaluate(OVERFLOW)) == (path, look, 0)
    tab.look("light")
