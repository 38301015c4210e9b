"""The viewer is used by keyboard alone: with single letters as keys, and without them."""

from typing import TYPE_CHECKING

import pytest
from tests.support.browser import Tab, needs_driven_browser
from tests.support.viewed_runs import ViewedRuns

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = [needs_driven_browser, pytest.mark.slow]

FOCUSED = "document.activeElement.ariaLabel || document.activeElement.textContent || document.activeElement.id"
MAX_PRESSES = 60


def press(page: "Page", *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def count_is(page: "Page", text: str) -> None:
    page.wait_for_function("(text) => document.getElementById('count')?.textContent === text", arg=text)


def move_to(page: "Page", text: str, *, by: str) -> None:
    """Press a key until a control with a text has the focus, as people without a mouse do."""
    for _ in range(MAX_PRESSES):
        page.keyboard.press(by)
        if page.evaluate(FOCUSED).strip() == text:
            return
    raise AssertionError(f"{text!r} is not reached with {MAX_PRESSES} times {by}")


def tab_to(page: "Page", text: str) -> None:
    move_to(page, text, by="Tab")


def test_letters_lead_from_the_runs_to_a_row_and_back(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open("/")
    move_to(page, "nightly", by="j")
    press(page, "Enter")
    page.wait_for_url(f"**/r/{runs.run}")
    press(page, "g", "w")
    page.wait_for_url(f"**/r/{runs.run}/rows")
    press(page, "n")
    count_is(page, "101–130 of 130 results")  # noqa: RUF001 - a range
    press(page, "b")
    count_is(page, "1–100 of 130 results")  # noqa: RUF001 - a range
    press(page, "f", "Enter")
    page.get_by_role("link", name="Remove state pass").wait_for()
    press(page, "o")
    assert page.evaluate(FOCUSED) == "state"
    press(page, "j", "j", "k", "j")
    case = page.evaluate(FOCUSED)
    press(page, "Enter")
    page.wait_for_url("**/row/*")
    assert case in page.locator("h1").inner_text()
    press(page, "Escape")
    page.wait_for_url("**/rows?*state=pass")
    assert page.evaluate(FOCUSED) == case
    press(page, "/")
    page.keyboard.type("sum-10")
    press(page, "Enter")
    page.get_by_role("link", name="Remove contains “sum-10”").wait_for()
    press(page, "Escape", "Escape")
    page.wait_for_url(f"**/r/{runs.run}")
    press(page, "g", "r")
    page.wait_for_function("() => location.pathname === '/'")


def test_escape_closes_the_filters_before_it_leads_up(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/rows")
    press(page, "f", "Escape")
    assert page.evaluate(FOCUSED) == "Filters"
    assert page.locator("#filters[open]").count() == 0
    press(page, "Escape")
    page.wait_for_url(f"**/r/{runs.run}")


def test_enter_opens_the_later_result_of_a_pair_and_escape_leads_back(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/compare/{runs.before}..{runs.run}?only=same")
    page.locator(".compared").first.wait_for()
    press(page, "j", "j")
    focused = page.evaluate(FOCUSED)
    assert focused.startswith("open the result after of ")
    press(page, "Enter")
    page.wait_for_url(f"**/r/{runs.run}/row/*")
    press(page, "Escape")
    page.wait_for_url(f"**/compare/{runs.before}..{runs.run}?only=same")
    assert page.evaluate(FOCUSED) == focused


def test_escape_leads_from_a_case_back_to_the_grid(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/grid?q=sum-10")
    press(page, "j", "Enter")
    page.wait_for_url("**/case/*")
    press(page, "Escape")
    page.wait_for_url(f"**/r/{runs.run}/grid?q=sum-10")


def test_all_is_reached_with_letters_switched_off(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open("/")
    tab_to(page, "Keys ?")
    press(page, "Enter")
    page.locator("#letters:focus").wait_for()
    press(page, "Space", "Escape")
    assert page.get_by_role("dialog").count() == 0
    press(page, "j", "/", "g", "r", "?")
    assert page.evaluate(FOCUSED) == "Keys ?"
    assert page.get_by_role("dialog").count() == 0
    tab_to(page, "nightly")
    press(page, "Enter")
    page.wait_for_url(f"**/r/{runs.run}")
    tab_to(page, "Rows")
    press(page, "Enter")
    page.wait_for_url(f"**/r/{runs.run}/rows")
    tab_to(page, "Filters")
    press(page, "Enter")
    tab_to(page, "error")
    press(page, "Enter")
    count_is(page, "1–13 of 13 results")  # noqa: RUF001 - a range
    tab_to(page, "sum-1")
    press(page, "Enter")
    page.wait_for_url("**/row/*")
    press(page, "Escape")
    page.wait_for_url("**/rows?state=error")
    assert page.evaluate(FOCUSED) == "sum-1"


def test_letters_in_a_field_or_with_a_modifier_are_no_keys(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/rows")
    press(page, "/")
    page.keyboard.type("fjno?gr")
    assert page.get_by_role("searchbox").input_value() == "fjno?gr"
    press(page, "Escape", "Control+j", "Alt+f", "Meta+n")
    assert page.locator("tr.current").count() == 0
    assert page.locator("#filters").get_attribute("open") is None
    assert page.get_by_role("dialog").count() == 0
    press(page, "j")
    assert page.locator("tr.current").count() == 1


def test_a_key_presses_the_control_that_names_it(tab: Tab) -> None:
    page = tab.page
    page.evaluate(
        """() => {
          document.getElementById("content").innerHTML = `
            <button data-key="p">Pass</button><button data-key="x" disabled>Transcript</button>
            <textarea data-key="m" aria-label="Note"></textarea><button data-key="Enter">Send</button>`;
          window.pressed = [];
          for (const each of document.querySelectorAll("button[data-key]"))
            each.addEventListener("click", () => window.pressed.push(each.textContent));
        }"""
    )
    press(page, "p", "x", "Enter")
    assert page.evaluate("window.pressed") == ["Pass", "Send"]
    press(page, "m")
    page.keyboard.type("pp")
    press(page, "Enter")
    assert page.get_by_role("textbox", name="Note").input_value() == "pp\n"
    assert page.evaluate("window.pressed") == ["Pass", "Send"]


def test_a_key_marks_the_current_row(tab: Tab) -> None:
    page = tab.open("/")
    press(page, "c")
    assert page.locator("main input:checked").count() == 0
    press(page, "j", "j", "c")
    assert page.evaluate("[...document.querySelectorAll('input[name=run]')].map((each) => each.checked)")[:2] == [
        False,
        True,
    ]


def test_the_keys_of_a_review_are_not_those_of_lists(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open(f"/r/{runs.run}/rows")
    page.evaluate("document.getElementById('content').dataset.keys = 'review'")
    press(page, "f", "j", "n")
    assert page.locator("#filters").get_attribute("open") is None
    assert page.locator("tr.current").count() == 0


def test_the_dialog_names_the_keys_that_do_something_here(tab: Tab, runs: ViewedRuns) -> None:
    page = tab.open("/")
    press(page, "?")
    dialog = page.get_by_role("dialog", name="Keys")
    assert "search" in dialog.inner_text()
    assert "next page" not in dialog.inner_text()
    tab.open(f"/r/{runs.run}/rows")
    press(page, "?")
    assert "next page" in dialog.inner_text()
    press(page, "Escape")
    assert not dialog.is_visible()
