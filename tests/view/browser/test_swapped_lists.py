"""A link within a list replaces the main part of the page: focus and history stay, and the new count is announced."""

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Tab, needs_driven_browser
from tests.support.viewed_runs import ViewedRuns

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_driven_browser, pytest.mark.slow]

FOCUSED = "document.activeElement.textContent || document.activeElement.id"
ODD = "1–65 of 65 results"  # noqa: RUF001 - a range
SECOND_PAGE = "101–130 of 130 results"  # noqa: RUF001 - a range
FIRST_PAGE = "1–100 of 130 results"  # noqa: RUF001 - a range


@pytest.fixture
def page(tab: Tab, runs: ViewedRuns) -> "Page":
    page = tab.open(f"/r/{runs.run}/rows")
    page.evaluate("window.isSameDocument = true")
    return page


def is_same_document(page: "Page") -> bool:
    return bool(page.evaluate("window.isSameDocument === true"))


def wait_for_announcement(page: "Page", text: str) -> None:
    page.wait_for_function("(text) => document.getElementById('announced').textContent === text", arg=text)


def test_a_filter_keeps_the_focus_and_announces_the_count(page: "Page") -> None:
    page.get_by_text("Filters", exact=True).click()
    page.locator("#filters").get_by_role("link", name="odd").press("Enter")
    wait_for_announcement(page, ODD)
    assert page.evaluate(FOCUSED) == "odd"
    assert page.locator("#filters").get_attribute("open") is not None
    assert page.url.endswith("/rows?tag=odd")
    assert is_same_document(page)


def test_an_order_keeps_the_focus_on_its_column(page: "Page") -> None:
    page.get_by_role("link", name="score").press("Enter")
    wait_for_announcement(page, FIRST_PAGE)
    assert page.evaluate(FOCUSED) == "score ↑"
    page.keyboard.press("Enter")
    page.get_by_role("link", name="score ↓").wait_for()
    assert page.evaluate(FOCUSED) == "score ↓"
    assert is_same_document(page)


def test_the_last_next_link_leaves_the_focus_beside_it(page: "Page") -> None:
    page.get_by_role("link", name="next").press("Enter")
    wait_for_announcement(page, SECOND_PAGE)
    assert page.evaluate(FOCUSED) == "previous"
    assert page.evaluate("scrollY") < 200


def test_a_removed_filter_leaves_the_focus_on_the_next_one(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/rows?state=fail&tag=odd&q=sum")
    page.get_by_role("link", name="Remove state fail").press("Enter")
    wait_for_announcement(page, ODD)
    assert page.evaluate("document.activeElement.ariaLabel") == "Remove tag odd"


def test_a_search_keeps_the_field_and_what_is_typed(page: "Page") -> None:
    page.get_by_role("searchbox").fill("know")
    page.get_by_role("searchbox").press("Enter")
    wait_for_announcement(page, "1–40 of 40 results")  # noqa: RUF001 - a range
    assert page.evaluate("document.activeElement.value") == "know"
    page.get_by_role("link", name="Remove contains “know”").click()
    wait_for_announcement(page, FIRST_PAGE)
    assert page.get_by_role("searchbox").input_value() == ""


def test_back_and_forward_show_what_was_shown(page: "Page") -> None:
    page.get_by_role("link", name="next").click()
    wait_for_announcement(page, SECOND_PAGE)
    page.go_back()
    wait_for_announcement(page, FIRST_PAGE)
    assert page.get_by_role("link", name="next").count() == 1
    page.go_forward()
    wait_for_announcement(page, SECOND_PAGE)
    assert is_same_document(page)


def test_a_failed_request_becomes_a_navigation(page: "Page") -> None:
    page.route(
        "**/rows?**", lambda route: route.abort() if route.request.resource_type == "fetch" else route.continue_()
    )
    page.get_by_role("link", name="next").click()
    page.wait_for_function("() => window.isSameDocument !== true")
    assert page.locator("#count").inner_text() == SECOND_PAGE


def test_a_later_click_replaces_an_earlier_one_that_is_not_answered(page: "Page") -> None:
    held: list[str] = []
    page.route("**/rows?after=*", lambda route: held.append(route.request.url))  # and never answers
    page.get_by_role("link", name="next").click()
    page.get_by_role("link", name="score").click()
    page.get_by_role("link", name="score ↑").wait_for()
    assert len(held) == 1
    assert page.locator("#content").get_attribute("aria-busy") is None
    assert page.url.endswith("?sort=score")


def test_other_links_are_ordinary_navigation(page: "Page", runs: ViewedRuns) -> None:
    page.get_by_role("link", name="sum-3", exact=True).click()
    page.wait_for_url(f"**/r/{runs.run}/row/*")
    assert not is_same_document(page)
